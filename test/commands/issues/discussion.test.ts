import t from 'tap'
import {
  type DiscussionEdit,
  decideAddDependency,
  decideEditDiscussion,
  decideRemoveDependency,
  decideStatus,
} from '../../../src/commands/issues/discussion.decider.ts'
import { type PullState, pullDecider } from '../../../src/commands/pull-requests/pull-request.decider.ts'
import type { PullRequestEvent } from '../../../src/events/catalog/pull-requests.ts'
import { specify } from '../../specification.ts'

const id = { repoId: 7, index: 3 }
const other = { repoId: 7, index: 4 }
const [alice, bob] = [
  { id: 1, login: 'alice' },
  { id: 2, login: 'bob' },
]
const [bug, idea] = [
  { id: 11, name: 'bug' },
  { id: 12, name: 'idea' },
]
const milestone = { id: 21, title: '1.0' }
const opened: PullRequestEvent = {
  type: 'PullRequestOpened',
  data: {
    ...id,
    id: 30,
    poster: alice,
    title: 'Old',
    body: 'Text',
    head: { repoId: 7, branch: 'topic', sha: 'a'.repeat(40) },
    base: { repoId: 7, branch: 'main', sha: 'b'.repeat(40) },
    mergeBase: 'b'.repeat(40),
    diff: { additions: 1, deletions: 0, changedFiles: 1 },
    mergeable: true,
    labels: [bug],
    milestone,
    assignees: [alice],
    deadline: '2027-01-01T23:59:59Z',
  },
}
const closing = { closed: true, commentId: 5, openDependencies: [] }
const closed: PullRequestEvent = {
  type: 'StatusChanged',
  data: { ...id, closed: true, comment: { id: 5, kind: 'close' }, milestone },
}
const depends: PullRequestEvent = { type: 'DependencyAdded', data: { ...id, dependency: other } }

/** Returns the state after the opening. */
function active(state: PullState) {
  if (state.status === 'none') throw new Error('nothing was opened')
  return state
}
const edit = (change: DiscussionEdit) => (state: PullState) => decideEditDiscussion(active(state), change)

t.test('an edit is one event for each changed field, with the old value', async (t) => {
  const { given } = specify(t, pullDecider)
  const to = { id: 22, title: '2.0' }
  given(opened)
    .when(
      edit({
        title: 'New',
        body: 'More',
        labels: [idea],
        milestone: to,
        assignees: [alice, bob],
        deadline: '2028-01-01T23:59:59+01:00',
      }),
    )
    .thenEvents(
      { type: 'TitleChanged', data: { ...id, oldTitle: 'Old', title: 'New' } },
      { type: 'BodyChanged', data: { ...id, body: 'More' } },
      { type: 'LabelsChanged', data: { ...id, labels: [idea], added: [idea], removed: [bug] } },
      { type: 'MilestoneChanged', data: { ...id, from: milestone, to, closed: false } },
      { type: 'AssigneesChanged', data: { ...id, assignees: [alice, bob], added: [bob], removed: [] } },
      {
        type: 'DeadlineChanged',
        data: { ...id, from: '2027-01-01T23:59:59Z', to: '2028-01-01T23:59:59+01:00' },
      },
    )
})

t.test('an edit that changes nothing appends no event', async (t) => {
  const { given } = specify(t, pullDecider)
  given(opened).when(edit({})).thenEvents()
  given(opened)
    .when(
      edit({
        title: 'Old',
        body: 'Text',
        labels: [bug, bug],
        milestone: { id: 21, title: 'Renamed since' },
        assignees: [alice],
        deadline: '2027-01-01T23:59:59Z',
      }),
    )
    .thenEvents()
})

