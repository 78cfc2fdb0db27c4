/** The pull request aggregate. Pure: commands supply facts from git. */

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
  /** Outcome of the last trial merge. */
  mergeability: { head: string; base: string; mergeable: boolean }
  allowMaintainerEdit: boolean
  /** The merge under way: recorded intent without an outcome. */
  merging: MergeIntent | null
  schedule: ScheduledMerge | null
  headBranchDeleted: boolean
  /** Whether the merge requested its deletion, and it was kept. */
  headBranchKept: boolean
  /** Ordered by id. */
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
      // The merged head. A branch that has moved since must not be deleted.
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

/** Returns whether two states are equal, apart from facts that processes find about their commits. */
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

/** Opens a pull request. `maintainerEdit`: whether writers of the base may push to the head branch. */
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
 * Records a new head. A closed pull request keeps its head. `byMergers`: whether all users who moved the head may merge
 * into the base. The same append ends a schedule for another head, or after a push by a user who may not merge, and
 * updates reviews, so that the old ones never apply to the new head.
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
  const reason = 'a user who may not merge into the base branch has moved the head'
  return [...events, scheduleRefused(state, { head: moved.to, reason, errors: [] })]
}

/**
 * Records a new merge base after a move of the base, with its effect on reviews. `head`: the head that it was computed
 * for.
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

/** A trial merge, with all conflicting files. */
interface Checked {
  head: string
  base: string
  mergeable: boolean
  conflicts: string[]
}

/** Records the outcome of a trial merge; no event for a known one. */
export function decideMergeability(state: PullState, checked: Checked): Decision<PullRequestEvent> {
  if (state.status !== 'open') return []
  const { head, base, mergeable } = state.mergeability
  if (head === checked.head && base === checked.base && mergeable === checked.mergeable) return []
  return [mergeabilityChecked(state, checked)]
}

/** Limits the list of files to the size of an event; then the event has their number. */
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
 * Changes the base branch: `pulls.edit.6`. `target`: the new base, compared with the head, and the effect on reviews,
 * by the new base's rules. Ends a merge that another user has scheduled, since that user has not agreed to this base.
 * `by`: null for the server, after the old base was deleted.
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
  const reason = by === null ? 'the base branch was deleted' : 'another user has changed the base branch'
  return [...events, scheduleRefused(state, { head: head.sha, reason, errors: [] })]
}

/** A renamed branch. */
export interface RenamedBranch {
  repoId: number
  from: string
  to: string
}

/**
 * Returns whether an unmerged pull request names the branch as head or base; undefined for neither. They always differ.
 */
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
 * Applies a rename of head or base. The commits stay, so reviews, schedule and mergeability do, too. A merged pull
 * request keeps the names at its merge.
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

/** Closes or reopens: `issues.edit.4`, `pulls.edit.4`. Closing cancels a scheduled merge. */
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

/** Closes a pull request whose head branch was deleted, or whose base was and cannot be replaced. */
export function decideBranchGone(
  state: PullState,
  side: 'head' | 'base',
  commentId: number,
): Decision<PullRequestEvent> {
  if (state.status !== 'open' || state.merging !== null) return []
  const { repoId, index, milestone, schedule, head } = state
  const comment = { id: commentId, kind: 'close' } as const
  // Even with open dependencies: it cannot be merged any more.
  const data = { repoId, index, closed: true, comment, milestone, branchGone: side }
  const events: PullRequestEvent[] = [{ type: 'StatusChanged', data }]
  if (schedule === null) return events
  const reason = `the ${side} branch was deleted`
  return [...events, scheduleRefused(state, { head: head.sha, reason, errors: [] })]
}

/** Sets whether writers of the base may push to the head branch: `pulls.edit.7`. */
export function decideMaintainerEdit(state: PullState, allowed: boolean): Decision<PullRequestEvent> {
  if (state.status === 'none') return gone
  if (state.allowMaintainerEdit === allowed) return []
  const { repoId, index } = state
  return [{ type: 'MaintainerEditChanged', data: { repoId, index, allowed } }]
}

/** Records the intent to merge, with the commit. From now on the merge gets an outcome. */
export function decideStartMerge(state: PullState, merge: MergeIntent): Decision<PullRequestEvent> {
  if (state.status !== 'open') return gone
  if (state.merging !== null) return refuse.conflict('another merge of this pull request is under way')
  return [{ type: 'MergeStarted', data: { repoId: state.repoId, index: state.index, ...merge } }]
}

/** Records that the merge under way succeeded. */
export function decideMerged(state: PullState, commit: string): Decision<PullRequestEvent> {
  if (state.status !== 'open' || state.merging?.commit !== commit) return []
  const { decision: _, ...merging } = state.merging
  return [merged(state, merging)]
}

/** Records a merge outside of this server, by the given commit: `merge.3`. */
export function decideManuallyMerged(state: PullState, merge: Merged): Decision<PullRequestEvent> {
  if (state.status !== 'open') return gone
  if (state.merging !== null) return refuse.conflict('another merge of this pull request is under way')
  return [merged(state, merge)]
}

type Merged = Omit<MergeIntent, 'baseBranch' | 'from' | 'message'>

function merged({ repoId, index, milestone }: ActivePull, merge: Merged): PullRequestEvent {
  const { style, commit, head, mergeBase, by: mergedBy, deleteBranch, decision } = merge
  const data = { repoId, index, style, commit, head, mergeBase, mergedBy, milestone, deleteBranch }
  return { type: 'PullRequestMerged', data: { ...data, ...(decision !== undefined && { decision }) } }
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

/** Records the deletion of the head branch, with its comment: `merge.8`. */
export function decideHeadBranchDeleted(state: PullState, commentId: number): Decision<PullRequestEvent> {
  if (state.status !== 'merged' || state.headBranchDeleted) return []
  const { repoId, index, head: branch } = state
  return [{ type: 'HeadBranchDeleted', data: { repoId, index, commentId, branch } }]
}

/** Records once why the head branch is kept although the merge requested its deletion. */
export function decideHeadBranchKept(state: PullState, reason: string): Decision<PullRequestEvent> {
  if (state.status !== 'merged' || state.headBranchDeleted || state.headBranchKept) return []
  const { repoId, index, head: branch } = state
  return [{ type: 'HeadBranchKept', data: { repoId, index, branch, reason } }]
}

/** Schedules a merge, one at a time: `merge.6`. */
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
 * Ends the schedule after its merge was refused, unless the head has changed. Another node may have started a merge
 * meanwhile: then its outcome decides, because the schedule is tried again when it fails.
 */
export function decideScheduleRefused(
  state: PullState,
  refused: { head: string; reason: string; errors: string[] },
): Decision<PullRequestEvent> {
  if (state.status === 'none' || state.schedule === null || state.head.sha !== refused.head) return []
  if (state.merging !== null) return []
  return [scheduleRefused(state, refused)]
}

/** Limits the list of errors to the size of an event; then the event has their number. */
function scheduleRefused(
  { repoId, index }: IssueRef,
  { errors: all, ...refused }: { head: string; reason: string; errors: string[] },
): PullRequestEvent {
  const errors = cutList(all)
  const data = { repoId, index, ...refused, errors }
  const isCut = errors.length < all.length
  return { type: 'ScheduledMergeRefused', data: isCut ? { ...data, errorCount: all.length } : data }
}
