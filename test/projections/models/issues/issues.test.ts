import t from 'tap'
import { decideEditDiscussion, decideStatus } from '../../../../src/commands/issues/discussion.decider.ts'
import { issueDecider } from '../../../../src/commands/issues/issue.decider.ts'
import type { IssueEvent } from '../../../../src/events/catalog/issues.ts'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import { issueStream, pullStream } from '../../../../src/events/streams.ts'
import { issueTextFold } from '../../../../src/projections/models/issues/issue-texts.fold.ts'
import { issueFold } from '../../../../src/projections/models/issues/issues.fold.ts'
import { milestoneFold } from '../../../../src/projections/models/milestones/milestones.fold.ts'
import { pullFold } from '../../../../src/projections/models/pull-requests/pulls.fold.ts'
import { repositoryFold } from '../../../../src/projections/models/repositories/repositories.fold.ts'
import { specify } from '../../../specification.ts'
import { at, documentOf } from '../../document-of.ts'

const place = { repoId: 5, index: 3 }
const [alice, bob] = [
  { id: 1, login: 'alice' },
  { id: 2, login: 'bob' },
]
const [bug, idea] = [
  { id: 11, name: 'bug' },
  { id: 12, name: 'idea' },
]
const one = { id: 21, title: 'One' }
const fields = {
  title: 'It breaks',
  body: 'Always',
  poster: alice,
  labels: [bug],
  milestone: one,
  assignees: [bob],
}
const opened: IssueEvent = { type: 'IssueOpened', data: { ...place, ...fields, id: 30, deadline: null } }
const pullOpened: DomainEvent = {
  type: 'PullRequestOpened',
  data: {
    ...place,
    ...fields,
    id: 30,
    deadline: null,
    head: { repoId: 5, branch: 'topic', sha: 'a'.repeat(40) },
    base: { repoId: 5, branch: 'main', sha: 'b'.repeat(40) },
    mergeBase: 'b'.repeat(40),
    diff: { additions: 1, deletions: 0, changedFiles: 1 },
    mergeable: true,
  },
}
const status = (closed: boolean): IssueEvent => ({
  type: 'StatusChanged',
  data: { ...place, closed, comment: { id: 1, kind: closed ? 'close' : 'reopen' }, milestone: one },
})
const merged: DomainEvent = {
  type: 'PullRequestMerged',
  data: {
    ...place,
    style: 'merge',
    commit: 'c'.repeat(40),
    head: 'a'.repeat(40),
    mergeBase: null,
    mergedBy: alice,
    milestone: one,
    deleteBranch: false,
  },
}
const said = (commentId: number, body: string): DomainEvent => ({
  type: 'CommentAdded',
  data: { ...place, commentId, author: bob, body },
})
const edited = (commentId: number, body: string): DomainEvent => ({
  type: 'CommentEdited',
  data: { ...place, commentId, body },
})
const deleted = (commentId: number): DomainEvent => ({
  type: 'CommentDeleted',
  data: { ...place, commentId },
})

const issueAfter = (...events: DomainEvent[]) => documentOf(issueFold, '5.3', events, issueStream(5, 3))
const pullAfter = (...events: DomainEvent[]) => documentOf(issueFold, '5.3', events, pullStream(5, 3))
/** The words of the title and the body, and then those of the comments 1 and 2. */
const wordsAfter = (...events: DomainEvent[]) =>
  ['5.3', '5.3.1', '5.3.2'].map((id) => documentOf(issueTextFold, id, events)?.words)

t.test('an issue document has the fields that lists show and filter by', async (t) => {
  t.same(issueAfter(opened), {
    ...place,
    ...fields,
    id: 30,
    deadline: null,
    isPull: false,
    state: 'open',
    closed: false,
    posterId: 1,
    assigneeIds: [2],
    labelIds: [11],
    milestoneId: 21,
    reviewerIds: [],
    requestedReviewerIds: [],
    mentionedIds: [],
    dependencies: [],
    dependencyKeys: [],
    mergedAt: null,
    comments: 0,
    createdAt: at(0),
    updatedAt: at(0),
    closedAt: null,
  })
  t.match(pullAfter(pullOpened), { isPull: true, state: 'open', mergedAt: null, title: 'It breaks' })
  t.equal(issueAfter(status(true), said(1, 'x')), undefined, 'without an opening event there is no document')
})

t.test('an issue document lists the mentioned users, each once; a new issue has no editor', async (t) => {
  const mentioned = (...ids: number[]): DomainEvent => ({
    type: 'UsersMentioned',
    data: { ...place, commentId: null, users: ids.map((id) => ({ id, login: `u${id}` })) },
  })
  for (const after of [
    issueAfter(opened, mentioned(4, 5), mentioned(5, 6)),
    pullAfter(pullOpened, mentioned(4, 5, 6)),
  ]) {
    t.match(after, { mentionedIds: [4, 5, 6], updatedAt: at(0) })
  }
})

