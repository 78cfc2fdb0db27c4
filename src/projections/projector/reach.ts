/** How far a projector has come in the log: what its read models have taken, and what came or passed without them. */
import { LOG_START, type Position } from '../../events/store/event-store.ts'
import type { Progress } from '../generations/shared-models.ts'

export type Reach = ReturnType<typeof createReach>

export function createReach(progress: readonly Progress[]) {
  /** The last event that came. It may be written later, or have to come again. */
  let last: Position = LOG_START
  /** How far subscriptions have passed the log: between `last` and here are only events of others. */
  let seen: Position = LOG_START

  const running = () => progress.filter((p) => p.stopped === undefined)

  return {
    running,
    last: () => last,
    came(position: Position): void {
      last = Math.max(last, position)
    },
    sawUpTo(position: Position): void {
      seen = position
    },
    /**
     * The position that every running read model has taken. What stopped models have not taken is never passed: when none
     * runs, nothing more is.
     */
    passed(): Position {
      const models = running()
      if (models.length === 0) return leastOf(progress)
      const taken = leastOf(models)
      return taken < last ? taken : Math.max(taken, seen)
    },
  }
}

function leastOf(progress: readonly Progress[]): Position {
  return progress.reduce((least, { position }) => Math.min(least, position), Number.MAX_SAFE_INTEGER)
}
