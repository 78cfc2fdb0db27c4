/** The turn of a repository's refs: from before they move until the moves are in the log. It holds on all nodes. */
import { isShared } from '../../config/config.ts'
import type { ExpectedRevision } from '../../events/store/event-store.ts'
import { gitStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'

/** The key of the turn. Whoever needs the turn of the repository's merges, too, takes that one first. */
export const refLockKey = (repoId: number) => `git ${repoId}`

/**
 * Runs `work`, which moves refs and records the moves, in the repository's turn. `since`: the revision at which
 * `recordRefs` must find the stream. A node that stood still may have lost its turn without knowing: then another node
 * has written meanwhile, and nothing is recorded over it. A single node cannot lose a turn, so nothing is read there.
 */
export function withRefLock<T>(
  services: Pick<Services, 'config' | 'events' | 'turns'>,
  repoId: number,
  work: (since: ExpectedRevision) => Promise<T>,
): Promise<T> {
  return services.turns(refLockKey(repoId), async () => work(await revisionNow(services, repoId)))
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
