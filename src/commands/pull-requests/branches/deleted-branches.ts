/**
 * Handles open pull requests after a branch was deleted: those from it are closed; those into it get the default branch
 * as their base, or are closed where that is impossible.
 */

import { Refused } from '../../../errors/refusal.ts'
import type { RefUpdate } from '../../../events/catalog/branches.ts'
import type { IssueRef } from '../../../events/catalog/parts.ts'
import type { BranchPoint } from '../../../events/catalog/pull-requests.ts'
import type { Position } from '../../../events/store/event-store.ts'
import { claimKeys, idsStream } from '../../../events/streams.ts'
import { branchKey } from '../../../projections/models/pull-requests/pulls.fold.ts'
import type { Services } from '../../../services/services.ts'
import { pulls } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { forEachSettled } from '../../execution/for-each-settled.ts'
import { takeNumber } from '../../execution/sequences.ts'
import { changeClaiming, isDuplicate } from '../duplicate-pull.ts'
import {
  type ActivePull,
  decideBranchGone,
  decideTargetBranch,
  type PullState,
} from '../pull-request.decider.ts'
import { branchNames, recordedTip } from './branch-tips.ts'
import { branchStateOf, hasNamedSince } from './renamed-branches.ts'
import { targetOf } from './target-branch.ts'

type Side = 'head' | 'base'

/** Number of branches in one query. A push may delete thousands. */
const BRANCHES_PER_QUERY = 200

/**
 * Closes the open pull requests from deleted branches. `position`: of the deletion, or later. Idempotent at any time:
 * it ignores branches created again, and pull requests opened since.
 */
export const closeFromDeleted: AfterDeletion = (services, context, repoId, moved, position) =>
  forEachSettled(deletedIn(repoId, moved), async (keys) => {
    const from = await services.views.pulls.find({ headKey: { $in: keys }, status: 'open' })
    await forEachSettled(from, (pull) => closeWithout(services, context, pull, 'head', position))
  })

/** Changes the base of open pull requests into deleted branches. `position` as above. */
export const retargetFromDeleted: AfterDeletion = (services, context, repoId, moved, position) =>
  forEachSettled(deletedIn(repoId, moved), async (keys) => {
    const into = await services.views.pulls.find({ baseKey: { $in: keys }, status: 'open' })
    await forEachSettled(into, (pull) => retarget(services, context, pull, position))
  })

type AfterDeletion = (
  services: Services,
  context: CommandContext,
  repoId: number,
  moved: readonly RefUpdate[],
  position: Position,
) => Promise<void>

/** Returns the keys of the deleted branches, in batches. */
function deletedIn(repoId: number, moved: readonly RefUpdate[]): string[][] {
  const keys = branchNames(moved.filter(({ to }) => to === null).map(({ ref }) => ref)).map((branch) =>
    branchKey(repoId, branch),
  )
  const parts: string[][] = []
  for (let i = 0; i < keys.length; i += BRANCHES_PER_QUERY) parts.push(keys.slice(i, i + BRANCHES_PER_QUERY))
  return parts
}

/** Closes or retargets one pull request after the deletion of a branch. */
export async function followDeleted(
  services: Services,
  context: CommandContext,
  pull: IssueRef,
  position: Position,
): Promise<void> {
  await closeWithout(services, context, pull, 'head', position)
  await retarget(services, context, pull, position)
}

/**
 * Returns whether an open pull request has lost a branch. A merge under way does not need it, and this runs again if
 * that fails. A renamed branch is not lost.
 */
async function hasLost(
  services: Services,
  state: PullState,
  side: Side,
  position: Position,
): Promise<boolean> {
  if (state.status !== 'open' || state.merging !== null) return false
  const point: BranchPoint = state[side]
  if ((await branchStateOf(services, point)) !== 'deleted') return false
  return !(await hasNamedSince(services, state, point, position, { orOpened: true }))
}

async function closeWithout(
  services: Services,
  context: CommandContext,
  { repoId, index }: IssueRef,
  side: Side,
  position: Position,
): Promise<void> {
  const pull = { repoId, index }
  if (!(await hasLost(services, await pulls.load(services, pull), side, position))) return
  const close = () =>
    pulls.change(services, context, pull, `${side} is gone`, async (state) => {
      if (!(await hasLost(services, state, side, position))) return []
      return decideBranchGone(state, side, await takeNumber(services, context, idsStream('comment')))
    })
  await changeClaiming(services, context, pull, () => undefined, close)
}

async function retarget(
  services: Services,
  context: CommandContext,
  { repoId, index }: IssueRef,
  position: Position,
): Promise<void> {
  const pull = { repoId, index }
  if (!(await hasLost(services, await pulls.load(services, pull), 'base', position))) return
  const repository = await services.views.repositories.get(`${repoId}`)
  const branch = repository?.defaultBranch
  // Without a default branch, it waits for its base to be created again.
  if (branch === undefined || (await recordedTip(services, { repoId, branch, sha: '' })) === undefined) return
  const keyAfter = ({ head, base }: ActivePull) => claimKeys.pull(head, { ...base, branch })
  const change = () =>
    pulls.change(services, context, pull, 'base is gone', async (state) => {
      if (state.status === 'none' || !(await hasLost(services, state, 'base', position))) return []
      return decideTargetBranch(state, await targetOf(services, state, branch), null)
    })
  try {
    await changeClaiming(services, context, pull, keyAfter, change)
  } catch (error) {
    // The pull request is from the default branch, shares no history with it, or another one has that head and base.
    const isImpossible = error instanceof Refused && error.refusal.refused === 'unprocessable'
    if (!isImpossible && !isDuplicate(error)) throw error
    await closeWithout(services, context, pull, 'base', position)
  }
}
