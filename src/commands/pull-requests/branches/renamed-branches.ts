/** Applies a rename of a branch to the pull requests that name it: head or base, and the claim. */

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

/** Maximum number of unmerged pull requests of a branch to rename: their claims are taken under one ref lock. */
const MAX_RENAMED_PULLS = 10_000
/** Number of concurrent changes, whose appends are batched. */
const CONCURRENT_CHANGES = 16
/** Maximum number of successive renames that a late pull request follows. */
const MAX_FOLLOWED = 10

/** Returns the key of the claim under the new name. */
function keyAfter({ head, base }: ActivePull, side: 'head' | 'base', to: string): string {
  const renamed = (point: BranchPoint) => ({ ...point, branch: to })
  return side === 'head' ? claimKeys.pull(renamed(head), base) : claimKeys.pull(head, renamed(base))
}

/** Returns the unmerged pull requests, of any repository, with the branch as head or base. */
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
 * Takes the claims of open pull requests under the new name before the branch exists, so that the same pull request
 * cannot be opened meanwhile. Keeps the old claims. Resolves to a function that releases the new ones. @throws Refused
 * (conflict, unprocessable); then it has released all
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
  const releaseAll = () =>
    forEachSettled(
      taken,
      ({ key, stream }) => releaseClaim(services, context, key, stream),
      CONCURRENT_CHANGES,
    )
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
    await forEachSettled(named, claim, CONCURRENT_CHANGES)
  } catch (error) {
    await releaseAll()
    throw error
  }
  return releaseAll
}

/**
 * Renames the branch in its pull requests. `position`: of the rename; a later pull request means a new branch of the
 * old name and is ignored. Idempotent at any time.
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
  const isRecreated = last !== undefined && last.position > position
  await forEachSettled(
    named,
    async (pull) => {
      if (isRecreated && (await hasNamedSince(services, pull, { repoId, branch: from }, position))) return
      await renameInPull(services, context, pull, renamed)
    },
    CONCURRENT_CHANGES,
  )
}

/**
 * Renames the branch in one pull request, under the lock of edits, which could release the claim. When another pull
 * request has this head and base under the new name, this one is handled as if its branch were deleted.
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
    services.log.warn(
      { ...pull, from, to, reason: error.message },
      'a pull request keeps the old name of a renamed branch',
    )
  }
}

/** Applies a rename that happened while the request looked at the old name: its event came after that of the rename. */
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

/** Returns the rename that removed a branch; undefined when it exists, or was removed otherwise. */
async function renameOf(services: Services, point: BranchPoint): Promise<RenamedBranch | undefined> {
  const state = await branchStateOf(services, point)
  return typeof state === 'object' ? state : undefined
}

/**
 * Returns the state of a branch in the log: it has a tip, was renamed, or deleted (also with its repository), or its
 * move is not recorded yet, as after a crash within a push.
 */
export async function branchStateOf(
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

/** Parses the rename in an event. */
export function renamedIn({ repoId, cause, refs }: GitEvent['data']): RenamedBranch | undefined {
  if (cause !== 'branch-rename') return undefined
  const [from] = branchNames(refs.flatMap(({ ref, to }) => (to === null ? [ref] : [])))
  const [to] = branchNames(refs.flatMap((update) => (update.to === null ? [] : [update.ref])))
  return from === undefined || to === undefined ? undefined : { repoId, from, to }
}

/** Returns the last event that moved a branch. It is mostly near the end of the stream. */
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
 * Returns whether a pull request names the branch since a position, and so means a newly created branch. `orOpened`:
 * being reopened counts, too.
 */
export async function hasNamedSince(
  { events }: Services,
  { repoId: baseId, index }: IssueRef,
  { repoId, branch }: Pick<BranchPoint, 'repoId' | 'branch'>,
  position: Position,
  { orOpened = false } = {},
): Promise<boolean> {
  const isThisBranch = (point: BranchPoint) => point.repoId === repoId && point.branch === branch
  for await (const recorded of events.readStream(pullStream(baseId, index), { direction: 'backwards' })) {
    if (recorded.position <= position) return false
    const event = decode(recorded)
    const names =
      (event.type === 'PullRequestOpened' &&
        (isThisBranch(event.data.head) || isThisBranch(event.data.base))) ||
      (event.type === 'TargetBranchChanged' && isThisBranch(event.data.base)) ||
      (event.type === 'PullRequestBranchRenamed' && event.data.to === branch) ||
      (orOpened && event.type === 'StatusChanged' && !event.data.closed)
    if (names) return true
  }
  return false
}
