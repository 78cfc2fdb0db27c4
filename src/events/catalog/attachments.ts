/** Files of comments, issues and pull requests, in the streams of the issues and pull requests. */
import { type Static, Type } from 'typebox'
import { AccountRef, type EventsOf, ofIssue, Text, Whole } from './parts.ts'

/** A file of a comment or of a release. */
export const Attachment = Type.Object({
  /** Unique on the server, among all files. */
  id: Whole,
  /** The name under which the file is stored and downloaded. */
  uuid: Text,
  name: Text,
  /** In bytes. */
  size: Whole,
  uploader: AccountRef,
})
export type Attachment = Static<typeof Attachment>

/** A file of an issue. */
const IssueAsset = Type.Object({
  ...Attachment.properties,
  /** ISO 8601: time of the upload. */
  createdAt: Text,
})
export type IssueAsset = Static<typeof IssueAsset>

export const issueFileEvents = {
  IssueFileAdded: Type.Object({ ...ofIssue, attachment: IssueAsset }),
  IssueFileRenamed: Type.Object({ ...ofIssue, attachmentId: Whole, name: Text }),
  IssueFileDeleted: Type.Object({ ...ofIssue, attachmentId: Whole, uuid: Text }),
}
export type IssueFileEvent = EventsOf<typeof issueFileEvents>

const ofComment = { ...ofIssue, commentId: Whole }

export const attachmentEvents = {
  AttachmentAdded: Type.Object({ ...ofComment, attachment: Attachment }),
  AttachmentRenamed: Type.Object({ ...ofComment, attachmentId: Whole, name: Text }),
  AttachmentDeleted: Type.Object({ ...ofComment, attachmentId: Whole, uuid: Text }),
}
