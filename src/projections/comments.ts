/** Comments of issues and pull requests, with their files. */
import type { AccountRef, Attachment } from '../events/domain-events.ts'
import { isPullStream } from '../events/streams.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface CommentDocument {
  /** Server-wide. */
  id: number
  repoId: number
  index: number
  isPull: boolean
  author: AccountRef
  body: string
  attachments: (Attachment & { createdAt: string })[]
  /** Of the files: what a download finds the comment by. */
  attachmentUuids: string[]
  createdAt: string
  updatedAt: string
}

export const comments: Collection<CommentDocument> = {
  name: 'comments',
  indexes: [
    [
      ['repoId', 1],
      ['index', 1],
      ['id', 1],
    ],
    [
      ['repoId', 1],
      ['id', 1],
    ],
    [
      ['repoId', 1],
      ['updatedAt', 1],
      ['id', 1],
    ],
  ],
  arrays: ['attachmentUuids'],
}

export const commentFold: Fold<CommentDocument> = {
  collection: comments,
  version: 1,
  touches(event) {
    switch (event.type) {
      case 'CommentAdded':
      case 'CommentEdited':
      case 'CommentDeleted':
      case 'AttachmentAdded':
      case 'AttachmentRenamed':
      case 'AttachmentDeleted':
        return [`${event.data.commentId}`]
      default:
        return []
    }
  },
  evolve(comment, event) {
    const { at } = event.metadata
    if (event.type === 'CommentAdded') {
      const { commentId: id, repoId, index, author, body } = event.data
      const isPull = isPullStream(event.stream)
      const times = { createdAt: at, updatedAt: at }
      return { id, repoId, index, isPull, author, body, attachments: [], attachmentUuids: [], ...times }
    }
    if (comment === undefined) return undefined
    const { attachments } = comment
    switch (event.type) {
      case 'CommentEdited':
        return { ...comment, body: event.data.body, updatedAt: at }
      case 'CommentDeleted':
        return undefined
      case 'AttachmentAdded':
        return withFiles(comment, [...attachments, { ...event.data.attachment, createdAt: at }])
      case 'AttachmentRenamed': {
        const { attachmentId, name } = event.data
        return withFiles(
          comment,
          attachments.map((file) => (file.id === attachmentId ? { ...file, name } : file)),
        )
      }
      case 'AttachmentDeleted':
        return withFiles(
          comment,
          attachments.filter(({ id }) => id !== event.data.attachmentId),
        )
      default:
        return comment
    }
  },
}

function withFiles(comment: CommentDocument, attachments: CommentDocument['attachments']): CommentDocument {
  return { ...comment, attachments, attachmentUuids: attachments.map(({ uuid }) => uuid) }
}

export const commentModel = readModel(commentFold)
