/** Reactions to issues, pull requests and comments: one document for each. */
import { isPullStream } from '../../../events/streams.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface ReactionDocument {
  repoId: number
  index: number
  /** `NO_COMMENT` for a reaction to the issue itself. */
  commentId: number
  userId: number
  userLogin: string
  reaction: string
  isPull: boolean
  createdAt: string
}

/** Stands in `commentId` for the issue itself. */
export const NO_COMMENT = 0

type Given = Pick<ReactionDocument, 'repoId' | 'index' | 'userId' | 'reaction'> & { commentId: number | null }

export const reactionId = ({ repoId, index, commentId, userId, reaction }: Given) =>
  `${repoId}.${index}.${commentId ?? NO_COMMENT}.${userId}.${reaction}`

export const reactionFold: Fold<ReactionDocument> = foldOf({
  name: 'reactions',
  indexes: [{ repoId: 1, index: 1, commentId: 1, createdAt: 1 }, { userId: 1 }],
  version: 1,
  staysUntilRemoved: true,
  ids: ({ data }) => [reactionId({ ...data, userId: data.user.id })],
  becomes: {
    ReactionAdded(_, { stream, data: { repoId, index, commentId, user, reaction }, metadata }) {
      return {
        repoId,
        index,
        commentId: commentId ?? NO_COMMENT,
        userId: user.id,
        userLogin: user.login,
        reaction,
        isPull: isPullStream(stream),
        createdAt: metadata.at,
      }
    },
    ReactionRemoved: () => undefined,
  },
  begins: ['ReactionAdded'],
})
