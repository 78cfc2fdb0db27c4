/** Decides drafts, reviews and dismissals of a pull request. Pure: handlers supply facts and ids. */

import { type Refusal, refuse } from '../../errors/refusal.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { PullRequestEvent } from '../../events/catalog/pull-requests.ts'
import type { LineComment, ReviewEvent, Verdict } from '../../events/catalog/reviews.ts'
import type { ReviewFacts } from '../../projections/models/reviews/review-facts.ts'
import type { Decision } from '../execution/decider.ts'
import type { ActivePull, PullState } from '../pull-requests/pull-request.decider.ts'

/** Maximum number of reviews, drafts and requests of a pull request. */
export const MAX_REVIEWS = 1000
/** Maximum number of comments on lines in a review. */
export const MAX_LINE_COMMENTS = 100

export type NewComment = LineComment & { commentId: number }

export interface NewReview {
  /** The id of the review, unless the reviewer has a draft. */
  reviewId: number
  reviewer: AccountRef
  body: string
  commit: string
  /** The merge base of the commit; undefined when it is unknown. */
  mergeBase?: string | undefined
  comments: readonly NewComment[]
}

/** Facts about a submitted review. */
export interface SubmitFacts {
  /** Whether the verdict counts for branch protections. */
  official: boolean
  /** Whether the pull request has changed since the reviewed commit. */
  stale: boolean
  /** Whether the branch protection dismisses stale approvals. */
  dismissStale: boolean
  /** Comments of the reviewer's draft, with texts. */
  drafted: readonly NewComment[]
  /** Ids of the reviewer's teams. */
  teams: readonly number[]
}

const gone = refuse.notFound('pull request not found')
const unknown = refuse.notFound('review not found')

/** Returns the draft of a reviewer, who has at most one. */
export function draftOf({ reviews }: ActivePull, reviewer: { id: number }): ReviewFacts | undefined {
  return reviews.find(({ kind, reviewer: { id } }) => kind === 'pending' && id === reviewer.id)
}

const isVerdict = ({ kind }: ReviewFacts) => kind === 'approved' || kind === 'rejected'
const ofReviewer =
  ({ id }: { id: number }) =>
  (review: ReviewFacts) =>
    review.reviewer.id === id
const idOf = ({ id }: ReviewFacts) => id

/** Returns the recorded fields of a reviewed commit. */
const reviewed = ({ commit, mergeBase }: NewReview) => ({
  commit,
  ...(mergeBase !== undefined && { mergeBase }),
})

/** Creates or changes the reviewer's draft: replaces the text, adds the comments. */
export function decideDraft(state: PullState, review: NewReview): Decision<PullRequestEvent> {
  if (state.status === 'none') return gone
  const draft = draftOf(state, review.reviewer)
  const tooMany = limitProblem(state, draft, review)
  if (tooMany !== undefined) return tooMany
  const { repoId, index } = state
  const { reviewer, body, comments } = review
  const reviewId = draft?.id ?? review.reviewId
  const of = { repoId, index, reviewId }
  return [
    { type: 'ReviewDrafted', data: { ...of, reviewer, body, ...reviewed(review) } },
    ...comments.map(
      (comment): ReviewEvent => ({
        type: 'ReviewCommentDrafted',
        data: { ...of, author: reviewer, ...comment },
      }),
    ),
  ]
}

/**
 * Submits a review, with the reviewer's draft. An approval or rejection replaces the reviewer's earlier ones, and
 * answers the requests to the reviewer's teams. Every review answers the requests to its reviewer; after a comment the
 * superseded verdict counts again. A stale approval is dismissed at once where the protection says so. Posters cannot
 * approve or reject their own pull request.
 */
