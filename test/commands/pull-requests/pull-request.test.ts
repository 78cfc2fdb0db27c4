import t from 'tap'
import {
  decideHeadMoved,
  decideMergeability,
  decideMerged,
  decideMergeFailed,
  decideOpen,
  decideStartMerge,
  isWorkInProgress,
  mergeRefusal,
  type PullState,
  pullDecider,
} from '../../../src/commands/pull-requests/pull-request.ts'
import type { PullRequestEvent } from '../../../src/events/domain-events.ts'
import { specify } from '../../specification.ts'

const sha = (digit: string) => digit.repeat(40)
const alice = { id: 1, login: 'alice' }
const id = { repoId: 7, index: 3 }
const diff = { additions: 1, deletions: 2, changedFiles: 1 }

const opened: Extract<PullRequestEvent, { type: 'PullRequestOpened' }> = {
  type: 'PullRequestOpened',
  data: {
    ...id,
    id: 30,
    poster: alice,
    title: 'Add a thing',
    body: '',
    head: { repoId: 7, branch: 'topic', sha: sha('a') },
    base: { repoId: 7, branch: 'main', sha: sha('b') },
    mergeBase: sha('b'),
    diff,
    mergeable: true,
  },
}
const merge = {
  style: 'merge',
  baseBranch: 'main',
  from: sha('b'),
  head: sha('a'),
  commit: sha('c'),
  by: alice,
} as const
const started: PullRequestEvent = { type: 'MergeStarted', data: { ...id, ...merge, message: 'Merge\n' } }
const merged: PullRequestEvent = {
  type: 'PullRequestMerged',
  data: { ...id, commit: sha('c'), head: sha('a'), mergedBy: alice },
}
const failed: PullRequestEvent = { type: 'MergeFailed', data: { ...id, commit: sha('c'), reason: 'moved' } }

t.test('a pull request is opened once', async (t) => {
  const { given } = specify(t, pullDecider)
  given()
    .when((state) => decideOpen(state, opened.data))
    .thenEvents(opened)
  given(opened)
    .when((state) => decideOpen(state, opened.data))
    .thenRefused('conflict')
})

t.test('a moved head is recorded once, and never after the merge', async (t) => {
  const { given } = specify(t, pullDecider)
  const moved = { to: sha('d'), mergeBase: sha('b'), diff }
  const event: PullRequestEvent = { type: 'PullRequestHeadMoved', data: { ...id, from: sha('a'), ...moved } }
  given(opened)
    .when((state) => decideHeadMoved(state, moved))
    .thenEvents(event)
  given(opened, event)
    .when((state) => decideHeadMoved(state, moved))
    .thenEvents()
  given(opened, started, merged)
    .when((state) => decideHeadMoved(state, moved))
    .thenEvents()
})

t.test('mergeability is recorded when the pair of commits or the answer is new', async (t) => {
  const { given } = specify(t, pullDecider)
  const same = { head: sha('a'), base: sha('b'), mergeable: true, conflicts: [] }
  const clash = { head: sha('a'), base: sha('e'), mergeable: false, conflicts: ['a.txt'] }
  given(opened)
    .when((state) => decideMergeability(state, same))
    .thenEvents()
  given(opened)
    .when((state) => decideMergeability(state, clash))
    .thenEvents({ type: 'MergeabilityChecked', data: { ...id, ...clash } })
  given(opened, started, merged)
    .when((state) => decideMergeability(state, clash))
    .thenEvents()
})

t.test('merge rule 2: what can not be merged says why', async (t) => {
  const fold = (...events: PullRequestEvent[]): PullState =>
    events.reduce((state, event) => pullDecider.evolve(state, event), pullDecider.initialState)
  const may = { style: 'merge', mayMerge: true }
  t.equal(mergeRefusal(fold(opened), may), undefined)
  t.match(mergeRefusal(fold(), may), { refused: 'notFound' })
  t.match(mergeRefusal(fold(opened), { ...may, mayMerge: false }), { refused: 'notAllowed' })
  t.match(mergeRefusal(fold(opened, started, merged), may), {
    refused: 'notAllowed',
    message: /merged already/,
  })
  const draft = { ...opened, data: { ...opened.data, title: 'WIP: not yet' } }
  t.match(mergeRefusal(fold(draft), may), { refused: 'notAllowed', message: /work in progress/ })
  t.match(mergeRefusal(fold(opened), { ...may, style: 'octopus' }), {
    refused: 'notAllowed',
    message: /octopus/,
  })
})

t.test('merge rule 7: a stale head_commit_id is a conflict', async (t) => {
  const state = pullDecider.evolve(pullDecider.initialState, opened)
  const request = { style: 'merge', mayMerge: true, expectedHead: sha('f') }
  t.match(mergeRefusal(state, request), { refused: 'conflict', message: /head_commit_id/ })
  t.equal(mergeRefusal(state, { ...request, expectedHead: sha('a') }), undefined)
})

t.test('a merge is an intent with exactly one outcome', async (t) => {
  const { given } = specify(t, pullDecider)
  given(opened)
    .when((state) => decideStartMerge(state, { ...merge, message: 'Merge\n' }))
    .thenEvents(started)
  given(opened, started)
    .when((state) => decideStartMerge(state, { ...merge, message: 'Merge\n' }))
    .thenRefused('conflict')
  given(opened, started)
    .when((state) => decideMerged(state, sha('c')))
    .thenEvents(merged)
  given(opened, started, merged)
    .when((state) => decideMerged(state, sha('c')))
    .thenEvents()
  given(opened, started)
    .when((state) => decideMergeFailed(state, sha('c'), 'moved'))
    .thenEvents(failed)
  given(opened, started, failed)
    .when((state) => decideMerged(state, sha('c')))
    .thenEvents()
  given(opened, started, failed)
    .when((state) => decideStartMerge(state, { ...merge, message: 'Merge\n' }))
    .thenEvents(started)
})

t.test('titles that begin with WIP: or [WIP] are work in progress', async (t) => {
  t.ok(isWorkInProgress('WIP: a'))
  t.ok(isWorkInProgress('[wip] a'))
  t.notOk(isWorkInProgress('Wipe the disk'))
})
