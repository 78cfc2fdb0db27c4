/** Where a branch that a request names stands. */
import { branchNameProblem } from '../../git/names.ts'
import { resolveRef } from '../../git/refs.ts'
import { Refused, refuse } from '../../refusal.ts'
import { gitDirOf, type Services } from '../../services.ts'

/** Asks git. A name that no branch can have is the name of none. @throws Refused (not found) */
export async function branchTip(services: Services, repoId: number, branch: string): Promise<string> {
  const problem = branchNameProblem(branch)
  const tip = problem ? null : await resolveRef(gitDirOf(services, repoId), `refs/heads/${branch}`)
  if (tip === null) throw new Refused(refuse.notFound(`branch ${branch} not found`))
  return tip
}
