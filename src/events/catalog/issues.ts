/**
 * `issue-<repoId>.<index>`: an issue, with the events shared by pull requests. Also the pins of a repository, in
 * `repo-<id>`.
 */
import { type Static, Type } from 'typebox'
import { type IssueFileEvent, issueFileEvents } from './attachments.ts'
import { LabelRef } from './labels.ts'
import { MilestoneRef } from './milestones.ts'
import { AccountRef, type EventsOf, Flag, IssueRef, OrNull, ofIssue, Text, Whole } from './parts.ts'

/** The pull request or commit that closed or reopened an issue by naming it. */
const StatusCause = Type.Object({
  repoId: Whole,
  /** Null: the commit was pushed. */
  pull: OrNull(Whole),
  commit: Text,
})
export type StatusCause = Static<typeof StatusCause>

/** Each event holds the complete new value, and the difference to the old one. */
const fieldEvents = {
  TitleChanged: Type.Object({ ...ofIssue, oldTitle: Text, title: Text }),
  BodyChanged: Type.Object({ ...ofIssue, body: Text }),
  StatusChanged: Type.Object({
    ...ofIssue,
    closed: Flag,
    /** The comment that shows the change in the timeline. */
    comment: Type.Object({ id: Whole, kind: Type.Enum(['close', 'reopen']) }),
    /** The milestone that counts the issue. */
    milestone: OrNull(MilestoneRef),
    /** The branch of the pull request whose deletion has closed it. */
    branchGone: Type.Optional(Type.Enum(['head', 'base'])),
    /** Present for a keyword (`fixes #3`): the commit, and the pull request whose merge brought the text. */
    cause: Type.Optional(StatusCause),
  }),
  LabelsChanged: Type.Object({
    ...ofIssue,
    labels: Type.Array(LabelRef),
    added: Type.Array(LabelRef),
    removed: Type.Array(LabelRef),
  }),
  MilestoneChanged: Type.Object({
    ...ofIssue,
    from: OrNull(MilestoneRef),
    to: OrNull(MilestoneRef),
    closed: Flag,
  }),
  AssigneesChanged: Type.Object({
    ...ofIssue,
    assignees: Type.Array(AccountRef),
    added: Type.Array(AccountRef),
    removed: Type.Array(AccountRef),
  }),
  DeadlineChanged: Type.Object({ ...ofIssue, from: OrNull(Text), to: OrNull(Text) }),
  /** The issue's branch or tag; empty for neither. */
  IssueRefChanged: Type.Object({ ...ofIssue, from: Text, to: Text }),
  DependencyAdded: Type.Object({ ...ofIssue, dependency: IssueRef }),
  DependencyRemoved: Type.Object({ ...ofIssue, dependency: IssueRef }),
  /**
   * Earlier texts now read "erased by … on …": those of one comment, or all (null). Their keys are destroyed
   * afterwards. A long list of comments takes several events.
   */
  TextsErased: Type.Object({
    ...ofIssue,
    commentId: OrNull(Whole),
    /** The existing comments, and the uuids of their files. */
    comments: Type.Array(Whole),
    files: Type.Array(Text),
    /** Null: an operator, on the command line. */
    by: OrNull(AccountRef),
    at: Text,
  }),
  /** The keys of all erasures up to this revision are destroyed, and their files are removed. */
  ErasureFinished: Type.Object({
    ...ofIssue,
    upTo: Whole,
    /** Number of events whose text keys were destroyed. */
    texts: Whole,
    files: Whole,
  }),
}

const lockEvents = {
  /** Only writers may comment now. `reason` may be empty. */
  DiscussionLocked: Type.Object({ ...ofIssue, reason: Text }),
  DiscussionUnlocked: Type.Object(ofIssue),
}
export type LockEvent = EventsOf<typeof lockEvents>

/** The events that issues and pull requests share: in `issue-<repoId>.<index>` and in `pull-<repoId>.<index>`. */
export const discussionEvents = { ...fieldEvents, ...issueFileEvents, ...lockEvents }
export type DiscussionEvent = EventsOf<typeof fieldEvents> | IssueFileEvent | LockEvent

/** Fields of new issues and pull requests. */
export const Opened = Type.Object({
  ...ofIssue,
  /** Unique on the server. */
  id: Whole,
  poster: AccountRef,
  title: Text,
  body: Text,
  labels: Type.Immutable(Type.Array(LabelRef)),
  milestone: OrNull(MilestoneRef),
  assignees: Type.Immutable(Type.Array(AccountRef)),
  /** ISO 8601 at 23:59:59, in the time zone in which the client sent it. */
  deadline: OrNull(Text),
})
export type Opened = Static<typeof Opened>

export const issueEvents = {
  /** `ref`: the issue's branch or tag, if any. */
  IssueOpened: Type.Object({ ...Opened.properties, ref: Type.Optional(Text) }),
  /** Its number is never reused. `closed` and `milestone` are for counters; `files` has the uuids of its own files. */
  IssueDeleted: Type.Object({
    ...ofIssue,
    closed: Flag,
    milestone: OrNull(MilestoneRef),
    files: Type.Array(Text),
  }),
}
export type IssueEvent = EventsOf<typeof issueEvents> | DiscussionEvent

export const pinEvents = {
  PinsChanged: Type.Object({
    repoId: Whole,
    /** Whether these are pull requests, which are pinned separately. */
    isPull: Flag,
    /** The pinned numbers, in order. */
    from: Type.Immutable(Type.Array(Whole)),
    to: Type.Immutable(Type.Array(Whole)),
  }),
}
export type PinEvent = EventsOf<typeof pinEvents>
