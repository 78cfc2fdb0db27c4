/**
 * Replays on the way: a stream's past never changes, so that a replay of thousands of events goes on from one that
 * was made before. What a slider asks for, moment by moment, is then read in small parts.
 */
import { LRUCache } from 'lru-cache'
import type { EventStore } from '../events/event-store.ts'
import type { Replayed } from './replay-stream.ts'

/** Of each stream every so many events are remembered. */
export const MILESTONE = 1000
const MAX_MILESTONES = 2000

export interface Milestones<D extends object> {
  /** The last milestone that is not after the revision. */
  before(store: EventStore, stream: string, revision: number): Replayed<D> | undefined
  keep(store: EventStore, stream: string, replayed: Replayed<D>): void
}

export function createMilestones<D extends object>(): Milestones<D> {
  const byStore = new WeakMap<EventStore, LRUCache<string, Replayed<D>>>()
  const keyOf = (stream: string, revision: number) => `${stream} ${revision}`

  return {
    before(store, stream, revision) {
      const known = byStore.get(store)
      if (known === undefined) return undefined
      for (let count = Math.floor((revision + 1) / MILESTONE); count > 0; count--) {
        const replayed = known.get(keyOf(stream, count * MILESTONE - 1))
        if (replayed !== undefined) return replayed
      }
      return undefined
    },
    keep(store, stream, replayed) {
      const { last } = replayed
      if (last === undefined || (last.revision + 1) % MILESTONE !== 0) return
      const known = byStore.get(store) ?? new LRUCache<string, Replayed<D>>({ max: MAX_MILESTONES })
      byStore.set(store, known)
      known.set(keyOf(stream, last.revision), replayed)
    },
  }
}