t.test('empty sets and null clear; a member that is named twice counts once', async (t) => {
  const { given } = specify(t, pullDecider)
  given(opened)
    .when(edit({ labels: [], milestone: null, assignees: [], deadline: null }))
    .thenEvents(
      { type: 'LabelsChanged', data: { ...id, labels: [], added: [], removed: [bug] } },
      { type: 'MilestoneChanged', data: { ...id, from: milestone, to: null, closed: false } },
      { type: 'AssigneesChanged', data: { ...id, assignees: [], added: [], removed: [alice] } },
      { type: 'DeadlineChanged', data: { ...id, from: '2027-01-01T23:59:59Z', to: null } },
    )
  given(opened)
    .when(edit({ assignees: [bob, bob, alice] }))
    .thenEvents({
      type: 'AssigneesChanged',
      data: { ...id, assignees: [bob, alice], added: [bob], removed: [] },
    })
  given(opened, closed)
    .when(edit({ milestone: null }))
    .thenEvents({ type: 'MilestoneChanged', data: { ...id, from: milestone, to: null, closed: true } })
})

t.test('closing and reopening are recorded once, with a comment and the milestone', async (t) => {
  const { given } = specify(t, pullDecider)
  const opening = { closed: false, commentId: 6, openDependencies: [other] }
  given(opened)
    .when((state) => decideStatus(active(state), closing))
    .thenEvents(closed)
  given(opened, closed)
    .when((state) => decideStatus(active(state), closing))
    .thenEvents()
  given(opened, closed)
    .when((state) => decideStatus(active(state), opening))
    .thenEvents({
      type: 'StatusChanged',
      data: { ...id, closed: false, comment: { id: 6, kind: 'reopen' }, milestone },
    })
  given(opened)
    .when((state) => decideStatus(active(state), opening))
    .thenEvents()
})

t.test('issues.edit.4: an issue with an open dependency cannot be closed', async (t) => {
  const { given } = specify(t, pullDecider)
  given(opened, depends)
    .when((state) => decideStatus(active(state), { ...closing, openDependencies: [other] }))
    .thenRefused('preconditionFailed', 'the issue depends on open issues')
  given(opened, depends)
    .when((state) => decideStatus(active(state), closing))
    .thenEvents(closed)
  given(opened, closed, depends)
    .when((state) => decideStatus(active(state), { ...closing, openDependencies: [other] }))
    .thenEvents()
})

t.test('a dependency is added once, and not to itself or in a cycle', async (t) => {
  const { given } = specify(t, pullDecider)
  given(opened)
    .when((state) => decideAddDependency(active(state), other, false))
    .thenEvents(depends)
  given(opened, depends)
    .when((state) => decideAddDependency(active(state), other, false))
    .thenRefused('conflict')
  given(opened)
    .when((state) => decideAddDependency(active(state), id, true))
    .thenRefused('unprocessable', 'an issue cannot depend on itself')
  given(opened)
    .when((state) => decideAddDependency(active(state), other, true))
    .thenRefused('unprocessable', 'the other issue depends on this one')
  const elsewhere = { repoId: 8, index: id.index }
  given(opened)
    .when((state) => decideAddDependency(active(state), elsewhere, false))
    .thenEvents({ type: 'DependencyAdded', data: { ...id, dependency: elsewhere } })
})

t.test('an issue has at most 100 dependencies', async (t) => {
  const { given } = specify(t, pullDecider)
  const many = Array.from(
    { length: 100 },
    (_, i): PullRequestEvent => ({
      type: 'DependencyAdded',
      data: { ...id, dependency: { repoId: 7, index: 100 + i } },
    }),
  )
  given(opened, ...many)
    .when((state) => decideAddDependency(active(state), other, false))
    .thenRefused('unprocessable')
  given(opened, ...many.slice(1))
    .when((state) => decideAddDependency(active(state), other, false))
    .thenEvents(depends)
})

t.test('an existing dependency can be removed, and added again', async (t) => {
  const { given } = specify(t, pullDecider)
  const removed: PullRequestEvent = { type: 'DependencyRemoved', data: { ...id, dependency: other } }
  given(opened, depends)
    .when((state) => decideRemoveDependency(active(state), other))
    .thenEvents(removed)
  given(opened, depends)
    .when((state) => decideRemoveDependency(active(state), { repoId: 8, index: 4 }))
    .thenRefused('notFound')
  given(opened, depends, removed)
    .when((state) => decideRemoveDependency(active(state), other))
    .thenRefused('notFound')
  given(opened, depends, removed)
    .when((state) => decideAddDependency(active(state), other, false))
    .thenEvents(depends)
})
