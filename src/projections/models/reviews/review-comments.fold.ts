/** The comments on lines of reviews. */
import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { LineComment } from '../../../events/catalog/reviews.ts'
import type { RecordedOf } from '../../../events/handlers.ts'
import { erasedText } from '../../../events/sealing/sealed-texts.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface ReviewCommentDocument extends LineComment {
  /** Unique on the server, among all comments. */
  id: number
  reviewId: number
  repoId: number
  index: number
  author: AccountRef
  /** The id of the comment that it answers. */
  replyTo?: number
  /** The user that resolved the conversation. */
  resolver: AccountRef | null
  createdAt: string
  updatedAt: string
}

function added(
  before: ReviewCommentDocument | undefined,
  { data, metadata }: RecordedOf<'ReviewCommentAdded' | 'ReviewCommentDrafted'>,
): ReviewCommentDocument {
  const { commentId: id, ...comment } = data
  return {
    id,
    ...comment,
    resolver: null,
    createdAt: before?.createdAt ?? metadata.at,
    updatedAt: metadata.at,
  }
}

export const reviewCommentFold: Fold<ReviewCommentDocument> = foldOf({
  name: 'review_comments',
  indexes: [{ reviewId: 1, id: 1 }, { repoId: 1 }],
  version: 3,
  staysUntilRemoved: true,
  ids: ({ data }) => ('comments' in data ? data.comments.map(String) : [`${data.commentId}`]),
  becomes: {
    ReviewCommentDrafted: added,
    ReviewCommentAdded: added,
    ReviewDraftDiscarded: () => undefined,
    ReviewDeleted: () => undefined,
  },
  changes: {
    ReviewCommentResolved: (_, { data: { resolver } }) => ({ resolver }),
    TextsErased: (_, { data, metadata }) => ({ body: erasedText(data), updatedAt: metadata.at }),
  },
})
