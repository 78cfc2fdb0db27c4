/** Where a branch stands: as git has it, or as the log tells it. */
import type { BranchPoint } from '../../events/domain-events.ts'
import { branchNameProblem } from '../../git/names.ts'
import { resolveRef } from '../../git/refs.ts'
import { branchId } from '../../projections/branches.ts'
import { Refused, refuse } from '../../refusal.ts'
import { gitDirOf, type Services } from '../../services.ts'

const HEADS = 'refs/heads/'

/** The branches among refs, by name. */
export const branchNames = (refs: readonly string[]) =>
  refs.filter((ref) => ref.startsWith(HEADS)).map((ref) => ref.slice(HEADS.length))

/** Where a branch stands as the log tells it; undefined when it, or its repository, is gone. */
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

/** Asks git. A name that no branch can have is the name of none. @throws Refused (not found) */
export async function requireTip(services: Services, repoId: number, branch: string): Promise<string> {
  const problem = branchNameProblem(branch)
  const tip = problem ? null : await resolveRef(gitDirOf(services, repoId), `refs/heads/${branch}`)
  if (tip === null) throw new Refused(refuse.notFound(`branch ${branch} not found`))
  return tip
}
