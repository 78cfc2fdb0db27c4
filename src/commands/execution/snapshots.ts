/** Snapshots: states of aggregates at a revision, kept in memory. */
import { LRUCache } from 'lru-cache'
import { perStore } from '../../concurrency/per-store.ts'
import type { EventStore } from '../../events/store/event-store.ts'

export interface Snapshot<State> {
  state: State
  revision: number
  /** The stream was closed before its aggregate was created: see `claims.ts`. */
  abandoned: boolean
}

/** The snapshots of one decider in one event store, by stream. */
export type Snapshots<State> = (
  store: EventStore,
) => Pick<Map<string, Snapshot<State>>, 'get'> & { set(stream: string, snapshot: Snapshot<State>): void }

/** For one decider and one event store. */
const MAX_SNAPSHOTS = 5000

/** Snapshots of a decider. The past of a stream never changes, so a load reads only the events after its snapshot. */
export function snapshots<State>(): Snapshots<State> {
  return perStore(() => new LRUCache({ max: MAX_SNAPSHOTS }))
}
