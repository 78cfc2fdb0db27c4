/** What the data of events about files and locks of issues and pull requests looks like. */
import type { IssueAsset, IssueFileEvent, LockEvent } from './issue-file-events.ts'
import { account, issue } from './ref-shapes.ts'
import { type Checks, object, text, whole } from './shapes.ts'

type DataOf<T extends (IssueFileEvent | LockEvent)['type']> = Extract<
  IssueFileEvent | LockEvent,
  { type: T }
>['data']

const attachment = object<IssueAsset>({
  id: whole,
  uuid: text,
  name: text,
  size: whole,
  uploader: account,
  createdAt: text,
})

export const issueFileShapes: { readonly [T in (IssueFileEvent | LockEvent)['type']]: Checks<DataOf<T>> } = {
  IssueFileAdded: { ...issue, attachment },
  IssueFileRenamed: { ...issue, attachmentId: whole, name: text },
  IssueFileDeleted: { ...issue, attachmentId: whole, uuid: text },
  DiscussionLocked: { ...issue, reason: text },
  DiscussionUnlocked: issue,
}
