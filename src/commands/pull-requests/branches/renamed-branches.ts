/**
 * What a rename of a branch means for the pull requests that name it: their head or base gets the new name, and their claim
 * moves with it.
 */

import { Refused, refuse } from '../../../errors/refusal.ts'
import type { GitEvent } from '../../../events/catalog/branches.ts'
import type { IssueRef } from '../../../events/catalog/parts.ts'
import type { BranchPoint } from '../../../events/catalog/pull-requests.ts'
import { decode } from '../../../events/codec.ts'
import type { RecordedOf } from '../../../events/handlers.ts'
import type { Position } from '../../../events/store/event-store.ts'
import { claimKeys, gitStream, pullStream } from '../../../events/streams.ts'
import { branchKey } from '../../../projections/models/pull-requests/pulls.fold.ts'
import type { Services } from '../../../services/services.ts'
import { pulls } from '../../execution/aggregates.ts'
import { releaseClaim } from '../../execution/claims.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { forEachSettled } from '../../execution/for-each-settled.ts'
import { changeClaiming, claimHeadBase, isDuplicate } from '../duplicate-pull.ts'
import { type ActivePull, decideBranchRenamed, type RenamedBranch, sideOf } from '../pull-request.decider.ts'
import { branchNames, recordedTip } from './branch-tips.ts'

/** A branch with more unmerged pull requests is not renamed: their claims are taken in one turn of the refs. */
const MAX_RENAMED_PULLS = 10_000
/** So many at a time, whose appends share their writes. */
const AT_ONCE = 16
/** How many renames of the same branch, one after the other, a late pull request follows. */
const MAX_FOLLOWED = 10

/** The claim of a pull request under the new name. */
function keyAfter({ head, base }: ActivePull, side: 'head' | 'base', to: string): string {
  const renamed = (point: BranchPoint) => ({ ...point, branch: to })
  return side === 'head' ? claimKeys.pull(renamed(head), base) : claimKeys.pull(head, renamed(base))
}

/** The unmerged pull requests that name a branch as their head or base, in any repository. */
async function unmergedOf({ views }: Services, repoId: number, branch: string): Promise<IssueRef[]> {
  const key = branchKey(repoId, branch)
  const unmerged = { status: { $in: ['open', 'closed'] } } as const
  const found = await Promise.all([
    views.pulls.ids({ headKey: key, ...unmerged }),
    views.pulls.ids({ baseKey: key, ...unmerged }),
  ])
  return [...new Set(found.flat())].map((id) => {
    const [base = 0, index = 0] = id.split('.').map(Number)
    return { repoId: base, index }
  })
}

/**
 * Takes the claims that the open pull requests of a branch will need under its new name, before there is a branch of that name:
 * so nobody else can open the same pull request meanwhile. They keep those that they have. Resolves to what gives back the
 * new ones when the branch keeps its name.
 *
 * @throws Refused (conflict, unprocessable); then no claim is left
 */
export async function claimRenamed(
  services: Services,
  context: CommandContext,
  renamed: RenamedBranch,
): Promise<() => Promise<void>> {
  const { repoId, from, to } = renamed
  const named = await unmergedOf(services, repoId, from)
  if (named.length > MAX_RENAMED_PULLS) {
    const reason = `more than ${MAX_RENAMED_PULLS} unmerged pull requests are from it or into it`
    throw new Refused(refuse.unprocessable(`the branch cannot be renamed: ${reason}`))
  }
  const taken: { key: string; stream: string }[] = []
  const giveBack = () =>
    forEachSettled(taken, ({ key, stream }) => releaseClaim(services, context, key, stream), AT_ONCE)
  async function claim(pull: IssueRef): Promise<void> {
    const state = await pulls.load(services, pull)
    const side = sideOf(state, { repoId, branch: from })
    if (state.status !== 'open' || side === undefined) return
    if (side === 'base' && state.merging !== null) {
      const reason = `a merge of pull request #${pull.index} is under way`
      throw new Refused(refuse.conflict(`the branch cannot be renamed now: ${reason}`))
    }
    const claimed = { key: keyAfter(state, side, to), stream: pullStream(pull.repoId, pull.index) }
    await claimHeadBase(services, context, claimed.key, claimed.stream).catch((error: unknown) => {
      if (!(error instanceof Refused)) throw error
      throw new Refused(refuse.conflict(`the branch cannot be renamed to ${to}: ${error.refusal.message}`))
    })
    taken.push(claimed)
  }
  try {
    await forEachSettled(named, claim, AT_ONCE)
  } catch (error) {
    await giveBack()
    throw error
  }
  return giveBack
}

/**
 * Gives the pull requests of a renamed branch its new name. May be repeated, at any time: `position` is that of the event
 * of the rename, and who has named a branch of the old name that was made after it is left alone.
 */
