import t from 'tap'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import { branchFold, branchId } from '../../src/projections/models/branches/branches.fold.ts'
import { otherRefFold, otherRefId } from '../../src/projections/models/branches/other-refs.fold.ts'
import { pullFold } from '../../src/projections/models/pull-requests/pulls.fold.ts'
import { repositoryFold } from '../../src/projections/models/repositories/repositories.fold.ts'
import { accountFold } from '../../src/projections/models/users/accounts.fold.ts'
import { tokenFold } from '../../src/projections/models/users/tokens.fold.ts'
import { at, documentOf } from './document-of.ts'

const AT = '2026-01-02T03:04:05.000Z'
const sha = (digit: string) => digit.repeat(40)
const alice = { id: 1, login: 'alice' }

const repositoryCreated: DomainEvent = {
  type: 'RepositoryCreated',
  data: {
    repoId: 5,
    owner: { id: 1, login: 'Alice', kind: 'user' },
    name: 'App',
    description: 'd',
    website: '',
    private: true,
    defaultBranch: 'main',
  },
}
const commit = {
  sha: sha('a'),
  message: 'm',
  author: { name: 'A', email: 'a@x', date: AT },
  committer: { name: 'A', email: 'a@x', date: AT },
}
const pushed: DomainEvent = {
  type: 'RefsUpdated',
  data: {
    repoId: 5,
    cause: 'push',
    refs: [
      { ref: 'refs/heads/feature/x', from: null, to: sha('a') },
      { ref: 'refs/tags/v1', from: null, to: sha('a') },
    ],
    commits: [commit],
  },
}
const opened: DomainEvent = {
  type: 'PullRequestOpened',
  data: {
    repoId: 5,
    index: 3,
    id: 30,
    poster: alice,
    title: 'T',
    body: 'B',
    head: { repoId: 5, branch: 'topic', sha: sha('a') },
    base: { repoId: 5, branch: 'main', sha: sha('b') },
    mergeBase: sha('b'),
    diff: { additions: 1, deletions: 0, changedFiles: 1 },
    mergeable: true,
    labels: [],
    milestone: null,
    assignees: [],
    deadline: null,
  },
}
const merge = { style: 'merge', mergeBase: sha('b'), deleteBranch: false } as const
const merged: DomainEvent = {
  type: 'PullRequestMerged',
  data: {
    repoId: 5,
    index: 3,
    commit: sha('c'),
    head: sha('a'),
    mergedBy: alice,
    milestone: null,
    ...merge,
  },
}

t.test('a repository document has the current settings, collaborators and counters', async (t) => {
  t.match(documentOf(repositoryFold, '5', [repositoryCreated]), {
    key: 'alice/app',
    empty: true,
    private: true,
    openPulls: 0,
    collaborators: {},
  })
  const renamed: DomainEvent = {
    type: 'RepositoryEdited',
    data: { repoId: 5, changes: { name: 'New', private: false } },
  }
  t.match(documentOf(repositoryFold, '5', [repositoryCreated, renamed]), {
    key: 'alice/new',
    name: 'New',
    private: false,
    description: 'd',
  })
  const story = [repositoryCreated, pushed, opened, { ...opened, data: { ...opened.data, index: 4 } }, merged]
  t.match(documentOf(repositoryFold, '5', story), { empty: false, openPulls: 1, closedPulls: 1 })
  const given: DomainEvent = { type: 'CollaboratorSet', data: { repoId: 5, user: alice, permission: 'read' } }
  const taken: DomainEvent = { type: 'CollaboratorRemoved', data: { repoId: 5, user: alice } }
  t.same(documentOf(repositoryFold, '5', [repositoryCreated, given])?.collaborators, {
    1: { login: 'alice', permission: 'read' },
  })
  t.same(documentOf(repositoryFold, '5', [repositoryCreated, given, taken])?.collaborators, {})
  const deleted: DomainEvent = {
    type: 'RepositoryDeleted',
    data: { repoId: 5, owner: alice, name: 'App' },
  }
  t.equal(documentOf(repositoryFold, '5', [repositoryCreated, deleted]), undefined)
})

