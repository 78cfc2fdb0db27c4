/**
 * Edit rule 7, where it counts: writers of a repository may push to the branches of forks from which open pull
 * requests into it allow that.
 */
import type { AccountDocument } from '../../projections/accounts.ts'
import { branchKey, type PullDocument } from '../../projections/pulls.ts'
import type { Filter } from '../../projections/read-store.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { accessTo, atLeast } from '../../rights/access.ts'
import type { Services } from '../../services.ts'

/** The pull requests that invite the requester, among those whose heads are in the fork. */
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

/** Whether there is any branch of the fork to which the requester, who may not write there, may push. */
export async function mayPushAnyBranch(
  services: Services,
  fork: RepositoryDocument,
  requester: AccountDocument | null,
): Promise<boolean> {
  const inviting = await invitations(services, fork, requester)
  if (inviting === undefined) return false
  // All keys of the fork's branches: ';' comes right after ':'.
  const headKey = { $gte: branchKey(fork.id, ''), $lt: `${fork.id};` }
  return (await services.views.pulls.find({ ...inviting, headKey }, { limit: 1 })).length > 0
}

const HEADS = 'refs/heads/'

/** Which of these refs of the fork the requester, who may not write there, may push. */
export async function pushableRefs(
  services: Services,
  fork: RepositoryDocument,
  requester: AccountDocument | null,
  refs: readonly string[],
): Promise<ReadonlySet<string>> {
  const inviting = await invitations(services, fork, requester)
  const branches = refs.filter((ref) => ref.startsWith(HEADS)).map((ref) => ref.slice(HEADS.length))
  if (inviting === undefined || branches.length === 0) return new Set()
  const headKey = { $in: branches.map((branch) => branchKey(fork.id, branch)) }
  const found = await services.views.pulls.find({ ...inviting, headKey })
  return new Set(found.map(({ head }) => `${HEADS}${head.branch}`))
}