export async function renameInPulls(
  services: Services,
  context: CommandContext,
  renamed: RenamedBranch,
  position: Position,
): Promise<void> {
  const { repoId, from } = renamed
  const named = await unmergedOf(services, repoId, from)
  if (named.length === 0) return
  const last = await lastMoveOf(services, { repoId, branch: from })
  const isMadeAgain = last !== undefined && last.position > position
  await forEachSettled(
    named,
    async (pull) => {
      if (isMadeAgain && (await hasNamedSince(services, pull, { repoId, branch: from }, position))) return
      await renameInPull(services, context, pull, renamed)
    },
    AT_ONCE,
  )
}

/**
 * One pull request. In turn with edits of it: one of them could release the claim that the other relies on. When another
 * pull request has the same head and base under the new name, this one stays as it is, as if its branch were deleted.
 */
async function renameInPull(
  services: Services,
  context: CommandContext,
  pull: IssueRef,
  renamed: RenamedBranch,
): Promise<void> {
  const { repoId, from, to } = renamed
  const keyOfNew = (state: ActivePull) => {
    const side = sideOf(state, { repoId, branch: from })
    return state.status === 'open' && side !== undefined ? keyAfter(state, side, to) : undefined
  }
  try {
    await changeClaiming(services, context, pull, keyOfNew, () =>
      pulls.change(services, context, pull, `renamed from ${from} to ${to}`, (now) =>
        decideBranchRenamed(now, renamed),
      ),
    )
  } catch (error) {
    if (!isDuplicate(error)) throw error
    services.log.warn({ ...pull, from, to, reason: error.message }, 'a pull request keeps the old name')
  }
}

/**
 * Gives a pull request the new name of a branch that was renamed while the request looked at the old one: its event came
 * after that of the rename.
 */
export async function followRenames(
  services: Services,
  context: CommandContext,
  pull: IssueRef,
): Promise<void> {
  for (let followed = 0; followed < MAX_FOLLOWED; followed++) {
    const state = await pulls.load(services, pull)
    if (state.status === 'none' || state.status === 'merged') return
    const renamed = (await renameOf(services, state.head)) ?? (await renameOf(services, state.base))
    if (renamed === undefined) return
    await renameInPull(services, context, pull, renamed)
  }
}

/** The rename by which a branch has gone; undefined while it is there, and when something else has removed it. */
async function renameOf(services: Services, point: BranchPoint): Promise<RenamedBranch | undefined> {
  const fate = await fateOf(services, point)
  return typeof fate === 'object' ? fate : undefined
}

/**
 * What the log says of a branch: it has a tip; it was renamed, or deleted (also with its repository); or the move that made it
 * is not recorded yet, as when a node ends within a push and another one has not finished it.
 */
export async function fateOf(
  services: Services,
  point: BranchPoint,
): Promise<'has a tip' | 'deleted' | 'not recorded' | RenamedBranch> {
  if ((await recordedTip(services, point)) !== undefined) return 'has a tip'
  if ((await services.views.repositories.get(`${point.repoId}`)) === undefined) return 'deleted'
  const last = await lastMoveOf(services, point)
  if (last === undefined) return 'not recorded'
  const renamed = renamedIn(last.data)
  return renamed?.from === point.branch ? renamed : 'deleted'
}

/** The branch that an event has renamed. */
export function renamedIn({ repoId, cause, refs }: GitEvent['data']): RenamedBranch | undefined {
  if (cause !== 'branch-rename') return undefined
  const [from] = branchNames(refs.flatMap(({ ref, to }) => (to === null ? [ref] : [])))
  const [to] = branchNames(refs.flatMap((update) => (update.to === null ? [] : [update.ref])))
  return from === undefined || to === undefined ? undefined : { repoId, from, to }
}

/** The last event that has moved a branch. It is mostly near the end of the stream. */
async function lastMoveOf(
  { events }: Services,
  { repoId, branch }: Pick<BranchPoint, 'repoId' | 'branch'>,
): Promise<RecordedOf<'RefsUpdated'> | undefined> {
  const ref = `refs/heads/${branch}`
  for await (const recorded of events.readStream(gitStream(repoId), { direction: 'backwards' })) {
    const event = decode(recorded)
    if (event.type === 'RefsUpdated' && event.data.refs.some((update) => update.ref === ref)) return event
  }
  return undefined
}

/**
 * Whether a pull request has named the branch after a position: then it means one that was made again. `orOpened`: it also
 * counts that it was opened again.
 */
export async function hasNamedSince(
  { events }: Services,
  { repoId: baseId, index }: IssueRef,
  { repoId, branch }: Pick<BranchPoint, 'repoId' | 'branch'>,
  position: Position,
  { orOpened = false } = {},
): Promise<boolean> {
  const isIt = (point: BranchPoint) => point.repoId === repoId && point.branch === branch
  for await (const recorded of events.readStream(pullStream(baseId, index), { direction: 'backwards' })) {
    if (recorded.position <= position) return false
    const event = decode(recorded)
    const names =
      (event.type === 'PullRequestOpened' && (isIt(event.data.head) || isIt(event.data.base))) ||
      (event.type === 'TargetBranchChanged' && isIt(event.data.base)) ||
      (event.type === 'PullRequestBranchRenamed' && event.data.to === branch) ||
      (orOpened && event.type === 'StatusChanged' && !event.data.closed)
    if (names) return true
  }
  return false
}
