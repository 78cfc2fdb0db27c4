/** Progress of a projector in the log: the positions of its read models, and of delivered and skipped events. */
import { LOG_START, type Position } from '../../events/store/event-store.ts'
import type { Progress } from '../generations/shared-models.ts'

export type Reach = ReturnType<typeof createReach>

export function createReach(progress: readonly Progress[]) {
  /** The last delivered event. It may still be unwritten, or be delivered again. */
  let last: Position = LOG_START
  /** Position up to which subscriptions have read the log; all events after `last` were skipped. */
  let seen: Position = LOG_START

  const running = () => progress.filter((p) => p.stopped === undefined)

  return {
    running,
    last: () => last,
    delivered(position: Position): void {
      last = Math.max(last, position)
    },
    skippedUpTo(position: Position): void {
      seen = position
    },
    /**
     * Returns the position that every running read model has reached. Without running models, it stays where they
     * stopped.
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
