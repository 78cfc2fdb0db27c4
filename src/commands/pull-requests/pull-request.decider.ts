/** The pull request aggregate. Pure: commands bring the facts from git. */

import { isRefusal, refuse } from '../../errors/refusal.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import type {
  BranchPoint,
  DiffStat,
  MergeIntent,
  PullRequestEvent,
  ScheduledMerge,
} from '../../events/catalog/pull-requests.ts'
import { cutList } from '../../events/store/append-size.ts'
import { renamedBranch } from '../../projections/models/branches/renamed-branch.ts'
import {
  type Discussion,
  discussionChanges,
  erasedPullTexts,
  stateOf,
} from '../../projections/models/issues/discussion.ts'
import { type ReviewFacts, reviewChanges } from '../../projections/models/reviews/review-facts.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'
import { decideStatus, type StatusChange } from '../issues/discussion.decider.ts'
import { type MovedContent, outdatedReviews } from '../reviews/outdated-reviews.decider.ts'

export interface ActivePull extends Discussion {
  status: 'open' | 'closed' | 'merged'
  head: BranchPoint
  base: BranchPoint
  mergeBase: string
  /** The outcome for the pair of commits that was tried last. */
  mergeability: { head: string; base: string; mergeable: boolean }
  allowMaintainerEdit: boolean
  /** The merge under way: its intent is recorded, its outcome is not. */
  merging: MergeIntent | null
  schedule: ScheduledMerge | null
  headBranchDeleted: boolean
  /** The merge asked for its deletion, and it was kept. */
  headBranchKept: boolean
  /** In the order of their ids. */
  reviews: readonly ReviewFacts[]
}

export type PullState = { status: 'none' } | ActivePull

export const pullDecider: Decider<PullState, PullRequestEvent> = deciderOf({
  initialState: { status: 'none' },
  snapshots: snapshots(),
  becomes: {
    PullRequestOpened(_, { data: { diff: _diff, mergeable, ...data } }) {
      return {
        ...data,
        status: 'open',
        closed: false,
        dependencies: [],
        mergeability: { head: data.head.sha, base: data.base.sha, mergeable },
        allowMaintainerEdit: false,
        merging: null,
        schedule: null,
        headBranchDeleted: false,
        headBranchKept: false,
        reviews: [],
      }
    },
  },
  exists: (state: PullState) => state.status !== 'none',
  changes: {
    ...discussionChanges,
    ...erasedPullTexts,
    ...reviewChanges,
    StatusChanged: (_, { data: { closed } }) => ({ closed, status: stateOf(closed) }),
    PullRequestHeadMoved: ({ head }, { data: { to, mergeBase } }) => ({
      head: { ...head, sha: to },
      mergeBase,
    }),
    MergeabilityChecked: (pull, { data: { head, base, mergeable } }) => ({
      base: { ...pull.base, sha: base },
      mergeability: { head, base, mergeable },
    }),
    MergeBaseMoved: (_, { data }) => ({ mergeBase: data.to }),
    TargetBranchChanged: (_, { data: { base, mergeBase } }) => ({ base, mergeBase }),
    PullRequestBranchRenamed: renamedBranch,
    MaintainerEditChanged: (_, { data }) => ({ allowMaintainerEdit: data.allowed }),
    MergeStarted: (_, { data: { repoId: _repoId, index: _index, ...merging } }) => ({ merging }),
    MergeFailed: () => ({ merging: null }),
    PullRequestMerged: (pull, { data: { head, mergeBase } }) => ({
      status: 'merged' as const,
      closed: true,
      // The head that was merged. When the branch has moved on since, it must not be deleted.
      head: { ...pull.head, sha: head },
      mergeBase: mergeBase ?? pull.mergeBase,
      merging: null,
      schedule: null,
    }),
    HeadBranchDeleted: () => ({ headBranchDeleted: true }),
    HeadBranchKept: () => ({ headBranchKept: true }),
    MergeScheduled: (_, { data: { repoId: _repoId, index: _index, ...schedule } }) => ({ schedule }),
    MergeScheduleCanceled: () => ({ schedule: null }),
    ScheduledMergeRefused: () => ({ schedule: null }),
  },
})

/** Whether two states are the same apart from facts that processes find out about their commits. */
export function sameApartFromCommitFacts(a: PullState, b: PullState): boolean {
  if (a.status === 'none' || b.status === 'none') return a === b
  const { mergeability: _a, mergeBase: _aBase, base: aBase, ...rest } = a
  const other: object = b
  return (
    aBase.branch === b.base.branch &&
    Object.entries(rest).every(([key, value]) => Reflect.get(other, key) === value)
  )
}

