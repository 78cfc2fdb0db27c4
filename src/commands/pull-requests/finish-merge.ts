/**
 * Finishes a merge: moves the base branch, then records the outcome. Runs after the intent is recorded, and at a start
 * when a crash left an intent without an outcome. Each step is idempotent.
 */

import { coded, isRefusal, type Refusal, refuse } from '../../errors/refusal.ts'
import type { RefUpdate } from '../../events/catalog/branches.ts'
import type { MergeIntent } from '../../events/catalog/pull-requests.ts'
import type { ExpectedRevision } from '../../events/store/event-store.ts'
import { claimKeys, pullStream } from '../../events/streams.ts'
import { isAncestor } from '../../git/commits/history.ts'
import { RepositoryMissing } from '../../git/process/errors.ts'
import { resolveRef, updateRef } from '../../git/refs/refs.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { pulls, repositories } from '../execution/aggregates.ts'
import { appendAtomically, eventsOf } from '../execution/append.ts'
import { releaseClaim, releaseOf } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { load } from '../execution/load.ts'
import { moveOfMerge, recordMerge } from '../git/record-refs.ts'
import { withRefLock } from '../git/ref-lock.ts'
import {
  type ActivePull,
  decideMerged,
  decideMergeFailed,
  type PullState,
  pullDecider,
} from './pull-request.decider.ts'

/** The key of the lock of merges into one repository, on all nodes. It lets two merges into one branch both succeed. */
export const mergeLockKey = (repoId: number) => `merge ${repoId}`

/** Finishes the merge under way, if any. Resolves to the reason of a failure. */
export async function finishMerge(
  services: Services,
  context: CommandContext,
  state: PullState,
): Promise<Refusal | undefined> {
  if (state.status !== 'open' || state.merging === null) return undefined
  const { commit } = state.merging
  const refusal = await moveBase(services, context, state, state.merging)
  if (refusal !== undefined) {
    await pulls.change(services, context, state, `merge ${commit} failed`, (current) =>
      decideMergeFailed(current, commit, refusal.message),
    )
    return refusal
  }
  await pulls.change(services, context, state, 'merged', (current) => decideMerged(current, commit))
  await releaseHeadBase(services, context, state)
  return undefined
}

/** Releases the claim of a merged pull request, so that a new pull request may have the same head and base. */
export async function releaseHeadBase(
  services: Services,
  context: CommandContext,
  { repoId, index, head, base }: ActivePull,
): Promise<void> {
  await releaseClaim(services, context, claimKeys.pull(head, base), pullStream(repoId, index))
}

async function moveBase(
  services: Services,
  context: CommandContext,
  pull: ActivePull,
  { baseBranch, from, commit }: MergeIntent,
): Promise<Refusal | undefined> {
  const { repoId, index } = pull
  const dir = gitDirOf(services, repoId)
  const ref = `refs/heads/${baseBranch}`
  // Under the ref lock, so that the log has git's order.
  return withRefLock(services, repoId, async (since) => {
    const outcome = await updateRef(dir, ref, { from, to: commit })
    const tip = outcome === 'moved' ? commit : await resolveRef(dir, ref)
    if (tip === null || !(await isAncestor(dir, commit, tip))) {
      return coded('base_moved', refuse.conflict(`push out of date: ${baseBranch} has moved`))
    }
    // A push that moved the branch beyond the commit records the move.
    if (tip === commit && from !== commit) {
      const moved = { ref, from, to: commit }
      const isRepeated = outcome !== 'moved'
      if (isRepeated || !(await recordAtomically(services, context, pull, moved, since))) {
        await recordMerge(services, context, repoId, index, moved, { since, isRepeated })
      }
    }
    return undefined
  }).catch(async (error: unknown) => {
    if (!(error instanceof RepositoryMissing)) throw error
    // Only the log tells whether it was deleted. Its disk may be unmounted: then recovery finishes the merge.
    if ((await repositories.load(services, repoId)).status !== 'deleted') throw error
    return refuse.conflict('the repository was deleted')
  })
}

/**
 * Records the move, the merge and the release of its claim in one append, so that handlers of the move find the pull
 * request merged. Resolves to whether it did: then later steps find nothing to do.
 */
async function recordAtomically(
  services: Services,
  context: CommandContext,
  { repoId, index, head, base }: ActivePull,
  moved: RefUpdate & { to: string },
  since: ExpectedRevision,
): Promise<boolean> {
  const { events } = services
  if (events.appendTogether === undefined) return false
  const stream = pullStream(repoId, index)
  const { state, revision } = await load(services, stream, pullDecider)
  const merged = decideMerged(state, moved.to)
  if (isRefusal(merged) || merged.length === 0 || revision === null) return false
  const release = await releaseOf(services, context, claimKeys.pull(head, base), stream)
  return await appendAtomically(services, context, [
    await moveOfMerge(services, context, repoId, index, moved, since),
    { stream, events: eventsOf(context, stream, 'merged', merged), expected: revision },
    ...(release === undefined ? [] : [release]),
  ])
}
