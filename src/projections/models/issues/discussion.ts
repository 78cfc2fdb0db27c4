/**
 * The common part of issues and pull requests, folded from the events that both have. Deciders and read models share
 * it, so that they cannot disagree.
 */

import type { IssueAsset } from '../../../events/catalog/attachments.ts'
import type { DiscussionEvent, Opened } from '../../../events/catalog/issues.ts'
import type { IssueRef } from '../../../events/catalog/parts.ts'
import type { ScheduledMerge } from '../../../events/catalog/pull-requests.ts'
import { type Handlers, handle } from '../../../events/handlers.ts'
import { type Erased, erasedText } from '../../../events/sealing/sealed-texts.ts'

export interface Discussion extends Opened {
  closed: boolean
  /** Its branch or tag; absent before the first one. */
  ref?: string
  /** The issues and pull requests that must be closed before this one can be closed. */
  dependencies: readonly IssueRef[]
  /** Its own files; absent before the first one. */
  assets?: readonly IssueFile[]
  /** Absent before the first lock. */
  locked?: boolean
}

/** A file of the issue or pull request itself. */
export interface IssueFile extends IssueAsset {
  /** The eraser of name and content, and the time, as text. */
  erased?: string
}

export const sameIssue = (a: IssueRef, b: IssueRef) => a.repoId === b.repoId && a.index === b.index

/** The state as a word for filters of lists. */
export const stateOf = (closed: boolean): 'open' | 'closed' => (closed ? 'closed' : 'open')

/** Version of the shared fields in documents: raise it for each change of them. */
export const DISCUSSION_VERSION = 1

/** Returns the shared fields of a new issue or pull request. */
export const openedDiscussion = ({
  repoId,
  index,
  id,
  poster,
  title,
  body,
  labels,
  milestone,
  assignees,
  deadline,
}: Opened) => ({
  repoId,
  index,
  id,
  poster,
  title,
  body,
  labels,
  milestone,
  assignees,
  deadline,
  closed: false,
  dependencies: [],
})

/** The fields that each event changes. */
export const discussionChanges: Handlers<DiscussionEvent['type'], Discussion, Partial<Discussion>> = {
  TitleChanged: (_, { data }) => ({ title: data.title }),
  BodyChanged: (_, { data }) => ({ body: data.body }),
  StatusChanged: (_, { data }) => ({ closed: data.closed }),
  LabelsChanged: (_, { data }) => ({ labels: data.labels }),
  MilestoneChanged: (_, { data }) => ({ milestone: data.to }),
  AssigneesChanged: (_, { data }) => ({ assignees: data.assignees }),
  DeadlineChanged: (_, { data }) => ({ deadline: data.to }),
  IssueRefChanged: (_, { data }) => ({ ref: data.to }),
  DependencyAdded: ({ dependencies }, { data }) => ({ dependencies: [...dependencies, data.dependency] }),
  DependencyRemoved: ({ dependencies }, { data }) => ({
    dependencies: dependencies.filter((other) => !sameIssue(other, data.dependency)),
  }),
  TextsErased: (discussion, { data }) => (data.commentId === null ? erasedTexts(discussion, data) : {}),
  ErasureFinished: () => ({}),
  IssueFileAdded: ({ assets = [] }, { data }) => ({ assets: [...assets, data.attachment] }),
  IssueFileRenamed: ({ assets = [] }, { data: { attachmentId, name } }) => ({
    assets: assets.map((file) => (file.id === attachmentId ? { ...file, name } : file)),
  }),
  IssueFileDeleted: ({ assets = [] }, { data }) => ({
    assets: assets.filter(({ id }) => id !== data.attachmentId),
  }),
  DiscussionLocked: () => ({ locked: true }),
  DiscussionUnlocked: () => ({ locked: false }),
}

/** Returns its own texts after the erasure. */
function erasedTexts({ assets }: Discussion, by: Erased): Partial<Discussion> {
  const erased = erasedText(by)
  const texts = { title: erased, body: erased }
  return assets === undefined
    ? texts
    : { ...texts, assets: assets.map((file) => ({ ...file, name: erased, erased })) }
}

/** Applies the event to the common fields. Other fields stay the same. */
export function evolveDiscussion<D extends Discussion>(discussion: D, event: DiscussionEvent): D {
  return { ...discussion, ...handle(discussionChanges, discussion, event) }
}

/** Erases the texts of a pull request. A scheduled merge gets the default message, which has the new title. */
export const erasedPullTexts: Handlers<
  'TextsErased',
  Discussion & { schedule: ScheduledMerge | null },
  Partial<Discussion> & { schedule?: ScheduledMerge | null }
> = {
  TextsErased(discussion, { data }) {
    if (data.commentId !== null) return {}
    const { schedule } = discussion
    const texts = erasedTexts(discussion, data)
    return schedule === null ? texts : { ...texts, schedule: { ...schedule, title: '', message: '' } }
  },
}
