/** The fields by which lists and searches select issues and pull requests. */
import type { RecordedOf } from '../../../events/handlers.ts'

export interface IssueSelection {
  repoId: number
  index: number
  /** Unique on the server. */
  id: number
  isPull: boolean
  state: 'open' | 'closed'
  posterId: number
  assigneeIds: number[]
  labelIds: number[]
  milestoneId: number | null
  /** Authors of reviews, once per review, and requested reviewers, also teams; both empty for an issue. */
  reviewerIds: number[]
  requestedReviewerIds: number[]
  /** Users mentioned in its texts or comments. */
  mentionedIds: number[]
  updatedAt: string
}

export const issueId = (repoId: number, index: number) => `${repoId}.${index}`

/** The id of the words of a comment. */
export const textId = (repoId: number, index: number, commentId: number) =>
  `${issueId(repoId, index)}.${commentId}`

/** The repository of an issue, from the id of its document. */
export const repoIdIn = (id: string) => Number(id.slice(0, id.indexOf('.')))

export type OpenedEvent = RecordedOf<'IssueOpened' | 'PullRequestOpened'>

/** The fields of an issue or pull request that was just opened. */
export function selectionOf({ type, data, metadata }: OpenedEvent): IssueSelection {
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
    reviewerIds: [],
    requestedReviewerIds: [],
    mentionedIds: [],
    updatedAt: metadata.at,
  }
}
