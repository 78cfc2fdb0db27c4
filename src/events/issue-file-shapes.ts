/** What the data of events about files and locks of issues and pull requests looks like. */
import type { IssueAsset, IssueFileEvent, LockEvent } from './issue-file-events.ts'
import { type Checks, object, text, whole } from './shapes.ts'

type DataOf<T extends (IssueFileEvent | LockEvent)['type']> = Extract<
  IssueFileEvent | LockEvent,
  { type: T }
>['data']

const account = object<IssueAsset['uploader']>({ id: whole, login: text })
const attachment = object<IssueAsset>({
  id: whole,
  uuid: text,
  name: text,
  size: whole,
  uploader: account,
  createdAt: text,
})
const issue = { repoId: whole, index: whole }

export const issueFileShapes: { readonly [T in (IssueFileEvent | LockEvent)['type']]: Checks<DataOf<T>> } = {
  IssueFileAdded: { ...issue, attachment },
  IssueFileRenamed: { ...issue, attachmentId: whole, name: text },
  IssueFileDeleted: { ...issue, attachmentId: whole, uuid: text },
  DiscussionLocked: { ...issue, reason: text },
  DiscussionUnlocked: issue,
}