const gone = refuse.notFound('pull request not found')

/** Opens it. `maintainerEdit`: whether writers of the base may push to the head branch from the start. */
export function decideOpen(
  state: PullState,
  opened: Extract<PullRequestEvent, { type: 'PullRequestOpened' }>['data'],
  maintainerEdit = false,
): Decision<PullRequestEvent> {
  if (state.status !== 'none') return refuse.conflict('the pull request exists already')
  const events: PullRequestEvent[] = [{ type: 'PullRequestOpened', data: opened }]
  const { repoId, index } = opened
  if (maintainerEdit) events.push({ type: 'MaintainerEditChanged', data: { repoId, index, allowed: true } })
  return events
}

/**
 * Records a new head. A closed pull request keeps the head that it had when it was closed. `byMergers`: whether all who
 * have moved the head may merge into the base branch. The same append ends a scheduled merge that was for another
 * head, or that others would change: there is no moment in which it could still be carried out. The same holds for
 * reviews of what the pull request was before.
 */
export function decideHeadMoved(
  state: PullState,
  moved: { to: string; mergeBase: string; diff: DiffStat; forced?: boolean },
  byMergers: boolean,
  content: MovedContent,
): Decision<PullRequestEvent> {
  if (state.status !== 'open' || state.head.sha === moved.to) return []
  const { repoId, index, head, schedule } = state
  const event: PullRequestEvent = {
    type: 'PullRequestHeadMoved',
    data: { repoId, index, from: head.sha, ...moved },
  }
  const now = { head: moved.to, mergeBase: moved.mergeBase }
  const events = [event, ...outdatedReviews(state, now, content)]
  if (schedule === null) return events
  if (schedule.expectedHead !== null && schedule.expectedHead !== moved.to) {
    const reason = `head_commit_id: the head has moved to ${moved.to}`
    return [...events, scheduleRefused(state, { head: moved.to, reason, errors: [] })]
  }
  if (byMergers) return events
  const reason = 'the head was moved by someone who may not merge into the base branch'
  return [...events, scheduleRefused(state, { head: moved.to, reason, errors: [] })]
}

/**
 * Records a new merge base after the base branch has moved, and what that means for reviews. `head`: the head that it was
 * computed for.
 */
export function decideMergeBaseMoved(
  state: PullState,
  moved: { head: string; to: string; diff: DiffStat },
  content: MovedContent,
): Decision<PullRequestEvent> {
  const { head, to, diff } = moved
  if (state.status !== 'open' || state.head.sha !== head || state.mergeBase === to) return []
  const { repoId, index, mergeBase: from } = state
  return [
    { type: 'MergeBaseMoved', data: { repoId, index, from, to, diff } },
    ...outdatedReviews(state, { head, mergeBase: to }, content),
  ]
}

/** A pair of commits that was tried, with all files in conflict. */
interface Checked {
  head: string
  base: string
  mergeable: boolean
  conflicts: string[]
}

/** Records whether a pair of commits can be merged; no event when that is known already. */
export function decideMergeability(state: PullState, checked: Checked): Decision<PullRequestEvent> {
  if (state.status !== 'open') return []
  const { head, base, mergeable } = state.mergeability
  if (head === checked.head && base === checked.base && mergeable === checked.mergeable) return []
  return [mergeabilityChecked(state, checked)]
}

/** The list of files in conflict may be too long for an event: then the event has their number, too. */
function mergeabilityChecked(
  { repoId, index }: IssueRef,
  { head, base, mergeable, conflicts: all }: Checked,
): PullRequestEvent {
  const conflicts = cutList(all)
  const data = { repoId, index, head, base, mergeable, conflicts }
  const isCut = conflicts.length < all.length
  return { type: 'MergeabilityChecked', data: isCut ? { ...data, conflictCount: all.length } : data }
}

/**
 * `pulls.edit.6`: changes the base branch. `target`: the new base, compared with the head, and what that means for reviews:
 * the same as when the head moves, and by the rules of the new base. It ends a merge that another user has scheduled: that
 * user has not agreed to this base. `by`: null for the server, after the old base was deleted.
 */