t.test('an issue document changes with its events', async (t) => {
  const deadline = '2027-01-01T23:59:59Z'
  const dependency = { repoId: 6, index: 1 }
  const changed = issueAfter(
    opened,
    { type: 'TitleChanged', data: { ...place, oldTitle: 'It breaks', title: 'New' } },
    { type: 'BodyChanged', data: { ...place, body: '' } },
    { type: 'LabelsChanged', data: { ...place, labels: [idea], added: [idea], removed: [bug] } },
    { type: 'MilestoneChanged', data: { ...place, from: one, to: null, closed: false } },
    { type: 'AssigneesChanged', data: { ...place, assignees: [], added: [], removed: [bob] } },
    { type: 'DeadlineChanged', data: { ...place, from: null, to: deadline } },
    { type: 'DependencyAdded', data: { ...place, dependency } },
  )
  t.match(changed, {
    title: 'New',
    body: '',
    labelIds: [12],
    milestoneId: null,
    assigneeIds: [],
    deadline,
    dependencyKeys: ['6.1'],
    createdAt: at(0),
    updatedAt: at(7),
  })
  t.same([changed?.assignees, changed?.assigneeIds], [[], []])
  const removed: DomainEvent = { type: 'DependencyRemoved', data: { ...place, dependency } }
  t.same(issueAfter(opened, { ...removed, type: 'DependencyAdded' }, removed)?.dependencyKeys, [])
})

t.test('an issue document has the time when it was closed or merged', async (t) => {
  t.match(issueAfter(opened, status(true)), {
    state: 'closed',
    closed: true,
    closedAt: at(1),
    updatedAt: at(1),
  })
  t.match(issueAfter(opened, status(true), status(false)), { state: 'open', closed: false, closedAt: null })
  t.match(pullAfter(pullOpened, merged), { state: 'closed', closed: true, closedAt: at(1), mergedAt: at(1) })
})

t.test('a pull request was updated at the same time as an issue and as itself', async (t) => {
  const events: DomainEvent[] = [
    {
      type: 'PullRequestHeadMoved',
      data: {
        ...place,
        from: 'a'.repeat(40),
        to: 'd'.repeat(40),
        mergeBase: 'b'.repeat(40),
        diff: { additions: 2, deletions: 0, changedFiles: 1 },
      },
    },
    { type: 'MaintainerEditChanged', data: { ...place, allowed: true } },
    { type: 'MergeScheduleCanceled', data: { ...place, by: alice } },
  ]
  for (const [i, event] of events.entries()) {
    const story = [pullOpened, ...events.slice(0, i), event]
    t.equal(pullAfter(...story)?.updatedAt, at(i + 1), event.type)
    t.equal(documentOf(pullFold, '5.3', story, pullStream(5, 3))?.updatedAt, at(i + 1))
  }
  const checked: DomainEvent = {
    type: 'MergeabilityChecked',
    data: { ...place, head: 'a'.repeat(40), base: 'b'.repeat(40), mergeable: true, conflicts: [] },
  }
  t.equal(pullAfter(pullOpened, checked)?.updatedAt, at(0), 'a check of the server is no update')
})

t.test('an issue document counts its comments', async (t) => {
  const story = [opened, said(1, 'a'), said(2, 'b'), edited(2, 'c')]
  t.match(issueAfter(...story), { comments: 2, updatedAt: at(3) })
  t.match(issueAfter(...story, deleted(1)), { comments: 1, updatedAt: at(4) })
})

t.test('the words of an issue are the words of its current title, body and comments', async (t) => {
  t.same(wordsAfter(opened), [['it', 'breaks', 'always'], undefined, undefined])
  const story = [opened, said(1, 'Mine breaks too'), said(2, 'Fixed')]
  t.same(wordsAfter(...story), [['it', 'breaks', 'always'], ['mine', 'breaks', 'too'], ['fixed']])
  t.same(wordsAfter(...story, edited(1, 'Sorry'), deleted(2)), [
    ['it', 'breaks', 'always'],
    ['sorry'],
    undefined,
  ])
  const title: DomainEvent = {
    type: 'TitleChanged',
    data: { ...place, oldTitle: 'It breaks', title: 'Other' },
  }
  const body: DomainEvent = { type: 'BodyChanged', data: { ...place, body: 'Never' } }
  t.same(wordsAfter(opened, title)[0], ['other', 'always'])
  t.same(wordsAfter(opened, body)[0], ['it', 'breaks', 'never'])
  t.same(wordsAfter(opened, { ...body, data: { ...place, body: '' } }, title, body)[0], ['other', 'never'])
  t.same(wordsAfter(opened, title, { ...body, data: { ...place, body: '' } })[0], ['other'])
})

