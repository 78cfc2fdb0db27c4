/** The state of an aggregate at a revision, in memory. */
import { LRUCache } from 'lru-cache'
import type { EventStore } from '../events/event-store.ts'
import { perStore } from '../per-store.ts'

export interface Snapshot<State> {
  state: State
  revision: number
  /** The stream was closed before its aggregate was made: see `claims.ts`. */
  abandoned: boolean
}

/** By stream. */
export type Snapshots<State> = (store: EventStore) => LRUCache<string, Snapshot<State>>

/** Of one decider and one store. */
const MAX_SNAPSHOTS = 5000

/** A stream's past never changes: with a snapshot only what came since is read. */
export function snapshots<State>(): Snapshots<State> {
  return perStore(() => new LRUCache({ max: MAX_SNAPSHOTS }))
}