export function decideTargetBranch(
  state: PullState,
  target: {
    base: BranchPoint
    mergeBase: string
    diff: DiffStat
    mergeable: boolean
    conflicts: string[]
    content: MovedContent
  },
  by: AccountRef | null,
): Decision<PullRequestEvent> {
  if (state.status === 'none') return gone
  if (state.status === 'merged') return refuse.conflict('the pull request is merged already')
  if (state.status === 'closed') return refuse.unprocessable('base: the pull request is closed')
  if (state.merging !== null) return refuse.conflict('a merge of this pull request is under way')
  const { repoId, index, head, base: from } = state
  const { base, mergeBase, diff, mergeable, conflicts, content } = target
  const events: PullRequestEvent[] = [
    { type: 'TargetBranchChanged', data: { repoId, index, from, base, mergeBase, diff } },
    ...outdatedReviews(state, { head: head.sha, mergeBase }, content),
    mergeabilityChecked(state, { head: head.sha, base: base.sha, mergeable, conflicts }),
  ]
  if (state.schedule === null || state.schedule.by.id === by?.id) return events
  const reason = by === null ? 'the base branch was deleted' : 'the base branch was changed by someone else'
  return [...events, scheduleRefused(state, { head: head.sha, reason, errors: [] })]
}

/** A branch that has got another name. */
export interface RenamedBranch {
  repoId: number
  from: string
  to: string
}

/** As what an unmerged pull request names a branch; undefined when it does not. Head and base are never the same one. */
export function sideOf(
  state: PullState,
  { repoId, branch }: Pick<BranchPoint, 'repoId' | 'branch'>,
): 'head' | 'base' | undefined {
  if (state.status === 'none' || state.status === 'merged') return undefined
  return (['head', 'base'] as const).find(
    (side) => state[side].repoId === repoId && state[side].branch === branch,
  )
}

/**
 * Follows a rename of the head or base branch. The commits are the same, so reviews, a scheduled merge and whether it can
 * be merged stay as they are. A merged pull request keeps the names that it was merged with.
 */
export function decideBranchRenamed(
  state: PullState,
  { repoId: branchRepoId, from, to }: RenamedBranch,
): Decision<PullRequestEvent> {
  const side = sideOf(state, { repoId: branchRepoId, branch: from })
  if (state.status === 'none' || side === undefined) return []
  const { repoId, index } = state
  return [{ type: 'PullRequestBranchRenamed', data: { repoId, index, side, from, to } }]
}

/** `issues.edit.4` and `pulls.edit.4`: closes or reopens. Closing also cancels a scheduled merge. */
export function decidePullStatus(
  state: PullState,
  change: StatusChange,
  by: AccountRef,
): Decision<PullRequestEvent> {
  if (state.status === 'none') return gone
  if (state.status === 'merged') {
    return refuse.preconditionFailed('state: a merged pull request cannot be closed or reopened')
  }
  if (state.merging !== null) return refuse.conflict('a merge of this pull request is under way')
  const decision = decideStatus(state, change)
  if (isRefusal(decision) || decision.length === 0 || !change.closed || state.schedule === null) {
    return decision
  }
  const { repoId, index } = state
  return [...decision, { type: 'MergeScheduleCanceled', data: { repoId, index, by } }]
}

/** Closes it after its head branch was deleted, or its base branch and nothing can take the place of that. */
export function decideBranchGone(
  state: PullState,
  side: 'head' | 'base',
  commentId: number,
): Decision<PullRequestEvent> {
  if (state.status !== 'open' || state.merging !== null) return []
  const { repoId, index, milestone, schedule, head } = state
  const comment = { id: commentId, kind: 'close' } as const
  // Also while it depends on issues that are open: it cannot be merged any more.
  const data = { repoId, index, closed: true, comment, milestone, branchGone: side }
  const events: PullRequestEvent[] = [{ type: 'StatusChanged', data }]
  if (schedule === null) return events
  const reason = `the ${side} branch was deleted`
  return [...events, scheduleRefused(state, { head: head.sha, reason, errors: [] })]
}

/** `pulls.edit.7`: whether writers of the base may push to the head branch. */
export function decideMaintainerEdit(state: PullState, allowed: boolean): Decision<PullRequestEvent> {
  if (state.status === 'none') return gone
  if (state.allowMaintainerEdit === allowed) return []
  const { repoId, index } = state
  return [{ type: 'MaintainerEditChanged', data: { repoId, index, allowed } }]
}

/** Records the intent to merge, with the built commit. From now on the merge gets an outcome: merged or failed. */
export function decideStartMerge(state: PullState, merge: MergeIntent): Decision<PullRequestEvent> {
  if (state.status !== 'open') return gone
  if (state.merging !== null) return refuse.conflict('another merge of this pull request is under way')
  return [{ type: 'MergeStarted', data: { repoId: state.repoId, index: state.index, ...merge } }]
}

