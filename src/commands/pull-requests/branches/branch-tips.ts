/** Tips of branches: as git has them, or as the log has them. */

import { Refused, refuse } from '../../../errors/refusal.ts'
import type { BranchPoint } from '../../../events/catalog/pull-requests.ts'
import { branchNameProblem } from '../../../git/refs/names.ts'
import { resolveRef } from '../../../git/refs/refs.ts'
import { branchId } from '../../../projections/models/branches/branches.fold.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'

const HEADS = 'refs/heads/'

/** The names of the branches among full names of refs. */
export const branchNames = (refs: readonly string[]) =>
  refs.filter((ref) => ref.startsWith(HEADS)).map((ref) => ref.slice(HEADS.length))

/** The tip of a branch as the log has it; undefined when the branch or its repository does not exist any more. */
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
 * The tip of a branch that a request names as the head or the base of a pull request, as git has it.
 * @throws Refused (not found), also for a name that no branch can have
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
