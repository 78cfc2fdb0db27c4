/** Gitea's timeline rows: the fold of the events of an issue or pull request. Pure. */

import type { ReferenceAction } from '../../domain/markup/references.ts'
import type { LabelRef } from '../../events/catalog/labels.ts'
import type { MilestoneRef } from '../../events/catalog/milestones.ts'
import type { TeamRef } from '../../events/catalog/organizations.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import type { Position } from '../../events/store/event-store.ts'

/** Content of a row; `type` is Gitea's. */
type RowDetail =
  /** The text is only in the comment's document: it may be long, and a page shows few rows. */
  | { type: 'comment' }
  | { type: 'close' | 'reopen' }
  | { type: 'label'; label: LabelRef; added: boolean }
  | { type: 'milestone'; from: MilestoneRef | null; to: MilestoneRef | null }
  | { type: 'assignees'; assignee: AccountRef; removed: boolean }
  | { type: 'change_title'; from: string; to: string }
  /** `dates`: the added or removed date; for a change the new and the old date, separated by `|`. */
  | { type: 'added_deadline' | 'modified_deadline' | 'removed_deadline'; dates: string }
  | { type: 'add_dependency' | 'remove_dependency'; dependency: IssueRef }
  | { type: 'change_target_branch' | 'change_issue_ref'; from: string; to: string }
  | { type: 'delete_branch'; branch: string }
  /** `reason`: may be empty. */
  | { type: 'lock'; reason: string }
  | { type: 'unlock' }
  | { type: 'pull_push'; commit: string; forcedFrom?: string }
  | { type: 'merge_pull'; commit: string }
  | { type: 'pull_scheduled_merge' }
  /** `reason`: why the server canceled the schedule; empty when a user did. */
  | { type: 'pull_cancel_scheduled_merge'; reason: string }
  /** The text is only in the review's document. */
  | { type: 'review'; review: number }
  | { type: 'review_request'; reviewer: AccountRef; removed: boolean }
  | { type: 'review_request'; team: TeamRef; removed: boolean }
  | { type: 'dismiss_review'; review: number; message: string }
  /** Another text names it. `comment`: the id of the comment, review or line comment; null: the title or the body. */
  | {
      type: 'issue_ref' | 'pull_ref' | 'comment_ref'
      namedIn: IssueRef
      comment: number | null
      action: ReferenceAction
    }
  /** `commitIn`: the repository of the commit that names it; `subject`: the first line of its message. */
  | { type: 'commit_ref'; commitIn: number; commit: string; subject: string }

export type TimelineRow = {
  id: number
  /** Null for the server. */
  by: AccountRef | null
  at: string
  /** For a comment: time of the last change of its text. */
  updatedAt: string
} & RowDetail

/**
 * Comments, changes of state and deletions of branches have ids from the sequence of comments, which grows from 1. The
 * id of any other row is computed from the position of its event, in the upper half of the safe integers. So the two
 * kinds never collide, and ids are reproducible. One event has at most 2,048 rows (the labels and assignees in one
 * request), so positions may go up to 2^41.
 */
const FIRST_OWN_ID = 2 ** 52
const ROWS_PER_EVENT = 2 ** 11

/** Returns the id of a row. `row` counts the rows of one event from 0. */
export function rowId(position: Position, row: number): number {
  return FIRST_OWN_ID + position * ROWS_PER_EVENT + row
}

/**
 * Applies the event to the rows of its stream. Rows are kept by their ids, in the order of the log. Changes the given
 * map: a copy for each of thousands of events would be slow.
 */
export function evolveTimeline(rows: Map<number, TimelineRow>, event: Recorded<DomainEvent>): void {
  const { actor, at } = event.metadata
  const add = (id: number, by: AccountRef | null, detail: RowDetail) => {
    rows.set(id, { id, by, at, updatedAt: at, ...detail })
  }
  switch (event.type) {
    case 'CommentAdded':
      add(event.data.commentId, event.data.author, { type: 'comment' })
      return
    case 'CommentEdited': {
      const row = rows.get(event.data.commentId)
      if (row !== undefined) rows.set(row.id, { ...row, updatedAt: at })
      return
    }
    case 'CommentDeleted':
      rows.delete(event.data.commentId)
      return
    case 'StatusChanged':
      add(event.data.comment.id, actor, { type: event.data.comment.kind })
      return
    case 'ReviewSubmitted': {
      const { reviewId, reviewer } = event.data
      add(reviewId, reviewer, { type: 'review', review: reviewId })
      return
    }
    case 'ReviewDeleted':
      for (const [id, row] of rows) if ('review' in row && row.review === event.data.reviewId) rows.delete(id)
      return
    case 'HeadBranchDeleted':
      add(event.data.commentId, actor, { type: 'delete_branch', branch: event.data.branch.branch })
      return
    case 'PullRequestMerged':
      add(rowId(event.position, 0), event.data.mergedBy, { type: 'merge_pull', commit: event.data.commit })
      return
    case 'MergeScheduled':
      add(rowId(event.position, 0), event.data.by, { type: 'pull_scheduled_merge' })
      return
    case 'MergeScheduleCanceled':
      add(rowId(event.position, 0), event.data.by, { type: 'pull_cancel_scheduled_merge', reason: '' })
      return
    default:
      for (const [i, detail] of detailsOf(event).entries()) add(rowId(event.position, i), actor, detail)
  }
}

