/** `pull-<repoId>.<index>` */
import { type Static, Type } from 'typebox'
import { type DiscussionEvent, Opened } from './issues.ts'
import { MilestoneRef } from './milestones.ts'
import { AccountRef, type EventsOf, Flag, OrNull, ofIssue, Text, Whole } from './parts.ts'
import { MergeStyle } from './repositories.ts'
import type { ReviewEvent } from './reviews.ts'

/** The head or base of a pull request: a branch of a repository, and its commit at that time. */
const BranchPoint = Type.Object({ repoId: Whole, branch: Text, sha: Text })
export type BranchPoint = Static<typeof BranchPoint>

const DiffStat = Type.Object({ additions: Whole, deletions: Whole, changedFiles: Whole })
export type DiffStat = Static<typeof DiffStat>

/**
 * The facts by which a merge was allowed, as they were when it was decided. Only admins of the repository see them. See
 * docs/evidence.md.
 */
const MergeDecision = Type.Object({
  /** The merger's access to the repository, and how the merger got it: `grantedAccess`. */
  access: Type.Enum(['none', 'read', 'write', 'admin']),
  through: OrNull(Type.Enum(['site-admin', 'owner', 'organization', 'collaborator', 'team', 'public'])),
  /** Whether the merger used `force_merge`. */
  forced: Flag,
  /** Reasons of the protection against the merge that did not stop it. */
  bypassed: Type.Array(Text),
  /** The protection of the base branch, and the time of its last change; null: the branch was not protected. */
  protection: OrNull(Type.Object({ id: Whole, updatedAt: Text })),
  /** The outcome of the required checks; null when the protection requires none. */
  checks: OrNull(Type.Enum(['success', 'pending', 'failed'])),
  /** The revision of the last status of the head that was read; null: it had none. */
  checksRevision: OrNull(Whole),
  /** The ids of the approvals that counted; null when the protection requires none. */
  approvals: OrNull(Type.Array(Whole)),
  /** All approvals and rejections of the pull request, so that evidence cannot leave one out. */
  reviews: Type.Array(Type.Object({ id: Whole, kind: Type.Enum(['approved', 'rejected']), dismissed: Flag })),
})
export type MergeDecision = Static<typeof MergeDecision>

/** A merge whose intent is recorded: the base branch moves from `from` to `commit`, or the merge failed. */
const MergeIntent = Type.Object({
  style: MergeStyle,
  baseBranch: Text,
  from: Text,
  head: Text,
  /** The merge base of `from` and `head`; null when it is unchanged. */
  mergeBase: OrNull(Text),
  commit: Text,
  message: Text,
  by: AccountRef,
  /** Whether the head branch is deleted after the merge. */
  deleteBranch: Flag,
  decision: Type.Optional(MergeDecision),
})
export type MergeIntent = Static<typeof MergeIntent>

/** A condition of a scheduled merge. `first-check`: no rule requires checks, but the repository has some. */
const MergeWait = Type.Enum(['reviews', 'required-checks', 'checks', 'first-check'])
export type MergeWait = Static<typeof MergeWait>

/** A merge that waits for its conditions, as the user scheduled it. */
const ScheduledMerge = Type.Object({
  style: MergeStyle,
  title: Text,
  message: Text,
  deleteBranch: Flag,
  by: AccountRef,
  /** `head_commit_id`: the only head that may be merged; null for any head pushed by a writer. */
  expectedHead: OrNull(Text),
  /** Open conditions at the time of scheduling; empty for an immediate merge. */
  waitsFor: Type.Immutable(Type.Array(MergeWait)),
})
export type ScheduledMerge = Static<typeof ScheduledMerge>

export const pullRequestEvents = {
  PullRequestOpened: Type.Object({
    ...Opened.properties,
    head: BranchPoint,
    base: BranchPoint,
    mergeBase: Text,
    diff: DiffStat,
    mergeable: Flag,
  }),
  PullRequestHeadMoved: Type.Object({
    ...ofIssue,
    from: Text,
    to: Text,
    mergeBase: Text,
    diff: DiffStat,
    /** Present when the new head does not contain the old one. */
    forced: Type.Optional(Flag),
  }),
  MergeabilityChecked: Type.Object({
    ...ofIssue,
    head: Text,
    base: Text,
    mergeable: Flag,
    /** The paths of the files in conflict. */
    conflicts: Type.Array(Text),
    /** Number of files in conflict; present when the list is cut off. */
    conflictCount: Type.Optional(Whole),
  }),
  /** The base branch moved, and now contains more or fewer of the head's commits than before. */
  MergeBaseMoved: Type.Object({ ...ofIssue, from: Text, to: Text, diff: DiffStat }),
  TargetBranchChanged: Type.Object({
    ...ofIssue,
    from: BranchPoint,
    base: BranchPoint,
    mergeBase: Text,
    diff: DiffStat,
  }),
  /** The head or base branch was renamed. No commit has changed. */
  PullRequestBranchRenamed: Type.Object({
    ...ofIssue,
    side: Type.Enum(['head', 'base']),
    from: Text,
    to: Text,
  }),
  MaintainerEditChanged: Type.Object({ ...ofIssue, allowed: Flag }),
  MergeStarted: Type.Object({ ...ofIssue, ...MergeIntent.properties }),
  MergeFailed: Type.Object({ ...ofIssue, commit: Text, reason: Text }),
  PullRequestMerged: Type.Object({
    ...ofIssue,
    style: MergeStyle,
    /** The new commit of the base branch; for a manual merge, the commit that the request named. */
    commit: Text,
    head: Text,
    mergeBase: OrNull(Text),
    mergedBy: AccountRef,
    milestone: OrNull(MilestoneRef),
    /** Whether the head branch is deleted: directly after the merge, or later if that fails. */
    deleteBranch: Flag,
    /** Of a manual merge. Other merges have it in `MergeStarted`. */
    decision: Type.Optional(MergeDecision),
  }),
  /** The comment on the deletion of the head branch after a merge. */
  HeadBranchDeleted: Type.Object({ ...ofIssue, commentId: Whole, branch: BranchPoint }),
  /** The head branch, whose deletion the merge requested, stays. `reason` is text. */
  HeadBranchKept: Type.Object({ ...ofIssue, branch: BranchPoint, reason: Text }),
  MergeScheduled: Type.Object({ ...ofIssue, ...ScheduledMerge.properties }),
  MergeScheduleCanceled: Type.Object({ ...ofIssue, by: AccountRef }),
  /** The scheduled merge was refused, or the pull request has changed. This ends the schedule. */
  ScheduledMergeRefused: Type.Object({
    ...ofIssue,
    head: Text,
    reason: Text,
    errors: Type.Array(Text),
    /** Number of errors; present when the list is cut off. */
    errorCount: Type.Optional(Whole),
  }),
}
export type PullRequestEvent = EventsOf<typeof pullRequestEvents> | DiscussionEvent | ReviewEvent
