/** Taking a branch away, and telling the log. */
import { deleteRef, type RefOutcome } from '../../git/refs.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { inTurn } from '../../turns.ts'
import type { CommandContext } from '../execute.ts'
import { moveRefs, recordRefs } from '../git/record-refs.ts'

/** Deletes a branch if it stands at `sha`; `stale` when it does not. */
export async function removeBranch(
  services: Services,
  context: CommandContext,
  repoId: number,
  branch: string,
  sha: string,
): Promise<RefOutcome> {
  const dir = gitDirOf(services, repoId)
  const ref = `refs/heads/${branch}`
  // In turn with pushes: the log tells of the moves of a branch in the order in which git made them.
  return inTurn(dir, () =>
    moveRefs(services, repoId, async () => {
      const outcome = await deleteRef(dir, ref, sha)
      const moved = outcome === 'moved' ? [{ ref, from: sha, to: null }] : []
      await recordRefs(services, context, repoId, 'branch-deletion', moved)
      return outcome
    }),
  )
}
