/** Deletes a branch and records that. */
import { deleteRef, type RefOutcome } from '../../git/refs.ts'
import { gitDirOf, type Services } from '../../services.ts'
import type { CommandContext } from '../execute.ts'
import { moveRefs, recordRefs } from '../git/record-refs.ts'

/** Deletes a branch if its tip is `sha`; resolves to `stale` when it is not. */
export async function removeBranch(
  services: Services,
  context: CommandContext,
  repoId: number,
  branch: string,
  sha: string,
): Promise<RefOutcome> {
  const ref = `refs/heads/${branch}`
  return moveRefs(services, repoId, async () => {
    const outcome = await deleteRef(gitDirOf(services, repoId), ref, sha)
    const moved = outcome === 'moved' ? [{ ref, from: sha, to: null }] : []
    await recordRefs(services, context, repoId, 'branch-deletion', moved)
    return outcome
  })
}
