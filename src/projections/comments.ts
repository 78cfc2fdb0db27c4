/** Comments on issues and pull requests, with their files. */
import type { AccountRef, Attachment } from '../events/domain-events.ts'
import { isPullStream } from '../events/streams.ts'
import { type Fold, foldOf } from './read-model.ts'

export interface CommentDocument {
  /** Unique on the server. */
  id: number
  repoId: number
  index: number
  isPull: boolean
  author: AccountRef
  body: string
  attachments: (Attachment & { createdAt: string })[]
  /** The uuids of the files: a download finds the comment by them. */
  attachmentUuids: string[]
  createdAt: string
  updatedAt: string
}

export const commentFold: Fold<CommentDocument> = foldOf({
  name: 'comments',
  indexes: [
    { repoId: 1, index: 1, id: 1 },
    { repoId: 1, id: 1 },
    { repoId: 1, updatedAt: 1, id: 1 },
  ],
  arrays: ['attachmentUuids'],
  version: 1,
  ids: ({ data }) => [`${data.commentId}`],
  becomes: {
    CommentAdded(_, { stream, data, metadata: { at } }) {
      const { commentId: id, repoId, index, author, body } = data
      const isPull = isPullStream(stream)
      const times = { createdAt: at, updatedAt: at }
      return { id, repoId, index, isPull, author, body, attachments: [], attachmentUuids: [], ...times }
    },
    CommentDeleted: () => undefined,
  },
  begins: ['CommentAdded'],
  changes: {
    CommentEdited: (_, { data, metadata }) => ({ body: data.body, updatedAt: metadata.at }),
    AttachmentAdded: ({ attachments }, { data, metadata }) => ({
      attachments: [...attachments, { ...data.attachment, createdAt: metadata.at }],
    }),
    AttachmentRenamed: ({ attachments }, { data: { attachmentId, name } }) => ({
      attachments: attachments.map((file) => (file.id === attachmentId ? { ...file, name } : file)),
    }),
    AttachmentDeleted: ({ attachments }, { data }) => ({
      attachments: attachments.filter(({ id }) => id !== data.attachmentId),
    }),
  },
  derived: ({ attachments }) => ({ attachmentUuids: attachments.map(({ uuid }) => uuid) }),
})
