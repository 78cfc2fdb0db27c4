/**
 * The second half of a merge: the branch, then the outcome. Runs right after the intent is recorded, and
 * again at start for an intent that a crash left without an outcome. Every step may be repeated.
 */
import { claimKeys, pullStream } from '../../events/streams.ts'
import { isAncestor } from '../../git/history.ts'
import { resolveRef, updateRef } from '../../git/refs.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { releaseClaim } from '../claims.ts'
import { type CommandContext, execute } from '../execute.ts'
import { recordRefs } from '../refs-updated.ts'
import { decideMerged, decideMergeFailed, type PullState, pullDecider } from './pull-request.ts'

/** Merges of one repository take turns under this key (`inTurn`), so that two into one branch both land. */
export const mergeTurn = (repoId: number) => `merge ${repoId}`

/** Resolves to why the merge failed, or undefined when it is done (or there was none under way). */
export async function finishMerge(
  services: Services,
  context: CommandContext,
  state: PullState,
): Promise<string | undefined> {
  if (state.status !== 'open' || state.merging === null) return undefined
  const { repoId, index, merging } = state
  const { commit, from, baseBranch } = merging
  const dir = gitDirOf(services, repoId)
  const ref = `refs/heads/${baseBranch}`
  const command = { stream: pullStream(repoId, index), decider: pullDecider }

  const outcome = await updateRef(dir, ref, { from, to: commit })
  if (outcome !== 'moved' && !(await contains(dir, ref, commit))) {
    const reason = `push out of date: ${baseBranch} has moved`
    await execute(services.events, context, {
      ...command,
      step: 'merge failed',
      decide: (current) => decideMergeFailed(current, commit, reason),
    })
    return reason
  }
  await recordRefs(services, context, repoId, 'merge', [{ ref, from, to: commit }])
  await execute(services.events, context, {
    ...command,
    step: 'merged',
    decide: (current) => decideMerged(current, commit),
  })
  await releaseClaim(services.events, context, claimKeys.pull(state.head, state.base), command.stream)
  return undefined
}

/** Whether the branch has the commit, as it has when a crash came after the move. */
async function contains(dir: string, ref: string, commit: string): Promise<boolean> {
  const tip = await resolveRef(dir, ref)
  return tip !== null && (await isAncestor(dir, commit, tip))
}
