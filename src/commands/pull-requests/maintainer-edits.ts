/**
 * Decides `pulls.edit.7`: writers of a repository may push to a branch of a fork when an open pull request from it
 * allows that, and while its poster may write to the fork.
 */

import { accessTo, atLeast } from '../../access/access.ts'
import { nextSlice } from '../../concurrency/event-loop.ts'
import { branchKey, type PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { branchNames } from './branches/branch-tips.ts'

/** Returns a filter for pull requests from a fork that allow the requester to push; undefined when there are none. */
async function pullsAllowingPush(
  { views }: Services,
  fork: RepositoryDocument,
  requester: AccountDocument | null,
): Promise<Filter<PullDocument> | undefined> {
  if (requester === null || fork.parentId === null) return undefined
  const parent = await views.repositories.get(`${fork.parentId}`)
  if (parent === undefined || !atLeast(accessTo(parent, requester), 'write')) return undefined
  return { repoId: parent.id, status: 'open', allowMaintainerEdit: true }
}

/** Number of pull requests whose posters are read together. */
const BATCH = 100
/** Number of branches in one query. A push may have thousands. */
const BRANCHES_PER_QUERY = 200

/** Returns the pull requests whose posters may write to the head repository now. */
async function ofPostersWhoMayWrite<P extends Pick<PullDocument, 'poster'>>(
  { views }: Services,
  headRepository: RepositoryDocument,
  pulls: readonly P[],
): Promise<P[]> {
  const posters = await views.accounts.getMany([...new Set(pulls.map(({ poster }) => `${poster.id}`))])
  const writers = posters.filter((poster) => atLeast(accessTo(headRepository, poster), 'write'))
  const ids = new Set(writers.map(({ id }) => id))
  return pulls.filter(({ poster }) => ids.has(poster.id))
}

/** Returns whether a pull request lets the requester, a writer of its base, push to its head branch now. */
export async function allowsPushToHead(
  services: Services,
  pull: Pick<PullDocument, 'poster' | 'allowMaintainerEdit'>,
  repositories: { base: RepositoryDocument; head: RepositoryDocument },
  requester: AccountDocument,
): Promise<boolean> {
  if (!pull.allowMaintainerEdit || !atLeast(accessTo(repositories.base, requester), 'write')) return false
  return (await ofPostersWhoMayWrite(services, repositories.head, [pull])).length > 0
}

/** Returns whether a requester without write access to the fork may push to any of its branches. */
export async function mayPushAnyBranch(
  services: Services,
  fork: RepositoryDocument,
  requester: AccountDocument | null,
): Promise<boolean> {
  const allowing = await pullsAllowingPush(services, fork, requester)
  if (allowing === undefined) return false
  // The key range of all branches of the fork: ';' follows ':'.
  const headKey = { $gte: branchKey(fork.id, ''), $lt: `${fork.id};` }
  for (let skip = 0; ; skip += BATCH) {
    const sort = [['index', 1]] as const
    const found = await services.views.pulls.find({ ...allowing, headKey }, { sort, skip, limit: BATCH })
    if ((await ofPostersWhoMayWrite(services, fork, found)).length > 0) return true
    if (found.length < BATCH) return false
  }
}

/** Returns those of `refs` that a requester without write access to the fork may push. */
export async function pushableRefs(
  services: Services,
  fork: RepositoryDocument,
  requester: AccountDocument | null,
  refs: readonly string[],
): Promise<ReadonlySet<string>> {
  const allowing = await pullsAllowingPush(services, fork, requester)
  const branches = branchNames(refs)
  if (allowing === undefined || branches.length === 0) return new Set()
  const pushable = new Set<string>()
  for (let i = 0; i < branches.length; i += BRANCHES_PER_QUERY) {
    if (i > 0) await nextSlice('refs')
    const headKey = {
      $in: branches.slice(i, i + BRANCHES_PER_QUERY).map((branch) => branchKey(fork.id, branch)),
    }
    const found = await services.views.pulls.find({ ...allowing, headKey })
    for (const { head } of await ofPostersWhoMayWrite(services, fork, found))
      pushable.add(`refs/heads/${head.branch}`)
  }
  return pushable
}