t.test('a branch document has the current commit of its branch; tags are not branches', async (t) => {
  const id = branchId(5, 'feature/x')
  t.match(documentOf(branchFold, id, [pushed]), { repoId: 5, name: 'feature/x', commit: { sha: sha('a') } })
  const gone: DomainEvent = {
    type: 'RefsUpdated',
    data: {
      repoId: 5,
      cause: 'push',
      refs: [{ ref: 'refs/heads/feature/x', from: sha('a'), to: null }],
      commits: [],
    },
  }
  t.equal(documentOf(branchFold, id, [pushed, gone]), undefined)
  t.equal(documentOf(branchFold, branchId(5, 'v1'), [pushed]), undefined)
})

t.test('a past moment has the refs that are neither branches nor tags from documents', async (t) => {
  const ref = 'refs/notes/commits'
  const moved = (from: string | null, to: string | null): DomainEvent => ({
    type: 'RefsUpdated',
    data: { repoId: 5, cause: 'push', refs: [{ ref, from, to }], commits: [] },
  })
  const id = otherRefId(5, ref)
  const events = [moved(null, sha('a')), moved(sha('a'), sha('b'))]
  t.same(documentOf(otherRefFold, id, events), { repoId: 5, ref, sha: sha('b') })
  t.equal(documentOf(otherRefFold, id, [...events, moved(sha('b'), null)]), undefined)
  t.equal(documentOf(otherRefFold, otherRefId(5, 'refs/heads/feature/x'), [pushed]), undefined)
})

t.test('a pull request document shows that a merge is running, and its result', async (t) => {
  const started: DomainEvent = {
    type: 'MergeStarted',
    data: {
      repoId: 5,
      index: 3,
      baseBranch: 'main',
      from: sha('b'),
      head: sha('a'),
      commit: sha('c'),
      message: 'm',
      by: alice,
      ...merge,
    },
  }
  const failed: DomainEvent = {
    type: 'MergeFailed',
    data: { repoId: 5, index: 3, commit: sha('c'), reason: 'r' },
  }
  t.match(documentOf(pullFold, '5.3', [opened], 'pull-5.3'), {
    state: 'open',
    merging: false,
    merged: null,
    headKey: '5:topic',
  })
  t.match(documentOf(pullFold, '5.3', [opened, started], 'pull-5.3'), { merging: true })
  t.match(documentOf(pullFold, '5.3', [opened, started, failed], 'pull-5.3'), {
    merging: false,
    state: 'open',
  })
  t.match(documentOf(pullFold, '5.3', [opened, started, merged], 'pull-5.3'), {
    state: 'closed',
    merging: false,
    mergeable: false,
    closedAt: at(2),
    merged: { commit: sha('c'), at: at(2), by: alice },
  })
})

