/**
 * Edit rule 7 for pushes: writers of a repository may push to a branch of a fork when an open pull request from that
 * branch into the repository allows it.
 */
import type { AccountDocument } from '../../projections/accounts.ts'
import { branchKey, type PullDocument } from '../../projections/pulls.ts'
import type { Filter } from '../../projections/read-store.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { accessTo, atLeast } from '../../rights/access.ts'
import type { Services } from '../../services.ts'
import { branchNames } from './branch-tips.ts'

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
  return (await services.views.pulls.find({ ...inviting, headKey }, { limit: 1 })).length > 0
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
  const headKey = { $in: branches.map((branch) => branchKey(fork.id, branch)) }
  const found = await services.views.pulls.find({ ...inviting, headKey })
  return new Set(found.map(({ head }) => `refs/heads/${head.branch}`))
}
