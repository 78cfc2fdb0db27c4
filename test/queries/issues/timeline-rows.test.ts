import t from 'tap'
import type { DomainEvent, Recorded } from '../../../src/events/domain-events.ts'
import { evolveTimeline, rowId, type TimelineRow } from '../../../src/queries/issues/timeline-rows.ts'

const alice = { id: 1, login: 'alice' }
const bob = { id: 2, login: 'bob' }
const place = { repoId: 5, index: 3 }
const bug = { id: 8, name: 'bug' }
const idea = { id: 9, name: 'idea' }
const v1 = { id: 4, title: 'v1' }
const sha = (digit: string) => digit.repeat(40)
const at = (i: number) => new Date(Date.UTC(2026, 0, 2, 3, 4, i)).toISOString()

/** The rows of events at the positions 10, 20, …, one second apart. */
function rowsOf(...events: DomainEvent[]): TimelineRow[] {
  const rows = new Map<number, TimelineRow>()
  events.forEach((event, i) => {
    const metadata = { actor: alice, at: at(i), correlationId: 'c', causationId: 'c', schema: 1 }
    const recorded: Recorded<DomainEvent> = {
      ...event,
      id: `${i}`,
      stream: 's',
      revision: i,
      position: 10 * (i + 1),
      metadata,
    }
    evolveTimeline(rows, recorded)
  })
  return [...rows.values()]
}
const details = (...events: DomainEvent[]) =>
  rowsOf(...events).map(({ id: _id, by: _by, at: _at, updatedAt: _updatedAt, ...detail }) => detail)

const comment = (commentId: number): DomainEvent => ({
  type: 'CommentAdded',
  data: { ...place, commentId, author: bob, body: 'text' },
})

t.test('a comment is one row with its own id and author, even after several edits', async (t) => {
  const edited: DomainEvent = { type: 'CommentEdited', data: { ...place, commentId: 7, body: 'b' } }
  t.same(rowsOf(comment(7), comment(6), edited), [
    { id: 7, by: bob, at: at(0), updatedAt: at(2), type: 'comment' },
    { id: 6, by: bob, at: at(1), updatedAt: at(1), type: 'comment' },
  ])
})

t.test('a deleted comment leaves no row, even if an edit comes after the deletion', async (t) => {
  const deleted: DomainEvent = { type: 'CommentDeleted', data: { ...place, commentId: 7 } }
  const edited: DomainEvent = { type: 'CommentEdited', data: { ...place, commentId: 7, body: 'b' } }
  t.same(rowsOf(comment(7), deleted, edited), [])
})

t.test('closing and reopening are rows with the id of their comment', async (t) => {
  const status = (closed: boolean, id: number): DomainEvent => ({
    type: 'StatusChanged',
    data: { ...place, closed, comment: { id, kind: closed ? 'close' : 'reopen' }, milestone: null },
  })
  t.match(rowsOf(status(true, 3), status(false, 4)), [
    { id: 3, type: 'close', by: alice },
    { id: 4, type: 'reopen', by: alice },
  ])
})

t.test('an event that adds two labels and removes one gives three rows with three ids', async (t) => {
  const event: DomainEvent = {
    type: 'LabelsChanged',
    data: { ...place, labels: [bug, idea], added: [bug, idea], removed: [{ id: 1, name: 'old' }] },
  }
  t.same(
    rowsOf(event).map(({ by: _by, at: _at, updatedAt: _updatedAt, ...row }) => row),
    [
      { id: rowId(10, 0), type: 'label', label: bug, added: true },
      { id: rowId(10, 1), type: 'label', label: idea, added: true },
      { id: rowId(10, 2), type: 'label', label: { id: 1, name: 'old' }, added: false },
    ],
  )
})

t.test('ids of rows are safe integers, differ from those of comments, and are unique', async (t) => {
  const most = 2 ** 41 - 1
  const ids = [rowId(1, 0), rowId(1, 2047), rowId(2, 0), rowId(most, 0), rowId(most, 2047)]
  t.same(
    [...ids].sort((a, b) => a - b),
    ids,
  )
  t.equal(new Set(ids).size, ids.length)
  t.ok(ids.every((id) => Number.isSafeInteger(id) && id > 2 ** 52))
})

