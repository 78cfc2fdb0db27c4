/**
 * Snapshots of documents, in memory. A stream's past never changes, so a replay of thousands of events can continue from
 * a snapshot of an earlier replay. The replays of a slider, moment by moment, then read only few events each.
 */
import { LRUCache } from 'lru-cache'
import { perStore } from '../../../concurrency/per-store.ts'
import type { EventStore } from '../../../events/store/event-store.ts'
import type { Replayed } from './replay-stream.ts'

/** Events between two snapshots of a stream. */
export const SNAPSHOT_INTERVAL = 1000
const MAX_SNAPSHOTS = 2000
/** Approximate size of the documents of all snapshots, in bytes. */
const MAX_SIZE = 32 * 1024 * 1024

export interface Snapshots<D extends object> {
  /** The latest snapshot up to the revision. */
  before(store: EventStore, stream: string, revision: number): Replayed<D> | undefined
  /**
   * Keeps the replay if it ends at a multiple of `SNAPSHOT_INTERVAL`. `erasures`: those of the store when the replay
   * began.
   */
  keep(store: EventStore, stream: string, replayed: Replayed<D>, erasures?: number): void
}

const keyOf = (stream: string, revision: number) => `${stream} ${revision}`

export function createSnapshots<D extends object>(maxSize = MAX_SIZE): Snapshots<D> {
  const ofStore = perStore(() => ({ erasures: 0, kept: nothingKept<D>(maxSize) }))

  /** What is kept of a store; nothing of before the last erasure of texts. */
  function keptOf(store: EventStore) {
    const known = ofStore(store)
    const erasures = store.erasures?.() ?? 0
    if (known.erasures !== erasures) Object.assign(known, { erasures, kept: nothingKept<D>(maxSize) })
    return known.kept
  }

  return {
    before(store, stream, revision) {
      const { snapshots, revisions } = keptOf(store)
      let last = -1
      for (const kept of revisions.get(stream) ?? []) {
        if (kept > last && kept <= revision) last = kept
      }
      return snapshots.get(keyOf(stream, last))
    },
    keep(store, stream, replayed, erasures = store.erasures?.() ?? 0) {
      const { last } = replayed
      if (last === undefined || (last.revision + 1) % SNAPSHOT_INTERVAL !== 0) return
      // Its texts were read before they were erased.
      if (erasures !== (store.erasures?.() ?? 0)) return
      const kept = keptOf(store)
      const key = keyOf(stream, last.revision)
      if (kept.snapshots.has(key)) return
      kept.snapshots.set(key, replayed)
      // The cache rejects a document that is larger than the whole cache.
      if (!kept.snapshots.has(key)) return
      const revisions = kept.revisions.get(stream) ?? new Set()
      kept.revisions.set(stream, revisions.add(last.revision))
    },
  }
}

function nothingKept<D extends object>(maxSize: number) {
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