/** Records that the merge under way succeeded: the base branch has its commit. */
export function decideMerged(state: PullState, commit: string): Decision<PullRequestEvent> {
  if (state.status !== 'open' || state.merging?.commit !== commit) return []
  return [merged(state, state.merging)]
}

/** `merge.3`: the pull request was merged outside of this server, by the given commit. */
export function decideManuallyMerged(state: PullState, merge: Merged): Decision<PullRequestEvent> {
  if (state.status !== 'open') return gone
  if (state.merging !== null) return refuse.conflict('another merge of this pull request is under way')
  return [merged(state, merge)]
}

type Merged = Omit<MergeIntent, 'baseBranch' | 'from' | 'message'>

function merged({ repoId, index, milestone }: ActivePull, merge: Merged): PullRequestEvent {
  const { style, commit, head, mergeBase, by: mergedBy, deleteBranch } = merge
  const data = { repoId, index, style, commit, head, mergeBase, mergedBy, milestone, deleteBranch }
  return { type: 'PullRequestMerged', data }
}

/** Records that the merge under way failed, since the base branch has moved. */
export function decideMergeFailed(
  state: PullState,
  commit: string,
  reason: string,
): Decision<PullRequestEvent> {
  if (state.status !== 'open' || state.merging?.commit !== commit) return []
  return [{ type: 'MergeFailed', data: { repoId: state.repoId, index: state.index, commit, reason } }]
}

/** `merge.8`: records the deletion of the head branch, with its comment. */
export function decideHeadBranchDeleted(state: PullState, commentId: number): Decision<PullRequestEvent> {
  if (state.status !== 'merged' || state.headBranchDeleted) return []
  const { repoId, index, head: branch } = state
  return [{ type: 'HeadBranchDeleted', data: { repoId, index, commentId, branch } }]
}

/** Records once why the head branch stays, although the merge asked for its deletion. */
export function decideHeadBranchKept(state: PullState, reason: string): Decision<PullRequestEvent> {
  if (state.status !== 'merged' || state.headBranchDeleted || state.headBranchKept) return []
  const { repoId, index, head: branch } = state
  return [{ type: 'HeadBranchKept', data: { repoId, index, branch, reason } }]
}

/** `merge.6`: one schedule at a time. */
export function decideSchedule(state: PullState, schedule: ScheduledMerge): Decision<PullRequestEvent> {
  if (state.status !== 'open') return gone
  if (state.schedule !== null) return refuse.conflict('a merge is scheduled already')
  return [{ type: 'MergeScheduled', data: { repoId: state.repoId, index: state.index, ...schedule } }]
}

/** `schedule.1`: cancels the schedule, for the user who scheduled the merge and for admins of the repository. */
export function decideCancelSchedule(
  state: PullState,
  by: AccountRef,
  isAdmin: boolean,
): Decision<PullRequestEvent> {
  if (state.status === 'none') return gone
  if (state.schedule === null) return refuse.notFound('no merge is scheduled')
  if (!isAdmin && state.schedule.by.id !== by.id) {
    return refuse.forbidden(
      'only the user who scheduled the merge and admins of the repository may cancel it',
    )
  }
  if (state.merging !== null) return refuse.notFound('the scheduled merge is under way already')
  return [{ type: 'MergeScheduleCanceled', data: { repoId: state.repoId, index: state.index, by } }]
}

/**
 * Ends the schedule after its merge was refused, unless the head has changed since. Another server may have started a
 * merge meanwhile: then the outcome of that decides, because the schedule is tried again when it fails.
 */
export function decideScheduleRefused(
  state: PullState,
  refused: { head: string; reason: string; errors: string[] },
): Decision<PullRequestEvent> {
  if (state.status === 'none' || state.schedule === null || state.head.sha !== refused.head) return []
  if (state.merging !== null) return []
  return [scheduleRefused(state, refused)]
}

/** The list of errors may be too long for an event: then the event has their number, too. */
function scheduleRefused(
  { repoId, index }: IssueRef,
  { errors: all, ...refused }: { head: string; reason: string; errors: string[] },
): PullRequestEvent {
  const errors = cutList(all)
  const data = { repoId, index, ...refused, errors }
  const isCut = errors.length < all.length
  return { type: 'ScheduledMergeRefused', data: isCut ? { ...data, errorCount: all.length } : data }
}
