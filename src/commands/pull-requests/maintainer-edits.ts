/**
 * `pulls.edit.7`: writers of a repository may push to a branch of a fork when an open pull request from that branch into
 * the repository allows it. The flag gives what its poster may give now: nothing when the poster does not write to the
 * fork any more.
 */

import { accessTo, atLeast } from '../../access/access.ts'
import { nextSlice } from '../../concurrency/event-loop.ts'
import { branchKey, type PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { branchNames } from './branches/branch-tips.ts'

/** A filter for the pull requests from a fork that allow the requester to push; undefined when there can be none. */
async function invitations(
  { views }: Services,
  fork: RepositoryDocument,
  requester: AccountDocument | null,
): Promise<Filter<PullDocument> | undefined> {
  if (requester === null || fork.parentId === null) return undefined
  const parent = await views.repositories.get(`${fork.parentId}`)
  if (parent === undefined || !atLeast(accessTo(parent, requester), 'write')) return undefined
  return { repoId: parent.id, status: 'open', allowMaintainerEdit: true }
}

/** Pull requests whose posters are looked up at one time. */
const AT_ONCE = 100
/** The pull requests of so many branches are looked for at a time. A push may have thousands. */
const BRANCHES_AT_ONCE = 200

/** Those of the pull requests from a repository whose posters may write to it now. */
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

/** Whether a pull request lets the requester, a writer of its base repository, push to its head branch now. */
export async function allowsPushToHead(
  services: Services,
  pull: Pick<PullDocument, 'poster' | 'allowMaintainerEdit'>,
  repositories: { base: RepositoryDocument; head: RepositoryDocument },
  requester: AccountDocument,
): Promise<boolean> {
  if (!pull.allowMaintainerEdit || !atLeast(accessTo(repositories.base, requester), 'write')) return false
  return (await ofPostersWhoMayWrite(services, repositories.head, [pull])).length > 0
}

/** Whether a requester without write access to the fork may push to any branch of it. */
export async function mayPushAnyBranch(
  services: Services,
  fork: RepositoryDocument,
  requester: AccountDocument | null,
): Promise<boolean> {
  const inviting = await invitations(services, fork, requester)
  if (inviting === undefined) return false
  // The range of the keys of all branches of the fork: ';' comes right after ':'.
  const headKey = { $gte: branchKey(fork.id, ''), $lt: `${fork.id};` }
  for (let skip = 0; ; skip += AT_ONCE) {
    const sort = [['index', 1]] as const
    const found = await services.views.pulls.find({ ...inviting, headKey }, { sort, skip, limit: AT_ONCE })
    if ((await ofPostersWhoMayWrite(services, fork, found)).length > 0) return true
    if (found.length < AT_ONCE) return false
  }
}

/** The refs that a requester without write access to the fork may push, among `refs`. */
export async function pushableRefs(
  services: Services,
  fork: RepositoryDocument,
  requester: AccountDocument | null,
  refs: readonly string[],
): Promise<ReadonlySet<string>> {
  const inviting = await invitations(services, fork, requester)
  const branches = branchNames(refs)
  if (inviting === undefined || branches.length === 0) return new Set()
  const pushable = new Set<string>()
  for (let i = 0; i < branches.length; i += BRANCHES_AT_ONCE) {
    if (i > 0) await nextSlice('refs')
    const headKey = {
      $in: branches.slice(i, i + BRANCHES_AT_ONCE).map((branch) => branchKey(fork.id, branch)),
    }
    const found = await services.views.pulls.find({ ...inviting, headKey })
    for (const { head } of await ofPostersWhoMayWrite(services, fork, found))
      pushable.add(`refs/heads/${head.branch}`)
  }
  return pushable
}
