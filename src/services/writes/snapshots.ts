/** Snapshots: states of aggregates at a revision, kept in memory. */
import { LRUCache } from 'lru-cache'

export interface Snapshot<State> {
  state: State
  revision: number
  /** The stream was closed before its aggregate was created: see `commands/execution/claims.ts`. */
  abandoned: boolean
}

/** The snapshots of one decider, by stream. */
export type Snapshots<State> = Pick<Map<string, Snapshot<State>>, 'get'> & {
  set(stream: string, snapshot: Snapshot<State>): void
}

/** The key of the snapshots of one decider. `state` only carries the type. */
export interface SnapshotKey<State> {
  readonly state?: State
}

/** Returns the snapshots of a decider. */
export type SnapshotCaches = <State>(key: SnapshotKey<State>) => Snapshots<State>

/** Maximum number of snapshots of one decider. */
const MAX_SNAPSHOTS = 5000

/** Creates the snapshots of all deciders. The past of a stream never changes, so a snapshot is never wrong. */
export function createSnapshotCaches(): SnapshotCaches {
  // The type of a value follows from its key, which the type of a map cannot say: so this map has no types.
  const caches = new WeakMap()
  return (key) => {
    const cache = caches.get(key) ?? new LRUCache({ max: MAX_SNAPSHOTS })
    caches.set(key, cache)
    return cache
  }
}
