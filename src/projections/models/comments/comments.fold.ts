/** Comments on issues and pull requests, with their files. */

import type { Attachment } from '../../../events/catalog/attachments.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import { erasedText } from '../../../events/sealing/sealed-texts.ts'
import { isPullStream } from '../../../events/streams.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

/** A file of a comment. */
interface CommentFile extends Attachment {
  createdAt: string
  /** The eraser of name and content, and the time, as text. */
  erased?: string
}

export interface CommentDocument {
  /** Unique on the server. */
  id: number
  repoId: number
  index: number
  isPull: boolean
  author: AccountRef
  body: string
  attachments: CommentFile[]
  /** The uuids of the files, by which downloads find the comment. */
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
  version: 3,
  staysUntilRemoved: true,
  ids: ({ data }) => ('comments' in data ? data.comments.map(String) : [`${data.commentId}`]),
  becomes: {
    CommentAdded(_, { stream, data, metadata: { at } }) {
      const { commentId: id, repoId, index, author, body } = data
      const isPull = isPullStream(stream)
      const times = { createdAt: at, updatedAt: at }
      return { id, repoId, index, isPull, author, body, attachments: [], attachmentUuids: [], ...times }
    },
    CommentDeleted: () => undefined,
    CommentsDeleted: () => undefined,
  },
  begins: ['CommentAdded'],
  creates: ['CommentAdded'],
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
    TextsErased({ attachments }, { data, metadata }) {
      const erased = erasedText(data)
      const files = attachments.map((file) => ({ ...file, name: erased, erased }))
      return { body: erased, attachments: files, updatedAt: metadata.at }
    },
  },
  derived: ({ attachments }) => ({ attachmentUuids: attachments.map(({ uuid }) => uuid) }),
})
