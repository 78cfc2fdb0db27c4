/** Reads tips of branches, from git or from the log. */

import { Refused, refuse } from '../../../errors/refusal.ts'
import type { BranchPoint } from '../../../events/catalog/pull-requests.ts'
import { branchNameProblem } from '../../../git/refs/names.ts'
import { resolveRef } from '../../../git/refs/refs.ts'
import { branchId } from '../../../projections/models/branches/branches.fold.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'

const HEADS = 'refs/heads/'

/** Returns the branch names among full ref names. */
export const branchNames = (refs: readonly string[]) =>
  refs.filter((ref) => ref.startsWith(HEADS)).map((ref) => ref.slice(HEADS.length))

/** Returns the tip of a branch in the log; undefined when the branch or its repository is deleted. */
export async function recordedTip(
  { views }: Services,
  { repoId, branch }: BranchPoint,
): Promise<string | undefined> {
  const [repository, found] = await Promise.all([
    views.repositories.get(`${repoId}`),
    views.branches.get(branchId(repoId, branch)),
  ])
  return repository && found?.commit.sha
}

/**
 * Returns the tip, in git, of the branch that a request names as head or base.
 * @throws Refused (not found), also for an invalid name
 */
export async function requireTip(
  services: Services,
  repoId: number,
  branch: string,
  side: 'head' | 'base',
): Promise<string> {
  const problem = branchNameProblem(branch)
  const tip = problem ? null : await resolveRef(gitDirOf(services, repoId), `refs/heads/${branch}`)
  if (tip !== null) return tip
  const repository = side === 'base' ? await services.views.repositories.get(`${repoId}`) : undefined
  const hint = repository === undefined ? '' : `; the default branch is ${repository.defaultBranch}`
  throw new Refused(refuse.notFound(`${side}: branch ${branch} not found${hint}`))
}
