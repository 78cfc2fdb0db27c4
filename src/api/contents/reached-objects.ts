/** Looks up objects that a client names by id. An object that no ref reaches is not found, as for a fetch. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { clientOf } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { NamedCommit } from '../../git/commits/named-commit.ts'
import { isReached, pastTips } from '../../git/commits/reachable.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { currentMoment } from '../../services/moment.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { commitOf } from '../statuses/statuses.ts'
import { allRefsOf, refsOf, requireCommits } from './refs-in-time.ts'

/** The HTTP request of a search, which takes a slot of the client and ends when the client disconnects. */
export interface Caller {
  request: FastifyRequest
  reply: FastifyReply
}

/** Matches an id, whole or abbreviated. A branch may have such a name, too. */
const MAY_BE_ID = /^[0-9a-f]{7,40}$/i

const NO_SUCH_COMMIT = refuse.notFound('there is no branch, tag or commit with that name')

/**
 * Whether a ref of the repository reaches the object: a commit, a tree, a file or a tag. At a past moment, a ref of that
 * moment or a present one.
 */
export async function isServed(
  services: Pick<Services, 'gitLimits' | 'gitDir'>,
  { request, reply }: Caller,
  { id }: Pick<RepositoryDocument, 'id'>,
  object: string,
): Promise<boolean> {
  const dir = gitDirOf(services, id)
  const inSlot: Parameters<typeof isReached>[2] = (search) =>
    services.gitLimits.diffs.ask(clientOf(request), disconnectSignal(reply), search)
  if (await isReached(dir, object, inSlot)) return true
  if (currentMoment() === undefined) return false
  const past = (await allRefsOf(services, id)).map(({ sha }) => sha)
  return await isReached(dir, object, inSlot, await pastTips(dir, new Set(past)))
}

/**
 * Returns the id of the commit that `ref` names, as `commitOf`, for an answer that shows the commit or a ref to it.
 * @throws Refused: not found, also when no ref reaches it; gone, when git no longer has a commit of the past
 */
export async function servedCommitOf(
  services: Services,
  caller: Caller,
  repository: RepositoryDocument,
  ref: string,
): Promise<string> {
  const sha = await commitOf(services, repository, ref)
  if (!MAY_BE_ID.test(ref)) await requireCommits(services, repository.id, [sha])
  else if (!(await isServed(services, caller, repository, sha))) {
    await refsOf(services, repository.id).onUnresolved?.(sha)
    throw new Refused(NO_SUCH_COMMIT)
  }
  return sha
}

/**
 * Checks again, under the ref lock, that a ref reaches the commit of a new ref: the earlier one may be deleted by then.
 * @throws Refused (not found)
 */
export async function requireServed(
  services: Services,
  caller: Caller,
  repository: Pick<RepositoryDocument, 'id'>,
  sha: string,
): Promise<void> {
  if (!(await isServed(services, caller, repository, sha))) throw new Refused(NO_SUCH_COMMIT)
}

/** Returns the commit; undefined when it was named by its id, and no ref reaches it. */
export async function ifServed<C extends NamedCommit>(
  services: Services,
  caller: Caller,
  repository: RepositoryDocument,
  commit: C,
): Promise<C | undefined> {
  const isThere = commit.kind !== 'commit' || (await isServed(services, caller, repository, commit.sha))
  return isThere ? commit : undefined
}
