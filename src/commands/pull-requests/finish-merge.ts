/**
 * The second half of a merge: the branch, then the outcome. Runs right after the intent is recorded, and
 * again at start for an intent that a crash left without an outcome. Every step may be repeated.
 */
import { claimKeys, pullStream } from '../../events/streams.ts'
import { RepositoryMissing } from '../../git/errors.ts'
import { isAncestor } from '../../git/history.ts'
import { resolveRef, updateRef } from '../../git/refs.ts'
import { inTurn } from '../../git/slots.ts'
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

  // In turn with pushes: the log tells of the moves of a branch in the order in which git made them.
  const reason = await inTurn(dir, async () => {
    const outcome = await updateRef(dir, ref, { from, to: commit })
    const tip = outcome === 'moved' ? commit : await resolveRef(dir, ref)
    if (tip === null || !(await isAncestor(dir, commit, tip)))
      return `push out of date: ${baseBranch} has moved`
    // A branch that a push has moved on from the commit is told of by that push.
    if (tip === commit) await recordRefs(services, context, repoId, 'merge', [{ ref, from, to: commit }])
    return undefined
  }).catch((error: unknown) => {
    if (error instanceof RepositoryMissing) return 'the repository was deleted'
    throw error
  })
  if (reason !== undefined) {
    await execute(services.events, context, {
      ...command,
      step: 'merge failed',
      decide: (current) => decideMergeFailed(current, commit, reason),
    })
    return reason
  }
  await execute(services.events, context, {
    ...command,
    step: 'merged',
    decide: (current) => decideMerged(current, commit),
  })
  await releaseClaim(services.events, context, claimKeys.pull(state.head, state.base), command.stream)
  return undefined
}
