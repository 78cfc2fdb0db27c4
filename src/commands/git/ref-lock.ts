/** The lock of a repository's refs, on all nodes: held from before they move until the moves are in the log. */
import { isShared } from '../../config/config.ts'
import type { ExpectedRevision } from '../../events/store/event-store.ts'
import { gitStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'

/** The key of the lock. Take the lock of the repository's merges first, if both are needed. */
export const refLockKey = (repoId: number) => `git ${repoId}`

/**
 * Runs `work`, which moves and records refs, under the lock. `since`: the revision that `recordRefs` must expect. A
 * suspended node may lose its lock without notice; when another node has appended meanwhile, nothing is recorded over
 * it. A single node cannot lose a lock, so it skips the read.
 */
export function withRefLock<T>(
  services: Pick<Services, 'config' | 'events' | 'runExclusive'>,
  repoId: number,
  work: (since: ExpectedRevision) => Promise<T>,
): Promise<T> {
  return services.runExclusive(refLockKey(repoId), async () => work(await revisionNow(services, repoId)))
}

async function revisionNow(
  { config, events }: Pick<Services, 'config' | 'events'>,
  repoId: number,
): Promise<ExpectedRevision> {
  if (!isShared(config)) return 'any'
  const options = { direction: 'backwards', maxCount: 1 } as const
  for await (const { revision } of events.readStream(gitStream(repoId), options)) return revision
  return 'no-stream'
}
