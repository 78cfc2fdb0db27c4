/** What lists and searches select issues and pull requests by; the fold of it, which two read models share. */
import type { DomainEvent, Recorded } from '../events/domain-events.ts'
import { isDiscussionEvent } from './discussion.ts'

export interface IssueSelection {
  repoId: number
  index: number
  /** Server-wide. */
  id: number
  isPull: boolean
  state: 'open' | 'closed'
  posterId: number
  assigneeIds: number[]
  labelIds: number[]
  milestoneId: number | null
  updatedAt: string
}

export const issueId = (repoId: number, index: number) => `${repoId}.${index}`

type Opened = Extract<Recorded<DomainEvent>, { type: 'IssueOpened' | 'PullRequestOpened' }>

export function isOpened(event: Recorded<DomainEvent>): event is Opened {
  return event.type === 'IssueOpened' || event.type === 'PullRequestOpened'
}

/** The one issue that the event concerns. */
export function touchedIssues(event: Recorded<DomainEvent>): readonly string[] {
  if (isDiscussionEvent(event) || isOpened(event)) return [issueId(event.data.repoId, event.data.index)]
  switch (event.type) {
    case 'PullRequestMerged':
    case 'CommentAdded':
    case 'CommentEdited':
    case 'CommentDeleted':
      return [issueId(event.data.repoId, event.data.index)]
    default:
      return []
  }
}

export function selectionOf({ type, data, metadata }: Opened): IssueSelection {
  const { repoId, index, id, poster, assignees, labels, milestone } = data
  return {
    repoId,
    index,
    id,
    isPull: type === 'PullRequestOpened',
    state: 'open',
    posterId: poster.id,
    assigneeIds: assignees.map((assignee) => assignee.id),
    labelIds: labels.map((label) => label.id),
    milestoneId: milestone?.id ?? null,
    updatedAt: metadata.at,
  }
}

/** The selection after an event that touches the issue; whatever else the document is made of stays. */
export function evolveSelection<S extends IssueSelection>(selection: S, event: Recorded<DomainEvent>): S {
  const next = { ...selection, updatedAt: event.metadata.at }
  switch (event.type) {
    case 'StatusChanged':
      return { ...next, state: event.data.closed ? 'closed' : 'open' }
    case 'PullRequestMerged':
      return { ...next, state: 'closed' }
    case 'LabelsChanged':
      return { ...next, labelIds: event.data.labels.map(({ id }) => id) }
    case 'MilestoneChanged':
      return { ...next, milestoneId: event.data.to?.id ?? null }
    case 'AssigneesChanged':
      return { ...next, assigneeIds: event.data.assignees.map(({ id }) => id) }
    default:
      return next
  }
}
