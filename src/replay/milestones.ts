/**
 * Replays on the way: a stream's past never changes, so that a replay of thousands of events goes on from one that
 * was made before. What a slider asks for, moment by moment, is then read in small parts.
 */
import { LRUCache } from 'lru-cache'
import type { EventStore } from '../events/event-store.ts'
import { perStore } from '../per-store.ts'
import type { Replayed } from './replay-stream.ts'

/** Of each stream every so many events are remembered. */
export const MILESTONE = 1000
const MAX_MILESTONES = 2000
/** Bytes that the documents of all milestones take, roughly. */
const MAX_SIZE = 32 * 1024 * 1024

export interface Milestones<D extends object> {
  /** The last known milestone that is not after the revision. */
  before(store: EventStore, stream: string, revision: number): Replayed<D> | undefined
  /** Remembers the replay if it ends at a milestone. */
  keep(store: EventStore, stream: string, replayed: Replayed<D>): void
}

interface Known<D extends object> {
  replays: LRUCache<string, Replayed<D>>
  /** At which revisions of a stream: any number may be asked for, so that they must not be tried one by one. */
  revisions: Map<string, Set<number>>
}

const keyOf = (stream: string, revision: number) => `${stream} ${revision}`

export function createMilestones<D extends object>(maxSize = MAX_SIZE): Milestones<D> {
  const knownOf = perStore(() => knowingNothing<D>(maxSize))

  return {
    before(store, stream, revision) {
      const { replays, revisions } = knownOf(store)
      let last = -1
      for (const kept of revisions.get(stream) ?? []) {
        if (kept > last && kept <= revision) last = kept
      }
      return replays.get(keyOf(stream, last))
    },
    keep(store, stream, replayed) {
      const { last } = replayed
      if (last === undefined || (last.revision + 1) % MILESTONE !== 0) return
      const known = knownOf(store)
      const key = keyOf(stream, last.revision)
      if (known.replays.has(key)) return
      known.replays.set(key, replayed)
      // A document that is larger than all room is not kept.
      if (!known.replays.has(key)) return
      const revisions = known.revisions.get(stream) ?? new Set()
      known.revisions.set(stream, revisions.add(last.revision))
    },
  }
}

function knowingNothing<D extends object>(maxSize: number): Known<D> {
  const revisions: Known<D>['revisions'] = new Map()
  const replays = new LRUCache<string, Replayed<D>>({
    max: MAX_MILESTONES,
    maxSize,
    sizeCalculation: ({ document }) => 500 + 2 * JSON.stringify(document ?? null).length,
    dispose(_, key) {
      const [stream = '', revision] = key.split(' ')
      const ofStream = revisions.get(stream)
      ofStream?.delete(Number(revision))
      if (ofStream?.size === 0) revisions.delete(stream)
    },
  })
  return { replays, revisions }
}
