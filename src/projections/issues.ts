/**
 * Issues and the issues behind pull requests, as lists and searches find them: in one collection, since they
 * share their numbers and most lists show both. What only a pull request has is in `pulls.ts`.
 */
import { type Discussion, evolveDiscussion, isDiscussionEvent } from './discussion.ts'
import {
  evolveSelection,
  type IssueSelection,
  isOpened,
  issueId,
  selectionOf,
  touchedIssues,
} from './issue-selection.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface IssueDocument extends Discussion, IssueSelection {
  /** Of the issues that this one depends on. */
  dependencyKeys: string[]
  /** When the pull request was merged; null for one that was not, and for an issue. */
  mergedAt: string | null
  comments: number
  createdAt: string
  closedAt: string | null
}

export const issues: Collection<IssueDocument> = {
  name: 'issues',
  // Lists are sorted newest first; one for each way in which they are narrowed.
  indexes: [
    [
      ['repoId', 1],
      ['state', 1],
      ['id', -1],
    ],
    [
      ['repoId', 1],
      ['isPull', 1],
      ['state', 1],
      ['id', -1],
    ],
    [
      ['repoId', 1],
      ['isPull', 1],
      ['id', -1],
    ],
    [
      ['repoId', 1],
      ['id', -1],
    ],
    [
      ['state', 1],
      ['id', -1],
    ],
    [
      ['isPull', 1],
      ['state', 1],
      ['id', -1],
    ],
    [
      ['isPull', 1],
      ['id', -1],
    ],
    [['id', -1]],
  ],
  arrays: ['assigneeIds', 'labelIds', 'dependencyKeys'],
}

export const issueFold: Fold<IssueDocument> = {
  collection: issues,
  version: 1,
  touches: touchedIssues,
  evolve(issue, event) {
    const { at } = event.metadata
    if (isOpened(event)) {
      const { title, body, poster, labels, milestone, assignees, deadline } = event.data
      // A literal that begins with a spread and adds fields to it takes V8 thirty times as long.
      return Object.assign(selectionOf(event), {
        title,
        body,
        poster,
        labels,
        milestone,
        assignees,
        deadline,
        closed: false,
        dependencies: [],
        dependencyKeys: [],
        mergedAt: null,
        comments: 0,
        createdAt: at,
        closedAt: null,
      })
    }
    if (issue === undefined) return undefined
    const next = evolveSelection(issue, event)
    if (isDiscussionEvent(event)) {
      const changed = evolveDiscussion(next, event)
      const dependencyKeys = changed.dependencies.map(({ repoId, index }) => issueId(repoId, index))
      if (event.type !== 'StatusChanged') return { ...changed, dependencyKeys }
      return { ...changed, closedAt: event.data.closed ? at : null }
    }
    switch (event.type) {
      case 'PullRequestMerged':
        return { ...next, closed: true, mergedAt: at, closedAt: at }
      case 'CommentAdded':
        return { ...next, comments: next.comments + 1 }
      case 'CommentDeleted':
        return { ...next, comments: next.comments - 1 }
      default:
        return next
    }
  },
}

export const issueModel = readModel(issueFold)
