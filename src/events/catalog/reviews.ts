/**
 * The events of the reviews of a pull request, in its stream `pull-<repoId>.<index>`. The ids of reviews, of requests and
 * of comments on lines are from the sequence of comments.
 */
import { type Static, Type } from 'typebox'
import { TeamRef } from './organizations.ts'
import { AccountRef, type EventsOf, Flag, OrNull, ofIssue, Text, Whole } from './parts.ts'

/** Verdict of a review. */
export const VERDICTS = ['approved', 'rejected', 'comment'] as const
export type Verdict = (typeof VERDICTS)[number]

/** Version of a file with the line: the head's, or that of the merge base. */
const SIDES = ['new', 'old'] as const
export type Side = (typeof SIDES)[number]

/** A comment on a line. */
const LineComment = Type.Object({
  path: Text,
  side: Type.Enum([...SIDES]),
  /** From 1; 0: a comment on the whole file. */
  line: Whole,
  /** The reviewed commit, and the merge base at that time. */
  commit: Text,
  base: Text,
  /** Diff lines up to the commented one, after their `@@` line; empty for a line outside the diff. */
  hunk: Text,
  body: Text,
})
export type LineComment = Static<typeof LineComment>

const ofReview = { ...ofIssue, reviewId: Whole }
const ofReviewer = { ...ofReview, reviewer: AccountRef }
const ofTeam = { ...ofReview, team: TeamRef }
const Ids = Type.Array(Whole)
const Comment = Type.Object({ ...ofReview, commentId: Whole, author: AccountRef, ...LineComment.properties })

export const reviewEvents = {
  /** A review that only its author and site admins see until it is submitted. Also recorded for each change. */
  ReviewDrafted: Type.Object({ ...ofReviewer, body: Text, commit: Text, mergeBase: Type.Optional(Text) }),
  ReviewCommentDrafted: Comment,
  ReviewDraftDiscarded: Type.Object({ ...ofReviewer, comments: Ids }),
  ReviewSubmitted: Type.Object({
    ...ofReviewer,
    verdict: Type.Enum([...VERDICTS]),
    body: Text,
    /** The reviewed commit. */
    commit: Text,
    /** The commit's base of comparison. Absent: unrelated histories. */
    mergeBase: Type.Optional(Text),
    /** Whether it counts for branch protections. */
    official: Flag,
    /** Whether the pull request has changed since the reviewed commit. */
    stale: Flag,
    /** The ids of its comments on lines: the next events. */
    comments: Ids,
    /** Earlier reviews of the reviewer, which no longer count. */
    superseded: Ids,
    /** The requests that it answers and ends. */
    answered: Ids,
    /** Ids of the requested teams among `answered`, if any. */
    answeredTeams: Type.Optional(Ids),
    /** Present when a comment answers a request: the reviews that the request superseded, which count again. */
    restored: Type.Optional(Ids),
  }),
  /** `replyTo`: present when it is recorded alone, on the line of the comment that it answers and in the same review. */
  ReviewCommentAdded: Type.Object({ ...Comment.properties, replyTo: Type.Optional(Whole) }),
  /** `resolver` has resolved the conversation; null reopens it. */
  ReviewCommentResolved: Type.Object({ ...ofReview, commentId: Whole, resolver: OrNull(AccountRef) }),
  ReviewDeleted: Type.Object({ ...ofReviewer, comments: Ids }),
  /** `dismissed`: this review, and earlier ones of the same reviewer. */
  ReviewDismissed: Type.Object({ ...ofReviewer, dismissed: Ids, message: Text }),
  ReviewUndismissed: Type.Object(ofReviewer),
  /** After an event that moved the head or base, changed the base branch, or reviewed an earlier commit. */
  ReviewsOutdated: Type.Object({
    ...ofIssue,
    head: Text,
    /** Reviews of an earlier state of the pull request. */
    stale: Ids,
    /** Reviews of exactly its current state. */
    current: Ids,
    /** Approvals that the branch protection dismisses because of it. */
    dismissed: Ids,
    /** Present after a change of the base branch: reviews that its rules make official or unofficial. */
    official: Type.Optional(Ids),
    unofficial: Type.Optional(Ids),
  }),
  ReviewRequested: Type.Object({
    ...ofReviewer,
    /** Whether the requested review would count for branch protections. */
    official: Flag,
    /** Earlier reviews of the reviewer, which no longer count. */
    superseded: Ids,
  }),
  /** `restored`: the review that counts again. */
  ReviewRequestRemoved: Type.Object({ ...ofReviewer, restored: OrNull(Whole) }),
  /** `members`: the ids of the team's current users, who are notified. */
  TeamReviewRequested: Type.Object({ ...ofTeam, official: Flag, members: Ids }),
  TeamReviewRequestRemoved: Type.Object(ofTeam),
}
export type ReviewEvent = EventsOf<typeof reviewEvents>

/** Whether events of this type belong to an unsubmitted review, whose texts only its author sees. */
export const isReviewDraft = (type: string) => type === 'ReviewDrafted' || type === 'ReviewCommentDrafted'
