/**
 * Snapshots of documents, in memory. A stream's past never changes, so a replay of thousands of events can continue from
 * a snapshot of an earlier replay. The replays of a slider, moment by moment, then read only few events each.
 */
import { LRUCache } from 'lru-cache'
import type { EventStore, Position } from '../../events/store/event-store.ts'

/** Events between two snapshots of a stream. */
export const SNAPSHOT_INTERVAL = 1000
const MAX_SNAPSHOTS = 2000
/** Maximum size of the documents of all snapshots, in bytes, approximately. */
const MAX_SIZE = 32 * 1024 * 1024

/** The place of an event in its stream, in the log and in time. */
export interface StreamPoint {
  revision: number
  position: Position
  /** ISO 8601 in UTC with milliseconds. */
  at: string
}

export interface Replayed<D extends object> {
  /** Undefined when the document did not exist. */
  document: D | undefined
  /** The last event that was folded; undefined when there was none. */
  last: StreamPoint | undefined
}

export interface DocumentSnapshots<D extends object> {
  /** The latest snapshot up to the revision. */
  before(stream: string, revision: number): Replayed<D> | undefined
  /**
   * Keeps the replay if it ends at a multiple of `SNAPSHOT_INTERVAL`. `erasures`: the log's count of erasures when the
   * replay began.
   */
  keep(stream: string, replayed: Replayed<D>, erasures?: number): void
}

const keyOf = (stream: string, revision: number) => `${stream} ${revision}`

/** Creates the snapshots of the documents of one fold. An erasure of texts empties them. */
export function createDocumentSnapshots<D extends object>(
  { erasures: erasuresNow = () => 0 }: Pick<EventStore, 'erasures'>,
  maxSize = MAX_SIZE,
): DocumentSnapshots<D> {
  let emptiedAt = erasuresNow()
  let cache = emptyCache<D>(maxSize)

  function current() {
    const now = erasuresNow()
    if (emptiedAt !== now) cache = emptyCache<D>(maxSize)
    emptiedAt = now
    return cache
  }

  return {
    before(stream, revision) {
      const { snapshots, revisions } = current()
      let last = -1
      for (const kept of revisions.get(stream) ?? []) {
        if (kept > last && kept <= revision) last = kept
      }
      return snapshots.get(keyOf(stream, last))
    },
    keep(stream, replayed, erasures = erasuresNow()) {
      const { last } = replayed
      if (last === undefined || (last.revision + 1) % SNAPSHOT_INTERVAL !== 0) return
      // Its texts were read before they were erased.
      if (erasures !== erasuresNow()) return
      const { snapshots, revisions } = current()
      const key = keyOf(stream, last.revision)
      if (snapshots.has(key)) return
      snapshots.set(key, replayed)
      // The cache rejects a document that is larger than the whole cache.
      if (!snapshots.has(key)) return
      revisions.set(stream, (revisions.get(stream) ?? new Set()).add(last.revision))
    },
  }
}

function emptyCache<D extends object>(maxSize: number) {
  /** Revisions of the snapshots of each stream. A client may ask for any revision, so it is too slow to try them all. */
  const revisions = new Map<string, Set<number>>()
  const snapshots = new LRUCache<string, Replayed<D>>({
    max: MAX_SNAPSHOTS,
    maxSize,
    sizeCalculation: ({ document }) => 500 + 2 * JSON.stringify(document ?? null).length,
    dispose(_, key) {
      const [stream = '', revision] = key.split(' ')
      const ofStream = revisions.get(stream)
      ofStream?.delete(Number(revision))
      if (ofStream?.size === 0) revisions.delete(stream)
    },
  })
  return { snapshots, revisions }
}
