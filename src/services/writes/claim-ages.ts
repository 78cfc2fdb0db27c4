/** The ages of claims, as this process knows them: see `commands/execution/claims.ts`. */
import { LRUCache } from 'lru-cache'
import type { Position, RecordedEvent } from '../../events/store/event-store.ts'

/** Maximum number of claims that are remembered. A forgotten claim counts as seen for the first time. */
const MAX_SEEN = 10_000

/** The start of this process. */
export interface ProcessStart {
  /** The name under which this process appends. */
  node: string
  /** The end of the log at the start. */
  position: Position
  /** Whether no other process of this name is alive. */
  isOnly?: () => boolean
}

export interface ClaimAges {
  /** Milliseconds of a clock that never goes back. */
  now(): number
  /**
   * Time since this process first saw the claim, in milliseconds. The claim is as old or older. The time in its event does not
   * count: the clocks of servers differ.
   */
  ageOf(claim: Pick<RecordedEvent, 'stream' | 'revision' | 'position'>): number
  /** Whether a process of this node that has ended appended an event. */
  isOfEndedProcess(event: { position: Position; node: string | undefined }): boolean
}

/** Creates the ages of claims. Without `start`, no process of this node is known to have ended. */
export function createClaimAges(start?: ProcessStart, now = () => performance.now()): ClaimAges {
  const startedAt = now()
  /** The time at which this process first saw a claim, by its stream and revision. */
  const seen = new LRUCache<string, number>({ max: MAX_SEEN })

  return {
    now,
    ageOf({ stream, revision, position }) {
      if (start !== undefined && position <= start.position) return now() - startedAt
      const key = `${stream} ${revision}`
      const since = seen.get(key) ?? now()
      seen.set(key, since)
      return now() - since
    },
    isOfEndedProcess({ position, node }) {
      if (start === undefined || node !== start.node || position > start.position) return false
      return start.isOnly?.() ?? true
    },
  }
}