export function decideSubmit(
  state: PullState,
  verdict: Verdict,
  review: NewReview,
  { official, stale, dismissStale, drafted, teams }: SubmitFacts,
): Decision<PullRequestEvent> {
  if (state.status === 'none') return gone
  const refusal = verdictProblem(state, verdict, review.reviewer)
  if (refusal !== undefined) return refusal
  const draft = draftOf(state, review.reviewer)
  const tooMany = limitProblem(state, draft, review)
  if (tooMany !== undefined) return tooMany
  const comments = [...drafted, ...review.comments]
  if (verdict === 'comment' && review.body.trim() === '' && comments.length === 0) {
    return refuse.unprocessable('body: a review event COMMENT requires a body or a comment')
  }
  const { repoId, index, reviews } = state
  const { reviewer, body } = review
  const reviewId = draft?.id ?? review.reviewId
  const of = { repoId, index, reviewId }
  const own = reviews.filter(ofReviewer(reviewer))
  const requests = own.filter(({ kind }) => kind === 'request')
  const restored = verdict === 'comment' ? requests.flatMap((request) => supersededBy(request, reviews)) : []
  const ofTeams = reviews.filter(
    (one) => one.kind === 'team-request' && verdict !== 'comment' && teams.includes(one.reviewer.id),
  )
  const counts = (one: ReviewFacts) => isVerdict(one) && (one.official || !one.dismissed)
  return [
    {
      type: 'ReviewSubmitted',
      data: {
        ...of,
        reviewer,
        verdict,
        body,
        ...reviewed(review),
        official: verdict !== 'comment' && official,
        stale: verdict !== 'comment' && stale,
        comments: comments.map(({ commentId }) => commentId),
        superseded: verdict === 'comment' ? [] : own.filter(counts).map(idOf),
        answered: [...requests, ...ofTeams].map(idOf),
        ...(ofTeams.length > 0 && { answeredTeams: ofTeams.map((request) => request.reviewer.id) }),
        ...(restored.length > 0 && { restored }),
      },
    },
    ...comments.map(
      (comment): ReviewEvent => ({
        type: 'ReviewCommentAdded',
        data: { ...of, author: reviewer, ...comment },
      }),
    ),
    ...(verdict === 'approved' && stale && dismissStale ? [dismissedAtOnce(state, reviewId)] : []),
  ]
}

const dismissedAtOnce = ({ repoId, index, head }: ActivePull, reviewId: number): ReviewEvent => ({
  type: 'ReviewsOutdated',
  data: { repoId, index, head: head.sha, stale: [], current: [], dismissed: [reviewId] },
})

/** Returns the ids of the reviews that a request superseded and that still exist. */
export function supersededBy({ superseded = [] }: ReviewFacts, reviews: readonly ReviewFacts[]): number[] {
  return reviews.filter(({ id }) => superseded.includes(id)).map(idOf)
}

function verdictProblem(
  { status, poster }: ActivePull,
  verdict: Verdict,
  { id }: AccountRef,
): Refusal | undefined {
  if (verdict === 'comment') return undefined
  const what = verdict === 'approved' ? 'approve' : 'reject'
  if (poster.id === id) return refuse.unprocessable(`event: you may not ${what} your own pull request`)
  if (status !== 'open') {
    return refuse.unprocessable(`event: a ${status} pull request cannot be ${verdict}`)
  }
  return undefined
}

function limitProblem(
  { reviews }: ActivePull,
  draft: ReviewFacts | undefined,
  { reviewer, comments }: NewReview,
): Refusal | undefined {
  if ((draft?.comments.length ?? 0) + comments.length > MAX_LINE_COMMENTS) {
    return refuse.unprocessable(`comments: a review can have at most ${MAX_LINE_COMMENTS}`)
  }
  const own = reviews.filter(ofReviewer(reviewer))
  if (draft === undefined && own.length >= MAX_REVIEWS / 4) {
    return refuse.unprocessable(`one reviewer can have at most ${MAX_REVIEWS / 4} reviews of a pull request`)
  }
  if (draft !== undefined || reviews.length < MAX_REVIEWS) return undefined
  return refuse.unprocessable(`a pull request can have at most ${MAX_REVIEWS} reviews and requests`)
}

/** Returns the submitted review of a comment. */
function reviewWith(
  state: PullState,
  { reviewId, commentId }: { reviewId: number; commentId: number },
): ReviewFacts | undefined {
  const review = reviewIn(state, reviewId, { id: 0, siteAdmin: false })
  return review?.comments.includes(commentId) ? review : undefined
}

const noComment = refuse.notFound('review comment not found')

