/** What an issue's or pull request's timeline shows of its events: rows, as Gitea has them. Pure. */
import type {
  AccountRef,
  DomainEvent,
  IssueRef,
  LabelRef,
  MilestoneRef,
  Recorded,
} from '../events/domain-events.ts'
import type { Position } from '../events/event-store.ts'

/** What happened, under Gitea's name for it. */
export type RowDetail =
  /** Its text is in the comment's document: it may be long, and most rows are not on the page asked for. */
  | { type: 'comment' }
  | { type: 'close' | 'reopen' }
  | { type: 'label'; label: LabelRef; added: boolean }
  | { type: 'milestone'; from: MilestoneRef | null; to: MilestoneRef | null }
  | { type: 'assignees'; assignee: AccountRef; removed: boolean }
  | { type: 'change_title'; from: string; to: string }
  /** `dates`: the new one, or what was removed; of a change the new and the old one, with a bar between. */
  | { type: 'added_deadline' | 'modified_deadline' | 'removed_deadline'; dates: string }
  | { type: 'add_dependency' | 'remove_dependency'; dependency: IssueRef }
  | { type: 'change_target_branch'; from: string; to: string }
  | { type: 'delete_branch'; branch: string }
  | { type: 'pull_push'; commit: string }
  | { type: 'merge_pull'; commit: string }
  | { type: 'pull_scheduled_merge' }
  /** `reason`: why the server gave up the schedule; empty when somebody did. */
  | { type: 'pull_cancel_scheduled_merge'; reason: string }

export type TimelineRow = {
  id: number
  /** Null: the server itself. */
  by: AccountRef | null
  at: string
  /** Of a comment, when its text was changed last. */
  updatedAt: string
} & RowDetail

/**
 * Comments, changes of state and deletions of branches have ids of the comments' sequence, which grows from 1.
 * All other rows have theirs from where the event stands in the log, in the upper half of the safe integers: so
 * the two can't meet, and an id stays what it is however often the rows are made. An event is up to two
 * thousand rows (labels and assignees that one request can name), which leaves room for positions to 2^41.
 */
const FIRST_OWN_ID = 2 ** 52
const ROWS_PER_EVENT = 2 ** 11

export function rowId(position: Position, row: number): number {
  return FIRST_OWN_ID + position * ROWS_PER_EVENT + row
}

/**
 * Takes the event into the rows of its stream, by their ids, in the order of the log. Changes the given map: a
 * copy for each of ten thousand events would take its time.
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
    case 'HeadBranchDeleted':
      add(event.data.commentId, actor, { type: 'delete_branch', branch: event.data.branch.branch })
      return
    case 'PullRequestMerged':
      add(rowId(event.position, 0), event.data.mergedBy, {
        type: 'merge_pull',
        commit: event.data.commit,
      })
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

/** What the actor of an event did, one thing a row. */
function detailsOf(event: DomainEvent): RowDetail[] {
  switch (event.type) {
    case 'IssueOpened':
    case 'PullRequestOpened': {
      const { milestone, labels, assignees } = event.data
      return [
        ...(milestone === null ? [] : [{ type: 'milestone', from: null, to: milestone } as const]),
        ...labels.map((label) => ({ type: 'label', label, added: true }) as const),
        ...assignees.map((assignee) => ({ type: 'assignees', assignee, removed: false }) as const),
        ...(event.type === 'PullRequestOpened'
          ? [{ type: 'pull_push', commit: event.data.head.sha } as const]
          : []),
      ]
    }
    case 'LabelsChanged':
      return [
        ...event.data.added.map((label) => ({ type: 'label', label, added: true }) as const),
        ...event.data.removed.map((label) => ({ type: 'label', label, added: false }) as const),
      ]
    case 'AssigneesChanged':
      return [
        ...event.data.removed.map((assignee) => ({ type: 'assignees', assignee, removed: true }) as const),
        ...event.data.added.map((assignee) => ({ type: 'assignees', assignee, removed: false }) as const),
      ]
    case 'MilestoneChanged':
      return [{ type: 'milestone', from: event.data.from, to: event.data.to }]
    case 'TitleChanged':
      return [{ type: 'change_title', from: event.data.oldTitle, to: event.data.title }]
    case 'DeadlineChanged':
      return deadlineDetails(event.data)
    case 'DependencyAdded':
      return [{ type: 'add_dependency', dependency: event.data.dependency }]
    case 'DependencyRemoved':
      return [{ type: 'remove_dependency', dependency: event.data.dependency }]
    case 'TargetBranchChanged':
      return [{ type: 'change_target_branch', from: event.data.from.branch, to: event.data.base.branch }]
    case 'PullRequestHeadMoved':
      return [{ type: 'pull_push', commit: event.data.to }]
    case 'ScheduledMergeRefused':
      return [{ type: 'pull_cancel_scheduled_merge', reason: event.data.reason }]
    default:
      return []
  }
}

function deadlineDetails({ from, to }: { from: string | null; to: string | null }): RowDetail[] {
  // Only the date of a deadline counts, in the zone in which it was given.
  const [before, after] = [from?.slice(0, 10), to?.slice(0, 10)]
  if (before !== undefined && after !== undefined) {
    return [{ type: 'modified_deadline', dates: `${after}|${before}` }]
  }
  if (after !== undefined) return [{ type: 'added_deadline', dates: after }]
  return before === undefined ? [] : [{ type: 'removed_deadline', dates: before }]
}
