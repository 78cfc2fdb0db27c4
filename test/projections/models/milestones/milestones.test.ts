import t from 'tap'
import type { MilestoneRef } from '../../../../src/events/catalog/milestones.ts'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import { milestoneFold } from '../../../../src/projections/models/milestones/milestones.fold.ts'
import { at, documentOf } from '../../document-of.ts'

const alice = { id: 1, login: 'alice' }
const one = { id: 7, title: 'One' }
const two = { id: 8, title: 'Two' }
const sha = (digit: string) => digit.repeat(40)

const created = ({ id, title }: MilestoneRef): DomainEvent => ({
  type: 'MilestoneCreated',
  data: { id, repoId: 5, title, description: 'd', state: 'open', dueOn: null },
})
const opened = (index: number, milestone: MilestoneRef | null): DomainEvent => ({
  type: 'PullRequestOpened',
  data: {
    repoId: 5,
    index,
    id: index,
    poster: alice,
    title: 't',
    body: '',
    head: { repoId: 5, branch: 'topic', sha: sha('b') },
    base: { repoId: 5, branch: 'main', sha: sha('a') },
    mergeBase: sha('a'),
    diff: { additions: 1, deletions: 0, changedFiles: 1 },
    mergeable: true,
    labels: [],
    milestone,
    assignees: [],
    deadline: null,
  },
})
const status = (index: number, closed: boolean, milestone: MilestoneRef | null): DomainEvent => ({
  type: 'StatusChanged',
  data: { repoId: 5, index, closed, comment: { id: 1, kind: closed ? 'close' : 'reopen' }, milestone },
})
const moved = (from: MilestoneRef | null, to: MilestoneRef | null, closed: boolean): DomainEvent => ({
  type: 'MilestoneChanged',
  data: { repoId: 5, index: 1, from, to, closed },
})
const merged = (index: number, milestone: MilestoneRef | null): DomainEvent => ({
  type: 'PullRequestMerged',
  data: {
    repoId: 5,
    index,
    style: 'merge',
    commit: sha('c'),
    head: sha('b'),
    mergeBase: null,
    mergedBy: alice,
    milestone,
    deleteBranch: false,
  },
})

/** The numbers of open and closed issues of both milestones after the events. */
function counts(story: readonly DomainEvent[]) {
  return [one, two].map(({ id }) => {
    const milestone = documentOf(milestoneFold, `${id}`, [created(one), created(two), ...story])
    return [milestone?.openIssues, milestone?.closedIssues]
  })
}

t.test('a milestone document changes with its own events', async (t) => {
  const story = [created(one)]
  const first = {
    id: 7,
    repoId: 5,
    title: 'One',
    description: 'd',
    state: 'open',
    dueOn: null,
    dueAt: Number.MAX_SAFE_INTEGER,
    titleTails: ['one', 'ne', 'e'],
    openIssues: 0,
    closedIssues: 0,
    createdAt: at(0),
    updatedAt: at(0),
    closedAt: null,
  }
  t.same(documentOf(milestoneFold, '7', story), first)
  const dueOn = '2026-05-01T00:00:00.000Z'
  const edit = (changes: Extract<DomainEvent, { type: 'MilestoneEdited' }>['data']['changes']) =>
    story.push({ type: 'MilestoneEdited', data: { id: 7, repoId: 5, changes } })
  edit({ state: 'closed', title: 'No', dueOn })
  const closed = {
    ...first,
    state: 'closed',
    title: 'No',
    titleTails: ['no', 'o'],
    dueOn,
    dueAt: Date.parse(dueOn),
    updatedAt: at(1),
    closedAt: at(1),
  }
  t.same(documentOf(milestoneFold, '7', story), closed)
  edit({ description: 'e' })
  t.match(documentOf(milestoneFold, '7', story), { closedAt: at(1), updatedAt: at(2) })
  edit({ state: 'open', dueOn: null })
  t.match(documentOf(milestoneFold, '7', story), {
    closedAt: null,
    dueOn: null,
    dueAt: Number.MAX_SAFE_INTEGER,
  })
  story.push({ type: 'MilestoneDeleted', data: { id: 7, repoId: 5, title: 'No' } })
  t.equal(documentOf(milestoneFold, '7', story), undefined)
  t.equal(
    documentOf(milestoneFold, '7', [...story, opened(1, one)]),
    undefined,
    'a deleted milestone stays deleted',
  )
})

t.test('a milestone that is created closed has its creation time as closedAt', async (t) => {
  const story: DomainEvent[] = [
    {
      type: 'MilestoneCreated',
      data: { id: 7, repoId: 5, title: 'One', description: '', state: 'closed', dueOn: null },
    },
  ]
  t.match(documentOf(milestoneFold, '7', story), { state: 'closed', closedAt: at(0) })
})

t.test(
  'a milestone counts issues and pull requests that are opened, closed, reopened and merged in it',
  async (t) => {
    const story = [opened(1, one), opened(2, one), opened(3, null)]
    t.same(counts(story), [
      [2, 0],
      [0, 0],
    ])
    story.push(status(1, true, one), status(3, true, null))
    t.same(counts(story)[0], [1, 1])
    story.push(status(1, false, one))
    t.same(counts(story)[0], [2, 0])
    story.push(merged(2, one), merged(3, null))
    t.same(counts(story), [
      [1, 1],
      [0, 0],
    ])
  },
)

t.test('an issue that changes its milestone is counted in the new one, as open or closed', async (t) => {
  const story = [opened(1, one), moved(one, two, false)]
  t.same(counts(story), [
    [0, 0],
    [1, 0],
  ])
  story.push(status(1, true, two), moved(two, one, true))
  t.same(counts(story), [
    [0, 1],
    [0, 0],
  ])
  story.push(moved(one, null, true))
  t.same(counts(story), [
    [0, 0],
    [0, 0],
  ])
  story.push(moved(null, two, true))
  t.same(counts(story)[1], [0, 1])
  story.push(moved(two, { ...two, title: 'Renamed' }, true))
  t.same(counts(story)[1], [0, 1], 'the same milestone is not a change')
})