t.test('words of a review are found when it is submitted, until it is deleted or erased', async (t) => {
  const commit = 'a'.repeat(40)
  const onLine = {
    path: 'f',
    side: 'new',
    line: 1,
    commit,
    base: commit,
    hunk: '',
    body: 'Typo here',
  } as const
  const drafts: DomainEvent[] = [
    { type: 'ReviewDrafted', data: { ...place, reviewId: 1, reviewer: bob, body: 'Secret', commit } },
    { type: 'ReviewCommentDrafted', data: { ...place, reviewId: 1, commentId: 2, author: bob, ...onLine } },
  ]
  t.same(wordsAfter(opened, ...drafts).slice(1), [undefined, undefined])
  const submitted: DomainEvent[] = [
    {
      type: 'ReviewSubmitted',
      data: {
        ...place,
        reviewId: 1,
        reviewer: bob,
        verdict: 'rejected',
        body: 'Not yet',
        commit,
        official: true,
        stale: false,
        comments: [2],
        superseded: [],
        answered: [],
      },
    },
    { type: 'ReviewCommentAdded', data: { ...place, reviewId: 1, commentId: 2, author: bob, ...onLine } },
  ]
  const story = [opened, ...drafts, ...submitted]
  t.same(wordsAfter(...story).slice(1), [
    ['not', 'yet'],
    ['typo', 'here'],
  ])
  const gone: DomainEvent = {
    type: 'ReviewDeleted',
    data: { ...place, reviewId: 1, reviewer: bob, comments: [2] },
  }
  t.same(wordsAfter(...story, gone).slice(1), [undefined, undefined])
  const erased: DomainEvent = {
    type: 'TextsErased',
    data: { ...place, commentId: null, comments: [1, 2], files: [], by: bob, at: at(9) },
  }
  t.same(wordsAfter(...story, erased), [[], [], []])
})

t.test('words belong to a comment: other events of the issue touch only changed words', async (t) => {
  const metadata = { actor: bob, at: at(0), correlationId: 'c', causationId: 'c', schema: 1 }
  const where = { id: 'e', stream: 's', revision: 0, position: 1, metadata }
  for (const [event, touched] of [
    [opened, ['5.3']],
    [said(7, 'x'), ['5.3.7']],
    [edited(7, 'x'), ['5.3.7']],
    [status(true), []],
  ] satisfies [DomainEvent, string[]][]) {
    t.same(issueTextFold.touches({ ...event, ...where }), touched, event.type)
  }
})

t.test(
  'repositories count issues and pull requests separately, milestones count them together',
  async (t) => {
    const repository: DomainEvent = {
      type: 'RepositoryCreated',
      data: {
        repoId: 5,
        owner: { ...alice, kind: 'user' },
        name: 'app',
        description: '',
        website: '',
        private: false,
        defaultBranch: 'main',
      },
    }
    const milestone: DomainEvent = {
      type: 'MilestoneCreated',
      data: { ...one, repoId: 5, description: '', state: 'open', dueOn: null },
    }
    const counts = (stream: string, ...story: DomainEvent[]) => {
      const counted = documentOf(repositoryFold, '5', [repository, ...story], stream)
      const inMilestone = documentOf(milestoneFold, '21', [milestone, ...story], stream)
      return [
        [counted?.openIssues, counted?.closedIssues],
        [counted?.openPulls, counted?.closedPulls],
        [inMilestone?.openIssues, inMilestone?.closedIssues],
      ]
    }
    const [issue, pull] = [issueStream(5, 3), pullStream(5, 3)]
    t.same(counts(issue, opened), [
      [1, 0],
      [0, 0],
      [1, 0],
    ])
    t.same(counts(issue, opened, status(true)), [
      [0, 1],
      [0, 0],
      [0, 1],
    ])
    t.same(counts(issue, opened, status(true), status(false)), [
      [1, 0],
      [0, 0],
      [1, 0],
    ])
    t.same(counts(pull, pullOpened, status(true)), [
      [0, 0],
      [0, 1],
      [0, 1],
    ])
    t.same(counts(pull, pullOpened, merged), [
      [0, 0],
      [0, 1],
      [0, 1],
    ])
  },
)

t.test('the state of an issue decider follows from its events', async (t) => {
  const { given } = specify(t, issueDecider)
  const close = { closed: true, commentId: 7, openDependencies: [] }
  const closed: IssueEvent = {
    type: 'StatusChanged',
    data: { ...place, closed: true, comment: { id: 7, kind: 'close' }, milestone: one },
  }
  const decide =
    (dependencies: { repoId: number; index: number }[]) => (state: ReturnType<typeof issueDecider.evolve>) =>
      state.status === 'none' ? [] : decideStatus(state, { ...close, openDependencies: dependencies })
  given(opened).when(decide([])).thenEvents(closed)
  given(opened, closed).when(decide([])).thenEvents()
  given(opened)
    .when(decide([{ repoId: 5, index: 9 }]))
    .thenRefused('preconditionFailed')
  given(closed).when(decide([])).thenEvents()
  given(opened, closed)
    .when((state) => (state.status === 'none' ? [] : decideEditDiscussion(state, { milestone: null })))
    .thenEvents({ type: 'MilestoneChanged', data: { ...place, from: one, to: null, closed: true } })
  t.same(
    [[], [opened], [opened, closed]].map(
      (events) => events.reduce(issueDecider.evolve, issueDecider.initialState).status,
    ),
    ['none', 'open', 'closed'],
  )
})
