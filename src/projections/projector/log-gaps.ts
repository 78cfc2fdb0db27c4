/** Detects events that a log has lost: a scavenge removed them after a deletion or a `$maxCount`. */
import type { RecordedEvent } from '../../events/store/event-store.ts'

/** Maximum number of reported gaps. */
const MAX_GAPS = 100

export interface Gaps {
  /** Checks the next event of the log. */
  next(event: RecordedEvent): void
  /** Returns the gaps as text: `issue-1.3: revisions 0 to 4`. Completely lost streams leave no trace. */
  found(): readonly string[]
}

/**
 * Keeps the last event of each stream in memory. A revision of another application is not a gap: the hash chain
 * continues over it.
 */
export function createGaps(): Gaps {
  const ends = new Map<string, { revision: number; hash: string | null }>()
  const gaps: string[] = []
  return {
    next(event) {
      const { stream, revision, metadata } = event
      const end = ends.get(stream) ?? { revision: -1, hash: null }
      ends.set(stream, { revision, hash: metadata.hash ?? null })
      const first = end.revision + 1
      if (revision <= first || metadata.previous === end.hash || gaps.length >= MAX_GAPS) return
      const last = revision - 1
      gaps.push(`${stream}: ${first === last ? `revision ${first}` : `revisions ${first} to ${last}`}`)
    },
    found: () => gaps,
  }
}
