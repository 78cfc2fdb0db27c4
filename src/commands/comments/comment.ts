/** One comment with its files, in the stream of its issue or pull request. Pure. */
import type { AccountRef, Attachment, CommentEvent, IssueRef } from '../../events/domain-events.ts'
import { refuse } from '../../refusal.ts'
import type { Decider, Decision } from '../execute.ts'

export type CommentState =
  | { status: 'none' }
  | ({
      status: 'there'
      commentId: number
      author: AccountRef
      body: string
      attachments: readonly Attachment[]
    } & IssueRef)

/** Most files that a comment can have. */
const MAX_ATTACHMENTS = 100

/**
 * The decider of one comment. A stream holds many, and what is decided concerns one of them: the others'
 * events pass by.
 */
export function commentDecider(commentId: number): Decider<CommentState, CommentEvent> {
  return {
    initialState: { status: 'none' },
    handles: {
      CommentAdded: true,
      CommentEdited: true,
      CommentDeleted: true,
      AttachmentAdded: true,
      AttachmentRenamed: true,
      AttachmentDeleted: true,
    },
    evolve: (state, event) => (event.data.commentId === commentId ? evolve(state, event) : state),
  }
}

function evolve(state: CommentState, event: CommentEvent): CommentState {
  if (event.type === 'CommentAdded') return { ...event.data, status: 'there', attachments: [] }
  if (state.status === 'none') return state
  const { attachments } = state
  switch (event.type) {
    case 'CommentEdited':
      return { ...state, body: event.data.body }
    case 'CommentDeleted':
      return { status: 'none' }
    case 'AttachmentAdded':
      return { ...state, attachments: [...attachments, event.data.attachment] }
    case 'AttachmentRenamed': {
      const { attachmentId, name } = event.data
      return {
        ...state,
        attachments: attachments.map((file) => (file.id === attachmentId ? { ...file, name } : file)),
      }
    }
    case 'AttachmentDeleted':
      return { ...state, attachments: attachments.filter(({ id }) => id !== event.data.attachmentId) }
  }
}

const gone = refuse.notFound('comment not found')
const noSuchFile = refuse.notFound('attachment not found')

/** The same text again is no event. */
export function decideEditComment(state: CommentState, body: string): Decision<CommentEvent> {
  if (state.status === 'none') return gone
  if (state.body === body) return []
  const { repoId, index, commentId } = state
  return [{ type: 'CommentEdited', data: { repoId, index, commentId, body } }]
}

/** Its files go with it. */
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

/** Attachment rule 4: after an upload the comment is updated with its unchanged content. */
export function decideAddAttachment(state: CommentState, attachment: Attachment): Decision<CommentEvent> {
  if (state.status === 'none') return gone
  const { repoId, index, commentId, body, attachments } = state
  if (attachments.length >= MAX_ATTACHMENTS) {
    return refuse.unprocessable(`a comment has ${MAX_ATTACHMENTS} attachments at most`)
  }
  return [
    { type: 'AttachmentAdded', data: { repoId, index, commentId, attachment } },
    { type: 'CommentEdited', data: { repoId, index, commentId, body } },
  ]
}

/** Attachment rule 5. */
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

/** Attachment rule 6. */
export function decideDeleteAttachment(state: CommentState, attachmentId: number): Decision<CommentEvent> {
  if (state.status === 'none') return gone
  const file = state.attachments.find(({ id }) => id === attachmentId)
  if (file === undefined) return noSuchFile
  const { repoId, index, commentId } = state
  return [{ type: 'AttachmentDeleted', data: { repoId, index, commentId, attachmentId, uuid: file.uuid } }]
}