t.test(
  'labels, milestone and assignees of a new issue are rows; a pull request also has its first push',
  async (t) => {
    const given = { labels: [bug], milestone: v1, assignees: [bob], deadline: null }
    const texts = { id: 1, poster: alice, title: 'T', body: 'B' }
    const rows = [
      { type: 'milestone', from: null, to: v1 },
      { type: 'label', label: bug, added: true },
      { type: 'assignees', assignee: bob, removed: false },
    ]
    t.same(details({ type: 'IssueOpened', data: { ...place, ...texts, ...given } }), rows)
    t.same(
      details({
        type: 'PullRequestOpened',
        data: {
          ...place,
          ...texts,
          ...given,
          head: { repoId: 5, branch: 'topic', sha: sha('a') },
          base: { repoId: 5, branch: 'main', sha: sha('b') },
          mergeBase: sha('b'),
          diff: { additions: 1, deletions: 0, changedFiles: 1 },
          mergeable: true,
        },
      }),
      [...rows, { type: 'pull_push', commit: sha('a') }],
    )
  },
)

t.test('added, modified and removed deadlines show the date in their own time zone', async (t) => {
  const change = (from: string | null, to: string | null): DomainEvent => ({
    type: 'DeadlineChanged',
    data: { ...place, from, to },
  })
  const first = '2026-03-01T23:59:59+09:00'
  const second = '2026-04-01T23:59:59Z'
  t.same(details(change(null, first), change(first, second), change(second, null)), [
    { type: 'added_deadline', dates: '2026-03-01' },
    { type: 'modified_deadline', dates: '2026-04-01|2026-03-01' },
    { type: 'removed_deadline', dates: '2026-04-01' },
  ])
})

t.test('rows of title, milestone, assignees and dependencies show the old and the new value', async (t) => {
  const dependency = { repoId: 5, index: 1 }
  t.same(
    details(
      { type: 'TitleChanged', data: { ...place, oldTitle: 'a', title: 'b' } },
      { type: 'MilestoneChanged', data: { ...place, from: v1, to: null, closed: false } },
      {
        type: 'AssigneesChanged',
        data: { ...place, assignees: [alice], added: [alice], removed: [bob] },
      },
      { type: 'DependencyAdded', data: { ...place, dependency } },
      { type: 'DependencyRemoved', data: { ...place, dependency } },
    ),
    [
      { type: 'change_title', from: 'a', to: 'b' },
      { type: 'milestone', from: v1, to: null },
      { type: 'assignees', assignee: bob, removed: true },
      { type: 'assignees', assignee: alice, removed: false },
      { type: 'add_dependency', dependency },
      { type: 'remove_dependency', dependency },
    ],
  )
})

t.test('pushes, targets, schedules, merge and branch deletion of a pull request are rows', async (t) => {
  const point = (branch: string) => ({ repoId: 5, branch, sha: sha('a') })
  const diff = { additions: 1, deletions: 0, changedFiles: 1 }
  const mergeBase = sha('b')
  const schedule = {
    style: 'merge',
    title: '',
    message: '',
    deleteBranch: false,
    by: bob,
    expectedHead: null,
    waitsFor: [],
  } as const
  const story: DomainEvent[] = [
    { type: 'PullRequestHeadMoved', data: { ...place, from: sha('a'), to: sha('c'), mergeBase, diff } },
    {
      type: 'TargetBranchChanged',
      data: { ...place, from: point('main'), base: point('next'), mergeBase, diff },
    },
    { type: 'MergeScheduled', data: { ...place, ...schedule } },
    { type: 'MergeScheduleCanceled', data: { ...place, by: bob } },
    {
      type: 'ScheduledMergeRefused',
      data: { ...place, head: sha('c'), reason: 'conflicts', errors: [] },
    },
    {
      type: 'PullRequestMerged',
      data: {
        ...place,
        style: 'merge',
        commit: sha('d'),
        head: sha('c'),
        mergeBase,
        mergedBy: bob,
        milestone: null,
        deleteBranch: true,
      },
    },
    { type: 'HeadBranchDeleted', data: { ...place, commentId: 12, branch: point('topic') } },
  ]
  t.match(rowsOf(...story), [
    { type: 'pull_push', commit: sha('c'), by: alice },
    { type: 'change_target_branch', from: 'main', to: 'next', by: alice },
    { type: 'pull_scheduled_merge', by: bob },
    { type: 'pull_cancel_scheduled_merge', reason: '', by: bob },
    { type: 'pull_cancel_scheduled_merge', reason: 'conflicts' },
    { type: 'merge_pull', commit: sha('d'), by: bob },
    { type: 'delete_branch', branch: 'topic', id: 12 },
  ])
})

t.test('internal events give no row', async (t) => {
  const checked: DomainEvent = {
    type: 'MergeabilityChecked',
    data: { ...place, head: sha('a'), base: sha('b'), mergeable: true, conflicts: [] },
  }
  const failed: DomainEvent = { type: 'MergeFailed', data: { ...place, commit: sha('a'), reason: 'x' } }
  t.same(rowsOf(checked, failed, { type: 'BodyChanged', data: { ...place, body: 'b' } }), [])
})