/** Adds a reply to a comment, in its review and on its line. */
export function decideReply(
  state: PullState,
  { reviewId, to, author, reply }: { reviewId: number; to: number; author: AccountRef; reply: NewComment },
): Decision<PullRequestEvent> {
  const review = reviewWith(state, { reviewId, commentId: to })
  if (review === undefined || state.status === 'none') return noComment
  if (review.comments.length >= MAX_LINE_COMMENTS) {
    return refuse.unprocessable(`a review can have at most ${MAX_LINE_COMMENTS} comments, with the replies`)
  }
  const { repoId, index } = state
  return [{ type: 'ReviewCommentAdded', data: { repoId, index, reviewId, author, ...reply, replyTo: to } }]
}

/** Resolves a conversation, or reopens it (null). */
export function decideResolve(
  state: PullState,
  comment: { reviewId: number; commentId: number },
  resolver: AccountRef | null,
): Decision<PullRequestEvent> {
  if (reviewWith(state, comment) === undefined || state.status === 'none') return noComment
  const { repoId, index } = state
  return [{ type: 'ReviewCommentResolved', data: { repoId, index, ...comment, resolver } }]
}

/** Deletes a review or draft with its comments, for its reviewer and site admins. */
export function decideDeleteReview(
  state: PullState,
  reviewId: number,
  by: AccountRef & { siteAdmin: boolean },
): Decision<PullRequestEvent> {
  const review = reviewIn(state, reviewId, by)
  if (review === undefined || state.status === 'none') return unknown
  const { id, reviewer, kind, comments } = review
  if (kind === 'request' || kind === 'team-request')
    return refuse.unprocessable('a request cannot be deleted as a review: use requested_reviewers')
  if (reviewer.id !== by.id && !by.siteAdmin) {
    return refuse.forbidden('only its reviewer and site admins may delete a review')
  }
  const { repoId, index } = state
  const type = kind === 'pending' ? 'ReviewDraftDiscarded' : 'ReviewDeleted'
  return [{ type, data: { repoId, index, reviewId: id, reviewer, comments: [...comments] } }]
}

/** Returns the review with that id. Drafts are visible only to their reviewer and site admins. */
function reviewIn(
  state: PullState,
  reviewId: number,
  by: { id: number; siteAdmin: boolean },
): ReviewFacts | undefined {
  if (state.status === 'none') return undefined
  const review = state.reviews.find(({ id }) => id === reviewId)
  const isHidden = review?.kind === 'pending' && review.reviewer.id !== by.id && !by.siteAdmin
  return isHidden ? undefined : review
}

/** Returns the review, if its verdict can be dismissed or restored. */
function dismissible(state: PullState, reviewId: number): (ReviewFacts & { of: ActivePull }) | Refusal {
  const review = reviewIn(state, reviewId, { id: 0, siteAdmin: false })
  if (review === undefined || state.status === 'none') return unknown
  if (!isVerdict(review)) return refuse.forbidden('only an approval or a rejection can be dismissed')
  if (state.status !== 'open') return refuse.forbidden(`the pull request is ${state.status}`)
  return { ...review, of: state }
}

/** Dismisses a review and, with `priors`, its reviewer's earlier ones. No event for those that are dismissed already. */
export function decideDismiss(
  state: PullState,
  reviewId: number,
  { message, priors }: { message: string; priors: boolean },
): Decision<PullRequestEvent> {
  const review = dismissible(state, reviewId)
  if ('refused' in review) return review
  const { of, reviewer } = review
  const { repoId, index, reviews } = of
  const dismissed = reviews
    .filter((one) => one.id === reviewId || (priors && ofReviewer(reviewer)(one) && one.id < reviewId))
    .filter((one) => isVerdict(one) && !one.dismissed)
    .map(idOf)
  if (dismissed.length === 0) return []
  return [{ type: 'ReviewDismissed', data: { repoId, index, reviewId, reviewer, dismissed, message } }]
}

/** Restores a dismissed review. One that a later review has replaced stays ineffective. */
export function decideUndismiss(state: PullState, reviewId: number): Decision<PullRequestEvent> {
  const review = dismissible(state, reviewId)
  if ('refused' in review) return review
  const { of, reviewer, dismissed } = review
  if (!dismissed) return []
  const { repoId, index } = of
  return [{ type: 'ReviewUndismissed', data: { repoId, index, reviewId, reviewer } }]
}
