/**
 * The events of the reviews of a pull request, in its stream `pull-<repoId>.<index>`. The ids of reviews, of requests and
 * of comments on lines are from the sequence of comments.
 */
import type { AccountRef } from './refs.ts'
import type { TeamRef } from './team-events.ts'

/** What a review says about the pull request. */
export const VERDICTS = ['approved', 'rejected', 'comment'] as const
export type Verdict = (typeof VERDICTS)[number]

/** Which version of a file a line is in: the head's, or that of the merge base. */
export const SIDES = ['new', 'old'] as const
export type Side = (typeof SIDES)[number]

/** A comment on a line. */
export interface LineComment {
  path: string
  side: Side
  /** From 1; 0: a comment on the whole file. */
  line: number
  /** The commits on which it was written: the reviewed one, and the merge base of then. */
  commit: string
  base: string
  /** The lines of the difference that end with the commented one, after their `@@` line; empty when it has none there. */
  hunk: string
  body: string
}

type DataByType = {
  /** A review that only its author and site admins see until it is submitted. Also recorded when it is changed. */
  ReviewDrafted: {
    reviewId: number
    reviewer: AccountRef
    body: string
    commit: string
    mergeBase?: string
  }
  ReviewCommentDrafted: { reviewId: number; commentId: number; author: AccountRef } & LineComment
  ReviewDraftDiscarded: { reviewId: number; reviewer: AccountRef; comments: number[] }
  ReviewSubmitted: {
    reviewId: number
    reviewer: AccountRef
    verdict: Verdict
    body: string
    /** The reviewed commit. */
    commit: string
    /** What the commit was compared with. Absent: it shares no history with the base. */
    mergeBase?: string
    /** Whether it counts for branch protections. */
    official: boolean
    /** Whether the pull request has changed since the reviewed commit. */
    stale: boolean
    /** The ids of its comments on lines: the next events. */
    comments: number[]
    /** Earlier reviews of the reviewer that count no more. */
    superseded: number[]
    /** The requests that it answers: they end. */
    answered: number[]
    /** Present when some of them asked teams of the reviewer: the ids of these teams. */
    answeredTeams?: number[]
    /** Present when a comment answers a request: the reviews that the request superseded. They count again. */
    restored?: number[]
  }
  /** `replyTo`: present when it is recorded alone, on the line of the comment that it answers and in the same review. */
  ReviewCommentAdded: {
    reviewId: number
    commentId: number
    author: AccountRef
    replyTo?: number
  } & LineComment
  /** What the comment is about is settled, in the eyes of the resolver; null: it is not any more. */
  ReviewCommentResolved: { reviewId: number; commentId: number; resolver: AccountRef | null }
  ReviewDeleted: { reviewId: number; reviewer: AccountRef; comments: number[] }
  /** `dismissed`: this review, and earlier ones of the same reviewer. */
  ReviewDismissed: { reviewId: number; reviewer: AccountRef; dismissed: number[]; message: string }
  ReviewUndismissed: { reviewId: number; reviewer: AccountRef }
  /** The head or the base moved, the base branch was changed, or an earlier commit was reviewed: in the event before. */
  ReviewsOutdated: {
    head: string
    /** Reviews of what the pull request was before. */
    stale: number[]
    /** Reviews of exactly what it is again. */
    current: number[]
    /** Approvals that the branch protection dismisses because of it. */
    dismissed: number[]
    /** Present after a change of the base branch: what its rules make official, and what they make unofficial. */
    official?: number[]
    unofficial?: number[]
  }
  ReviewRequested: {
    reviewId: number
    reviewer: AccountRef
    /** Whether the requested review would count for branch protections. */
    official: boolean
    /** Earlier reviews of the reviewer that count no more. */
    superseded: number[]
  }
  /** `restored`: the review that counts again. */
  ReviewRequestRemoved: { reviewId: number; reviewer: AccountRef; restored: number | null }
  /** `members`: the ids of the users who are in the team now, and are told of it. */
  TeamReviewRequested: { reviewId: number; team: TeamRef; official: boolean; members: number[] }
  TeamReviewRequestRemoved: { reviewId: number; team: TeamRef }
}

export type ReviewEvent = {
  [Type in keyof DataByType]: { type: Type; data: { repoId: number; index: number } & DataByType[Type] }
}[keyof DataByType]

/** Whether an event of this type is of a review that is not submitted: its texts are shown to nobody else. */
export const isReviewDraft = (type: string) => type === 'ReviewDrafted' || type === 'ReviewCommentDrafted'

/** The demands of a branch protection on reviews. */
export interface ReviewRules {
  /** How many official approvals a merge needs. */
  required: number
  /** The ids of the only users whose approvals are official; null: all writers. */
  approvers: number[] | null
  /** Where approvers are named: the ids of the teams whose members are approvers, too. Absent: none. */
  approverTeams?: number[]
  /** Whether an official review that requests changes blocks the merge. */
  blockOnRejected: boolean
  /** Whether an official request for a review blocks the merge until it is answered. */
  blockOnRequests: boolean
  /** Whether approvals are dismissed when the pull request changes. */
  dismissStale: boolean
  /** Whether approvals of an earlier state do not count. */
  ignoreStale: boolean
}