const labelRows = (labels: readonly LabelRef[], added: boolean) =>
  labels.map((label) => ({ type: 'label', label, added }) as const)
const assigneeRows = (assignees: readonly AccountRef[], removed: boolean) =>
  assignees.map((assignee) => ({ type: 'assignees', assignee, removed }) as const)

/** Returns an element for each row of an event. */
function detailsOf(event: DomainEvent): RowDetail[] {
  switch (event.type) {
    case 'IssueOpened':
    case 'PullRequestOpened': {
      const { milestone, labels, assignees } = event.data
      return [
        ...(milestone === null ? [] : [{ type: 'milestone', from: null, to: milestone } as const]),
        ...labelRows(labels, true),
        ...assigneeRows(assignees, false),
        ...(event.type === 'PullRequestOpened'
          ? [{ type: 'pull_push', commit: event.data.head.sha } as const]
          : []),
      ]
    }
    case 'LabelsChanged':
      return [...labelRows(event.data.added, true), ...labelRows(event.data.removed, false)]
    case 'AssigneesChanged':
      return [...assigneeRows(event.data.removed, true), ...assigneeRows(event.data.added, false)]
    case 'MilestoneChanged':
      return [{ type: 'milestone', from: event.data.from, to: event.data.to }]
    case 'TitleChanged':
      return [{ type: 'change_title', from: event.data.oldTitle, to: event.data.title }]
    case 'DeadlineChanged':
      return deadlineDetails(event.data)
    case 'DiscussionLocked':
      return [{ type: 'lock', reason: event.data.reason }]
    case 'DiscussionUnlocked':
      return [{ type: 'unlock' }]
    case 'DependencyAdded':
      return [{ type: 'add_dependency', dependency: event.data.dependency }]
    case 'DependencyRemoved':
      return [{ type: 'remove_dependency', dependency: event.data.dependency }]
    case 'IssueRefChanged':
      return [{ type: 'change_issue_ref', from: event.data.from, to: event.data.to }]
    case 'TargetBranchChanged':
      return [{ type: 'change_target_branch', from: event.data.from.branch, to: event.data.base.branch }]
    case 'PullRequestHeadMoved':
      return [
        {
          type: 'pull_push',
          commit: event.data.to,
          ...(event.data.forced && { forcedFrom: event.data.from }),
        },
      ]
    case 'ReviewRequested':
      return [{ type: 'review_request', reviewer: event.data.reviewer, removed: false }]
    case 'ReviewRequestRemoved':
      return [{ type: 'review_request', reviewer: event.data.reviewer, removed: true }]
    case 'TeamReviewRequested':
      return [{ type: 'review_request', team: event.data.team, removed: false }]
    case 'TeamReviewRequestRemoved':
      return [{ type: 'review_request', team: event.data.team, removed: true }]
    case 'ReviewDismissed':
      return event.data.dismissed.map((review) => {
        const message = review === event.data.reviewId ? event.data.message : ''
        return { type: 'dismiss_review', review, message }
      })
    case 'ReviewsOutdated':
      return event.data.dismissed.map((review) => ({ type: 'dismiss_review', review, message: '' }))
    case 'ScheduledMergeRefused':
      return [{ type: 'pull_cancel_scheduled_merge', reason: event.data.reason }]
    default:
      return []
  }
}

function deadlineDetails({ from, to }: { from: string | null; to: string | null }): RowDetail[] {
  // Only the date of a deadline matters, in the time zone in which it was given.
  const [before, after] = [from?.slice(0, 10), to?.slice(0, 10)]
  if (before !== undefined && after !== undefined) {
    return [{ type: 'modified_deadline', dates: `${after}|${before}` }]
  }
  if (after !== undefined) return [{ type: 'added_deadline', dates: after }]
  return before === undefined ? [] : [{ type: 'removed_deadline', dates: before }]
}
