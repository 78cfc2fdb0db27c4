/** The comment aggregate: one comment with its files, in the stream of its issue or pull request. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { Attachment } from '../../events/catalog/attachments.ts'
import type { CommentEvent, CommentsEvent } from '../../events/catalog/comments.ts'
import type { DiscussionEvent } from '../../events/catalog/issues.ts'
import type { EventOf } from '../../events/handlers.ts'
import { erasedText } from '../../events/sealing/sealed-texts.ts'
import type { Snapshot } from '../../services/writes/snapshots.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'

export type CommentState =
  | { status: 'none' }
  | ({ status: 'there'; attachments: readonly Attachment[] } & EventOf<'CommentAdded'>['data'])

/** Events that change a comment: its own, an erasure of its texts, and the deletion of its issue. */
type CommentChange = CommentEvent | CommentsEvent | Extract<DiscussionEvent, { type: 'TextsErased' }>

/** Maximum number of files in a comment. */
const MAX_ATTACHMENTS = 100

const decider: Decider<CommentState, CommentChange> = deciderOf({
  initialState: { status: 'none' },
  becomes: {
    CommentAdded: (_, { data }) => ({ ...data, status: 'there', attachments: [] }),
    CommentDeleted: () => ({ status: 'none' }),
    CommentsDeleted: () => ({ status: 'none' }),
  },
  exists: (state: CommentState) => state.status === 'there',
  changes: {
    CommentEdited: (_, { data }) => ({ body: data.body }),
    AttachmentAdded: ({ attachments }, { data }) => ({ attachments: [...attachments, data.attachment] }),
    AttachmentRenamed: ({ attachments }, { data: { attachmentId, name } }) => ({
      attachments: attachments.map((file) => (file.id === attachmentId ? { ...file, name } : file)),
    }),
    AttachmentDeleted: ({ attachments }, { data }) => ({
      attachments: attachments.filter(({ id }) => id !== data.attachmentId),
    }),
    TextsErased: ({ attachments }, { data }) => ({
      body: erasedText(data),
      attachments: attachments.map((file) => ({ ...file, name: erasedText(data) })),
    }),
  },
})

/** Whether an event concerns the comment. An erasure without a comment id concerns all. */
const concerns = ({ type, data }: CommentChange, commentId: number) =>
  type === 'CommentsDeleted'
    ? data.comments.includes(commentId)
    : data.commentId === commentId || data.commentId === null

/**
 * Creates the decider of one comment; it ignores events of other comments. `known`: the state at a revision, so that a
 * load reads only later events.
 */
export function commentDecider(
  commentId: number,
  known?: Snapshot<CommentState>,
): Decider<CommentState, CommentChange> {
  const { initialState, handles, evolve } = decider
  return {
    initialState,
    handles,
    evolve: (state, event) => (concerns(event, commentId) ? evolve(state, event) : state),
    ...(known !== undefined && { snapshots: () => ({ get: () => known, set: () => {} }) }),
  }
}

const gone = refuse.notFound('comment not found')
const noSuchFile = refuse.notFound('attachment not found')

/** Changes the text; no event for the same text. */
export function decideEditComment(state: CommentState, body: string): Decision<CommentEvent> {
  if (state.status === 'none') return gone
  if (state.body === body) return []
  const { repoId, index, commentId } = state
  return [{ type: 'CommentEdited', data: { repoId, index, commentId, body } }]
}

/** Deletes the comment and its files. */
export function decideDeleteComment(state: CommentState): Decision<CommentEvent> {
  if (state.status === 'none') return gone
  const { repoId, index, commentId, attachments } = state
  return [
    ...attachments.map(
      ({ id: attachmentId, uuid }): CommentEvent => ({
        type: 'AttachmentDeleted',
        data: { repoId, index, commentId, attachmentId, uuid },
      }),
    ),
    { type: 'CommentDeleted', data: { repoId, index, commentId } },
  ]
}

/** `attachments.4`: after an upload the comment is updated with its unchanged content. */
export function decideAddAttachment(state: CommentState, attachment: Attachment): Decision<CommentEvent> {
  if (state.status === 'none') return gone
  const { repoId, index, commentId, body, attachments } = state
  if (attachments.length >= MAX_ATTACHMENTS) {
    return refuse.unprocessable(`a comment can have at most ${MAX_ATTACHMENTS} attachments`)
  }
  return [
    { type: 'AttachmentAdded', data: { repoId, index, commentId, attachment } },
    { type: 'CommentEdited', data: { repoId, index, commentId, body } },
  ]
}

/** `attachments.5`. */
export function decideRenameAttachment(
  state: CommentState,
  attachmentId: number,
  name: string,
): Decision<CommentEvent> {
  if (state.status === 'none') return gone
  const file = state.attachments.find(({ id }) => id === attachmentId)
  if (file === undefined) return noSuchFile
  if (name === '' || name === file.name) return []
  const { repoId, index, commentId } = state
  return [{ type: 'AttachmentRenamed', data: { repoId, index, commentId, attachmentId, name } }]
}

/** `attachments.6`. */
export function decideDeleteAttachment(state: CommentState, attachmentId: number): Decision<CommentEvent> {
  if (state.status === 'none') return gone
  const file = state.attachments.find(({ id }) => id === attachmentId)
  if (file === undefined) return noSuchFile
  const { repoId, index, commentId } = state
  return [{ type: 'AttachmentDeleted', data: { repoId, index, commentId, attachmentId, uuid: file.uuid } }]
}
