/** Snapshots of the states that a decider has folded. */
import type { SnapshotCaches, SnapshotKey, Snapshots } from '../../services/writes/snapshots.ts'

/** Returns the snapshots of one decider, out of those of all deciders. */
export type SnapshotsOf<State> = (caches: SnapshotCaches) => Snapshots<State>

/** Makes the snapshots of a decider: a load then reads only the events after its snapshot. */
export function snapshots<State>(): SnapshotsOf<State> {
  const key: SnapshotKey<State> = {}
  return (caches) => caches(key)
}
