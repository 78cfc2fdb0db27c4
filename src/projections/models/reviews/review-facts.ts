/**
 * The reviews of a pull request without texts, folded from its events, as merges need them. The aggregate and the read
 * model share the fold. Pure.
 */
import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { MergeDecision } from '../../../events/catalog/pull-requests.ts'
import type { ReviewEvent, Verdict } from '../../../events/catalog/reviews.ts'
import type { EventOf } from '../../../events/handlers.ts'

/** A review, a draft of one, or a request for one. */
export interface ReviewFacts {
  id: number
  /** The team for a team request; its id is never an account's. */
  reviewer: AccountRef
  kind: Verdict | 'pending' | 'request' | 'team-request'
  /** The reviewed commit; empty for a request. */
  commit: string
  /** Base commit of the reviewed diff; absent when unknown. */
  mergeBase?: string
  official: boolean
  stale: boolean
  dismissed: boolean
  /** The ids of its comments on lines. */
  comments: readonly number[]
  /** For a request: the reviews that do not count while it is open. */
  superseded?: readonly number[]
}

/** Returns the approvals and rejections among reviews, by id, as a merge decision records them. */
export const verdictsOf = (reviews: readonly ReviewFacts[]): MergeDecision['reviews'] =>
  reviews
    .flatMap(({ id, kind, dismissed }) =>
      kind === 'approved' || kind === 'rejected' ? [{ id, kind, dismissed }] : [],
    )
    .sort((a, b) => a.id - b.id)

const within = (ids: readonly number[]) => {
  const set = new Set(ids)
  return ({ id }: { id: number }) => set.has(id)
}

/** Changed fields of a review when the same reviewer submits another one. */
const SUPERSEDED = { official: false, dismissed: true } as const

const drafted = ({ data }: EventOf<'ReviewDrafted'>, comments: readonly number[] = []): ReviewFacts => ({
  id: data.reviewId,
  reviewer: data.reviewer,
  kind: 'pending',
  commit: data.commit,
  ...(data.mergeBase !== undefined && { mergeBase: data.mergeBase }),
  official: false,
  stale: false,
  dismissed: false,
  comments,
})

const submitted = ({ data }: EventOf<'ReviewSubmitted'>): ReviewFacts => ({
  id: data.reviewId,
  reviewer: data.reviewer,
  kind: data.verdict,
  commit: data.commit,
  ...(data.mergeBase !== undefined && { mergeBase: data.mergeBase }),
  official: data.official,
  stale: data.stale,
  dismissed: false,
  comments: data.comments,
})

const requested = ({ data }: EventOf<'ReviewRequested'>): ReviewFacts => ({
  id: data.reviewId,
  reviewer: data.reviewer,
  kind: 'request',
  commit: '',
  official: data.official,
  stale: false,
  dismissed: false,
  comments: [],
  superseded: data.superseded,
})

const teamRequested = ({ data }: EventOf<'TeamReviewRequested'>): ReviewFacts => ({
  id: data.reviewId,
  reviewer: { id: data.team.id, login: data.team.name },
  kind: 'team-request',
  commit: '',
  official: data.official,
  stale: false,
  dismissed: false,
  comments: [],
})

/** Returns the review that an event begins; undefined for events that only change reviews. */
export function begunReview(event: ReviewEvent): ReviewFacts | undefined {
  if (event.type === 'ReviewDrafted') return drafted(event)
  if (event.type === 'ReviewSubmitted') return submitted(event)
  if (event.type === 'TeamReviewRequested') return teamRequested(event)
  return event.type === 'ReviewRequested' ? requested(event) : undefined
}

/** Returns the ids of the reviews that an event ends. */
export function endedReviews(event: ReviewEvent): readonly number[] {
  switch (event.type) {
    case 'ReviewDraftDiscarded':
    case 'ReviewDeleted':
    case 'ReviewRequestRemoved':
    case 'TeamReviewRequestRemoved':
      return [event.data.reviewId]
    case 'ReviewSubmitted':
      return event.data.answered
    default:
      return []
  }
}

/** Returns the fields of existing reviews that an event changes, with the ids of these reviews. */
export function changedReviews(
  event: ReviewEvent,
): readonly (readonly [ids: readonly number[], changed: Partial<ReviewFacts>])[] {
  switch (event.type) {
    case 'ReviewSubmitted':
      return [
        [event.data.superseded, SUPERSEDED],
        [event.data.restored ?? [], { official: true }],
      ]
    case 'ReviewRequested':
      return [[event.data.superseded, { official: false }]]
    case 'ReviewRequestRemoved': {
      const { restored } = event.data
      return restored === null ? [] : [[[restored], { official: true }]]
    }
    case 'ReviewDismissed':
      return [[event.data.dismissed, { dismissed: true }]]
    case 'ReviewUndismissed':
      return [[[event.data.reviewId], { dismissed: false }]]
    case 'ReviewsOutdated': {
      const { stale, current, dismissed, official = [], unofficial = [] } = event.data
      return [
        [stale, { stale: true }],
        [current, { stale: false }],
        [dismissed, { dismissed: true }],
        [official, { official: true }],
        [unofficial, { official: false }],
      ]
    }
    default:
      return []
  }
}

/** Adds a comment to a review's comments. The event of a submission has named it already. */
export const withComment = ({ comments }: Pick<ReviewFacts, 'comments'>, id: number): readonly number[] =>
  comments.includes(id) ? comments : [...comments, id]

/** Returns the reviews after an event, in the order of their ids. */
function evolveReviews(reviews: readonly ReviewFacts[], event: ReviewEvent): readonly ReviewFacts[] {
  if (event.type === 'ReviewCommentResolved') return reviews
  if (event.type === 'ReviewCommentDrafted' || event.type === 'ReviewCommentAdded') {
    const { reviewId, commentId } = event.data
    return reviews.map((review) =>
      review.id === reviewId ? { ...review, comments: withComment(review, commentId) } : review,
    )
  }
  const begun = begunReview(event)
  const before = begun && reviews.find(({ id }) => id === begun.id)
  const changed = changedReviews(event).reduce((all, [ids, fields]) => {
    const isOne = within(ids)
    return ids.length === 0 ? all : all.map((one) => (isOne(one) ? { ...one, ...fields } : one))
  }, reviews)
  const isEnded = within(endedReviews(event))
  const rest = changed.filter((one) => !isEnded(one) && one.id !== begun?.id)
  if (begun === undefined) return rest
  // A changed draft keeps its comments.
  const kept = begun.kind === 'pending' && before ? { ...begun, comments: before.comments } : begun
  return [...rest, kept].sort((a, b) => a.id - b.id)
}

/** Handlers of all review events, for states with reviews. */
export const reviewChanges = {
  ReviewDrafted: changeOf,
  ReviewCommentDrafted: changeOf,
  ReviewDraftDiscarded: changeOf,
  ReviewSubmitted: changeOf,
  ReviewCommentAdded: changeOf,
  ReviewCommentResolved: changeOf,
  ReviewDeleted: changeOf,
  ReviewDismissed: changeOf,
  ReviewUndismissed: changeOf,
  ReviewsOutdated: changeOf,
  ReviewRequested: changeOf,
  ReviewRequestRemoved: changeOf,
  TeamReviewRequested: changeOf,
  TeamReviewRequestRemoved: changeOf,
}

function changeOf({ reviews }: { reviews: readonly ReviewFacts[] }, event: ReviewEvent) {
  return { reviews: evolveReviews(reviews, event) }
}