t.test('a pull request document has the current discussion, head, base and schedule', async (t) => {
  const id = { repoId: 5, index: 3 }
  const stream = 'pull-5.3'
  const after = (...events: DomainEvent[]) => documentOf(pullFold, '5.3', [opened, ...events], stream)
  const bug = { id: 8, name: 'bug' }
  t.match(after({ type: 'LabelsChanged', data: { ...id, labels: [bug], added: [bug], removed: [] } }), {
    labels: [bug],
    labelIds: [8],
    updatedAt: at(1),
  })
  const to = { id: 4, title: 'M' }
  t.match(after({ type: 'MilestoneChanged', data: { ...id, from: null, to, closed: false } }), {
    milestoneId: 4,
  })
  const dependency = { repoId: 5, index: 9 }
  t.match(after({ type: 'DependencyAdded', data: { ...id, dependency } }), { dependencyKeys: ['5.9'] })
  const status = (closed: boolean): DomainEvent => ({
    type: 'StatusChanged',
    data: { ...id, closed, comment: { id: 1, kind: closed ? 'close' : 'reopen' }, milestone: null },
  })
  t.match(after(status(true)), { state: 'closed', status: 'closed', closedAt: at(1), merged: null })
  t.match(after(status(true), status(false)), { state: 'open', status: 'open', closedAt: null })
  const base = { repoId: 5, branch: 'dev', sha: sha('d') }
  const from = { repoId: 5, branch: 'main', sha: sha('b') }
  const diff = { additions: 5, deletions: 5, changedFiles: 5 }
  t.match(after({ type: 'TargetBranchChanged', data: { ...id, from, base, mergeBase: sha('e'), diff } }), {
    base,
    baseKey: '5:dev',
    mergeBase: sha('e'),
    diff,
  })
  const moved = { from: sha('a'), to: sha('f'), mergeBase: sha('b'), diff }
  t.match(after({ type: 'PullRequestHeadMoved', data: { ...id, ...moved } }), { headSha: sha('f') })
  const schedule = {
    style: 'squash',
    title: '',
    message: '',
    deleteBranch: true,
    by: alice,
    expectedHead: null,
    waitsFor: [],
  } as const
  const scheduled: DomainEvent = { type: 'MergeScheduled', data: { ...id, ...schedule } }
  t.match(after(scheduled), { scheduled: true, schedule })
  t.match(after(scheduled, { type: 'MergeScheduleCanceled', data: { ...id, by: alice } }), {
    scheduled: false,
    schedule: null,
  })
  t.match(after(scheduled, merged), { scheduled: false, status: 'merged', head: { sha: sha('a') } })
})

t.test('events of an issue do not touch a pull request with the same number', async (t) => {
  const title: DomainEvent = {
    type: 'TitleChanged',
    data: { repoId: 5, index: 3, oldTitle: 'T', title: 'U' },
  }
  const pull = documentOf(pullFold, '5.3', [opened], 'pull-5.3')
  t.match(documentOf(pullFold, '5.3', [title], 'issue-5.3', pull), { title: 'T' })
  t.match(documentOf(pullFold, '5.3', [opened, title], 'pull-5.3'), { title: 'U' })
})

t.test('the document of an organization does not grow with its members', async (t) => {
  const story: DomainEvent[] = [
    { type: 'UserCreated', data: { id: 1, login: 'Alice', email: 'a@x', fullName: '', siteAdmin: false } },
    {
      type: 'OrganizationCreated',
      data: {
        id: 9,
        login: 'Team',
        fullName: '',
        description: '',
        email: '',
        location: '',
        website: '',
        visibility: 'public',
      },
    },
  ]
  const alone = documentOf(accountFold, '9', story)
  const membership = { organization: { id: 9, login: 'Team' }, user: alice }
  story.push({ type: 'MemberSet', data: { ...membership, permission: 'write' } })
  t.match(documentOf(accountFold, '1', story), {
    kind: 'user',
    loginKey: 'alice',
    memberships: { 9: 'write' },
    ...{ grantIds: [1, 9], writeGrantIds: [1, 9], ownedIds: [] },
  })
  t.same(documentOf(accountFold, '9', story), alone)
  story.push({ type: 'MemberSet', data: { ...membership, permission: 'admin' } })
  t.match(documentOf(accountFold, '1', story), { memberships: { 9: 'admin' }, ownedIds: [9] })
  story.push({ type: 'MemberRemoved', data: membership })
  t.match(documentOf(accountFold, '1', story), { memberships: {}, grantIds: [1], ownedIds: [] })
  t.same(documentOf(accountFold, '9', story), alone)
})

t.test('a token document exists from its creation to its deletion', async (t) => {
  const story: DomainEvent[] = [
    {
      type: 'TokenCreated',
      data: { user: alice, tokenId: 4, name: 'ci', lastEight: '12345678', scopes: ['all'] },
    },
  ]
  t.same(documentOf(tokenFold, '4', story), {
    id: 4,
    userId: 1,
    name: 'ci',
    lastEight: '12345678',
    scopes: ['all'],
    createdAt: at(0),
  })
  story.push({ type: 'TokenDeleted', data: { user: alice, tokenId: 4, name: 'ci' } })
  t.equal(documentOf(tokenFold, '4', story), undefined)
})
