/** Comments, in the streams of issues and pull requests. */
import { Type } from 'typebox'
import { attachmentEvents } from './attachments.ts'
import { AccountRef, type EventsOf, ofIssue, Text, Whole } from './parts.ts'

const ofComment = { ...ofIssue, commentId: Whole }

export const commentEvents = {
  CommentAdded: Type.Object({ ...ofComment, author: AccountRef, body: Text }),
  /** Also recorded when a file is added to the comment: then the body is unchanged. */
  CommentEdited: Type.Object({ ...ofComment, body: Text }),
  CommentDeleted: Type.Object(ofComment),
  ...attachmentEvents,
}
export type CommentEvent = EventsOf<typeof commentEvents>

/** Before `IssueDeleted`, in the same append: the comments deleted with their issue, and the uuids of their files. */
export const commentsEvents = {
  CommentsDeleted: Type.Object({ ...ofIssue, comments: Type.Array(Whole), files: Type.Array(Text) }),
}
export type CommentsEvent = EventsOf<typeof commentsEvents>
