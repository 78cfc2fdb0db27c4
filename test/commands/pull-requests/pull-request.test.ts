import t from 'tap'
import {
  decideBranchGone,
  decideHeadBranchDeleted,
  decideHeadBranchKept,
  decideHeadMoved,
  decideManuallyMerged,
  decideMergeability,
  decideMerged,
  decideMergeFailed,
  decideOpen,
  decideScheduleRefused,
  decideStartMerge,
  type PullState,
  pullDecider,
  sameApartFromCommitFacts,
} from '../../../src/commands/pull-requests/pull-request.decider.ts'
import { isWorkInProgress } from '../../../src/domain/work-in-progress.ts'
import type { MergeIntent, PullRequestEvent } from '../../../src/events/catalog/pull-requests.ts'
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
    labels: [],
    milestone: { id: 4, title: 'First' },
    assignees: [],
    deadline: null,
  },
}
const merge: MergeIntent = {
  style: 'squash',
  baseBranch: 'main',
  from: sha('b'),
  head: sha('a'),
  mergeBase: sha('9'),
  commit: sha('c'),
  message: 'Merge\n',
  by: alice,
  deleteBranch: true,
}
const started: PullRequestEvent = { type: 'MergeStarted', data: { ...id, ...merge } }
const outcome = {
  ...id,
  style: 'squash',
  commit: sha('c'),
  head: sha('a'),
  mergeBase: sha('9'),
  mergedBy: alice,
  milestone: opened.data.milestone,
  deleteBranch: true,
} as const
const merged: PullRequestEvent = { type: 'PullRequestMerged', data: outcome }
const failed: PullRequestEvent = { type: 'MergeFailed', data: { ...id, commit: sha('c'), reason: 'moved' } }

const content = { changed: true, dismissStale: true }

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
    .when((state) => decideHeadMoved(state, moved, true, content))
    .thenEvents(event)
  given(opened, event)
    .when((state) => decideHeadMoved(state, moved, true, content))
    .thenEvents()
  given(opened, started, merged)
    .when((state) => decideHeadMoved(state, moved, true, content))
    .thenEvents()
})

t.test('another head ends a scheduled merge for one head, and one that a stranger moved', async (t) => {
  const { given } = specify(t, pullDecider)
  const moved = { to: sha('d'), mergeBase: sha('b'), diff }
  const event: PullRequestEvent = { type: 'PullRequestHeadMoved', data: { ...id, from: sha('a'), ...moved } }
  const scheduled = (expectedHead: string | null): PullRequestEvent => {
    const schedule = {
      style: 'merge',
      title: '',
      message: '',
      deleteBranch: false,
      by: alice,
      waitsFor: [],
    } as const
    return { type: 'MergeScheduled', data: { ...id, ...schedule, expectedHead } }
  }
  const ended = (reason: string): PullRequestEvent => ({
    type: 'ScheduledMergeRefused',
    data: { ...id, head: sha('d'), reason, errors: [] },
  })
  given(opened, scheduled(sha('a')))
    .when((state) => decideHeadMoved(state, moved, true, content))
    .thenEvents(event, ended(`head_commit_id: the head has moved to ${sha('d')}`))
  given(opened, scheduled(null))
    .when((state) => decideHeadMoved(state, moved, true, content))
    .thenEvents(event)
  given(opened, scheduled(null))
    .when((state) => decideHeadMoved(state, moved, false, content))
    .thenEvents(event, ended('a user who may not merge into the base branch has moved the head'))
})

