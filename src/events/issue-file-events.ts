/** The events about files of issues and pull requests themselves, and about their lock: in the streams of these. */
import type { AccountRef, IssueRef } from './refs.ts'

/** A file of an issue. It has the fields of a comment's file. */
export interface IssueAsset {
  /** Unique on the server, also among the files of comments and releases. */
  id: number
  /** The name under which the file is stored and downloaded. */
  uuid: string
  name: string
  /** In bytes. */
  size: number
  uploader: AccountRef
  /** ISO 8601: when it was added. */
  createdAt: string
}

export type IssueFileEvent =
  | { type: 'IssueFileAdded'; data: IssueRef & { attachment: IssueAsset } }
  | { type: 'IssueFileRenamed'; data: IssueRef & { attachmentId: number; name: string } }
  | { type: 'IssueFileDeleted'; data: IssueRef & { attachmentId: number; uuid: string } }

export type LockEvent =
  /** From here on only writers comment. `reason`: may be empty. */
  | { type: 'DiscussionLocked'; data: IssueRef & { reason: string } }
  | { type: 'DiscussionUnlocked'; data: IssueRef }
