/** The events about files of issues and pull requests themselves, and about their lock: in the streams of these. */

/** The issue or pull request. */
interface Of {
  repoId: number
  index: number
}

/** A file of an issue. It has the fields of a comment's file. */
export interface IssueAsset {
  /** Unique on the server, also among the files of comments and releases. */
  id: number
  /** The name under which the file is stored and downloaded. */
  uuid: string
  name: string
  /** In bytes. */
  size: number
  uploader: { id: number; login: string }
  /** ISO 8601: when it was added. */
  createdAt: string
}

export type IssueFileEvent =
  | { type: 'IssueFileAdded'; data: Of & { attachment: IssueAsset } }
  | { type: 'IssueFileRenamed'; data: Of & { attachmentId: number; name: string } }
  | { type: 'IssueFileDeleted'; data: Of & { attachmentId: number; uuid: string } }

export type LockEvent =
  /** From here on only writers comment. `reason`: may be empty. */
  { type: 'DiscussionLocked'; data: Of & { reason: string } } | { type: 'DiscussionUnlocked'; data: Of }