t.test('a refusal ends the schedule, but not while a merge is under way', async (t) => {
  const { given } = specify(t, pullDecider)
  const schedule = {
    style: 'merge',
    title: '',
    message: '',
    deleteBranch: false,
    by: alice,
    waitsFor: [],
  } as const
  const scheduled: PullRequestEvent = {
    type: 'MergeScheduled',
    data: { ...id, ...schedule, expectedHead: null },
  }
  const refused = { head: sha('a'), reason: 'another merge of this pull request is under way', errors: [] }
  const event: PullRequestEvent = { type: 'ScheduledMergeRefused', data: { ...id, ...refused } }
  given(opened, scheduled, started)
    .when((state) => decideScheduleRefused(state, refused))
    .thenEvents()
  given(opened, scheduled, started, failed)
    .when((state) => decideScheduleRefused(state, refused))
    .thenEvents(event)
  given(opened, scheduled)
    .when((state) => decideScheduleRefused(state, { ...refused, head: sha('d') }))
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

t.test('a merge is an intent with exactly one outcome', async (t) => {
  const { given } = specify(t, pullDecider)
  given(opened)
    .when((state) => decideStartMerge(state, merge))
    .thenEvents(started)
  given(opened, started)
    .when((state) => decideStartMerge(state, merge))
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
    .when((state) => decideStartMerge(state, merge))
    .thenEvents(started)
})

t.test('only the commit of a merge under way can finish or fail it', async (t) => {
  const { given } = specify(t, pullDecider)
  given(opened, started)
    .when((state) => decideMerged(state, sha('d')))
    .thenEvents()
  given(opened, started)
    .when((state) => decideMergeFailed(state, sha('d'), 'moved'))
    .thenEvents()
  given(opened)
    .when((state) => decideMerged(state, sha('c')))
    .thenEvents()
})

t.test('only an open pull request is merged', async (t) => {
  const { given } = specify(t, pullDecider)
  const closed: PullRequestEvent = {
    type: 'StatusChanged',
    data: { ...id, closed: true, comment: { id: 1, kind: 'close' }, milestone: null },
  }
  for (const history of [[], [opened, closed], [opened, started, merged]]) {
    given(...history)
      .when((state) => decideStartMerge(state, merge))
      .thenRefused('notFound')
    given(...history)
      .when((state) => decideManuallyMerged(state, merge))
      .thenRefused('notFound')
  }
})

t.test('merge.3: a manual merge has no intent, only its outcome', async (t) => {
  const { given } = specify(t, pullDecider)
  given(opened)
    .when((state) => decideManuallyMerged(state, { ...merge, style: 'manually-merged', mergeBase: null }))
    .thenEvents({
      type: 'PullRequestMerged',
      data: { ...outcome, style: 'manually-merged', mergeBase: null },
    })
  given(opened, started)
    .when((state) => decideManuallyMerged(state, merge))
    .thenRefused('conflict')
})

t.test('a merged pull request keeps the head and the merge base that were merged', async (t) => {
  const moved: PullRequestEvent = {
    type: 'PullRequestHeadMoved',
    data: { ...id, from: sha('a'), to: sha('d'), mergeBase: sha('b'), diff },
  }
  const fold = (...events: PullRequestEvent[]) =>
    events.reduce((state, event) => pullDecider.evolve(state, event), pullDecider.initialState)
  // A push into the head branch during the merge: it adds nothing to the base.
  t.match(fold(opened, started, moved, merged), {
    status: 'merged',
    head: { sha: sha('a') },
    mergeBase: sha('9'),
  })
  const manual: PullRequestEvent = { type: 'PullRequestMerged', data: { ...outcome, mergeBase: null } }
  t.match(fold(opened, manual), { mergeBase: sha('b') })
})

t.test('merge.8: the deletion of the head branch is commented on once, after the merge', async (t) => {
  const { given } = specify(t, pullDecider)
  const deleted: PullRequestEvent = {
    type: 'HeadBranchDeleted',
    data: { ...id, commentId: 5, branch: opened.data.head },
  }
  given(opened, started, merged)
    .when((state) => decideHeadBranchDeleted(state, 5))
    .thenEvents(deleted)
  given(opened, started, merged, deleted)
    .when((state) => decideHeadBranchDeleted(state, 6))
    .thenEvents()
  given(opened)
    .when((state) => decideHeadBranchDeleted(state, 5))
    .thenEvents()
})

t.test('a deleted branch closes an open pull request, and ends its scheduled merge', async (t) => {
  const { given } = specify(t, pullDecider)
  const { milestone } = opened.data
  const comment = { id: 5, kind: 'close' } as const
  const closed = (branchGone: 'head' | 'base'): PullRequestEvent => ({
    type: 'StatusChanged',
    data: { ...id, closed: true, comment, milestone, branchGone },
  })
  const schedule = {
    style: 'merge',
    title: '',
    message: '',
    deleteBranch: false,
    by: alice,
    waitsFor: [],
  } as const
  const scheduled: PullRequestEvent = {
    type: 'MergeScheduled',
    data: { ...id, ...schedule, expectedHead: null },
  }
  const dependency: PullRequestEvent = {
    type: 'DependencyAdded',
    data: { ...id, dependency: { repoId: 7, index: 1 } },
  }
  given(opened, dependency)
    .when((state) => decideBranchGone(state, 'base', 5))
    .thenEvents(closed('base'))
  given(opened, scheduled)
    .when((state) => decideBranchGone(state, 'head', 5))
    .thenEvents(closed('head'), {
      type: 'ScheduledMergeRefused',
      data: { ...id, head: sha('a'), reason: 'the head branch was deleted', errors: [] },
    })
  for (const events of [
    [opened, closed('head')],
    [opened, started],
    [opened, started, merged],
  ]) {
    given(...events)
      .when((state) => decideBranchGone(state, 'head', 6))
      .thenEvents()
  }
})

t.test('merge.8: the kept head branch is recorded once, after the merge', async (t) => {
  const { given } = specify(t, pullDecider)
  const kept: PullRequestEvent = {
    type: 'HeadBranchKept',
    data: { ...id, branch: opened.data.head, reason: 'why' },
  }
  given(opened, started, merged)
    .when((state) => decideHeadBranchKept(state, 'why'))
    .thenEvents(kept)
  given(opened, started, merged, kept)
    .when((state) => decideHeadBranchKept(state, 'another'))
    .thenEvents()
  given(opened)
    .when((state) => decideHeadBranchKept(state, 'why'))
    .thenEvents()
})

t.test('titles that begin with WIP: or [WIP] are work in progress', async (t) => {
  t.ok(isWorkInProgress('WIP: a'))
  t.ok(isWorkInProgress('[wip] a'))
  t.notOk(isWorkInProgress('Wipe the disk'))
})

t.test('a decision to merge is still valid only when nothing but commit facts changed', async (t) => {
  const after = (state: PullState, ...events: PullRequestEvent[]) =>
    events.reduce((now, event) => pullDecider.evolve(now, event), state)
  const state = after(pullDecider.initialState, opened)
  const found: PullRequestEvent[] = [
    {
      type: 'MergeabilityChecked',
      data: { ...id, head: sha('a'), base: sha('e'), mergeable: false, conflicts: ['a'] },
    },
    { type: 'MergeBaseMoved', data: { ...id, from: sha('b'), to: sha('e'), diff } },
  ]
  t.ok(sameApartFromCommitFacts(state, after(state, ...found)))
  const others: PullRequestEvent[] = [
    {
      type: 'PullRequestHeadMoved',
      data: { ...id, from: sha('a'), to: sha('f'), mergeBase: sha('b'), diff },
    },
    { type: 'TitleChanged', data: { ...id, oldTitle: 'Add a thing', title: 'WIP: add' } },
    { type: 'DependencyAdded', data: { ...id, dependency: { repoId: 7, index: 9 } } },
    {
      type: 'TargetBranchChanged',
      data: {
        ...id,
        from: opened.data.base,
        base: { ...opened.data.base, branch: 'dev' },
        mergeBase: sha('b'),
        diff,
      },
    },
    started,
  ]
  for (const event of others) t.notOk(sameApartFromCommitFacts(state, after(state, event)), event.type)
  t.notOk(sameApartFromCommitFacts(pullDecider.initialState, state))
})
