/** The reviews of pull requests, drafts of them, and requests for them. */
import { erasedText } from '../../../events/sealing/sealed-texts.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { begunReview, changedReviews, endedReviews, type ReviewFacts, withComment } from './review-facts.ts'

export interface ReviewDocument extends ReviewFacts {
  repoId: number
  index: number
  /** The reviewer's id for a draft, which only the reviewer sees; otherwise `FOR_ALL`. */
  onlyFor: number
  body: string
  createdAt: string
  updatedAt: string
}

/** `onlyFor` of a review that all readers of the pull request see. */
export const FOR_ALL = 0

type Begun = Parameters<typeof begunReview>[0]

/** Returns the document after an event that begins, ends or changes it. */
function next(
  before: ReviewDocument | undefined,
  event: Begun & { metadata: { at: string } },
  id: string,
): ReviewDocument | undefined {
  const { at } = event.metadata
  const reviewId = Number(id)
  const begun = begunReview(event)
  if (begun?.id === reviewId) {
    const { repoId, index } = event.data
    const isDraft = begun.kind === 'pending'
    const body = 'body' in event.data ? event.data.body : ''
    const createdAt = isDraft ? (before?.createdAt ?? at) : at
    const comments = isDraft ? (before?.comments ?? []) : begun.comments
    const onlyFor = isDraft ? begun.reviewer.id : FOR_ALL
    return { ...begun, comments, repoId, index, onlyFor, body, createdAt, updatedAt: at }
  }
  if (before === undefined || endedReviews(event).includes(reviewId)) return undefined
  if (event.type === 'ReviewCommentDrafted' || event.type === 'ReviewCommentAdded') {
    return { ...before, comments: withComment(before, event.data.commentId), updatedAt: at }
  }
  let changed = before
  for (const [ids, fields] of changedReviews(event)) {
    if (ids.includes(reviewId)) changed = { ...changed, ...fields, updatedAt: at }
  }
  return changed
}

export const reviewFold: Fold<ReviewDocument> = foldOf({
  name: 'reviews',
  indexes: [{ repoId: 1, index: 1, id: 1 }],
  version: 4,
  staysUntilRemoved: true,
  ids(event) {
    switch (event.type) {
      case 'TextsErased':
        return event.data.comments.map(String)
      case 'ReviewCommentDrafted':
      case 'ReviewCommentAdded':
        return [`${event.data.reviewId}`]
      default: {
        const touched = [
          begunReview(event)?.id ?? [],
          ...endedReviews(event),
          ...changedReviews(event).flatMap(([ids]) => ids),
        ]
        return [...new Set(touched.flat().map(String))]
      }
    }
  },
  becomes: {
    ReviewDrafted: next,
    ReviewCommentDrafted: next,
    ReviewCommentAdded: next,
    ReviewDraftDiscarded: next,
    ReviewSubmitted: next,
    ReviewDeleted: next,
    ReviewDismissed: next,
    ReviewUndismissed: next,
    ReviewsOutdated: next,
    ReviewRequested: next,
    ReviewRequestRemoved: next,
    TeamReviewRequested: next,
    TeamReviewRequestRemoved: next,
  },
  changes: {
    TextsErased: (_, { data, metadata }) => ({ body: erasedText(data), updatedAt: metadata.at }),
  },
})
