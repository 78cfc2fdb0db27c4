/**
 * The second half of a merge: the branch, then the outcome. Runs right after the intent is recorded, and
 * again at start for an intent that a crash left without an outcome. Every step may be repeated.
 */
import type { MergeIntent } from '../../events/domain-events.ts'
import { claimKeys, pullStream } from '../../events/streams.ts'
import { RepositoryMissing } from '../../git/errors.ts'
import { isAncestor } from '../../git/history.ts'
import { resolveRef, updateRef } from '../../git/refs.ts'
import { type Refusal, refuse } from '../../refusal.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { inTurn } from '../../turns.ts'
import { releaseClaim } from '../claims.ts'
import { type CommandContext, execute } from '../execute.ts'
import { recordMerge } from '../git/record-refs.ts'
import {
  type ActivePull,
  decideMerged,
  decideMergeFailed,
  type PullState,
  pullDecider,
} from './pull-request.ts'

/** Merges of one repository take turns under this key (`inTurn`), so that two into one branch both land. */
export const mergeTurn = (repoId: number) => `merge ${repoId}`

/** The `id` of the refusal of a merge that a push to the base has overtaken. */
export const BASE_HAS_MOVED = 'base has moved'

/** Resolves to why the merge failed, or undefined when it is done (or there was none under way). */
export async function finishMerge(
  services: Services,
  context: CommandContext,
  state: PullState,
): Promise<Refusal | undefined> {
  if (state.status !== 'open' || state.merging === null) return undefined
  const { repoId, index, merging } = state
  const { commit } = merging
  const command = { stream: pullStream(repoId, index), decider: pullDecider }
  const refusal = await moveBase(services, context, state, merging)
  if (refusal !== undefined) {
    await execute(services.events, context, {
      ...command,
      step: `merge ${commit} failed`,
      decide: (current) => decideMergeFailed(current, commit, refusal.message),
    })
    return refusal
  }
  await execute(services.events, context, {
    ...command,
    step: 'merged',
    decide: (current) => decideMerged(current, commit),
  })
  await releaseHeadBase(services, context, state)
  return undefined
}

/** A merged pull request keeps others from its head and base no longer. */
export async function releaseHeadBase(
  { events }: Services,
  context: CommandContext,
  { repoId, index, head, base }: ActivePull,
): Promise<void> {
  await releaseClaim(events, context, claimKeys.pull(head, base), pullStream(repoId, index))
}

async function moveBase(
  services: Services,
  context: CommandContext,
  { repoId, index }: ActivePull,
  { baseBranch, from, commit }: MergeIntent,
): Promise<Refusal | undefined> {
  const dir = gitDirOf(services, repoId)
  const ref = `refs/heads/${baseBranch}`
  // In turn with pushes: the log tells of the moves of a branch in the order in which git made them.
  return inTurn(dir, async () => {
    const outcome = await updateRef(dir, ref, { from, to: commit })
    const tip = outcome === 'moved' ? commit : await resolveRef(dir, ref)
    if (tip === null || !(await isAncestor(dir, commit, tip))) {
      return { ...refuse.conflict(`push out of date: ${baseBranch} has moved`), id: BASE_HAS_MOVED }
    }
    // A branch that a push has moved on from the commit is told of by that push.
    if (tip === commit && from !== commit) {
      await recordMerge(services, context, repoId, index, { ref, from, to: commit })
    }
    return undefined
  }).catch((error: unknown) => {
    if (error instanceof RepositoryMissing) return refuse.conflict('the repository was deleted')
    throw error
  })
}
