import t from 'tap'
import type { DomainEvent, Recorded } from '../../src/events/domain-events.ts'
import { accountFold } from '../../src/projections/accounts.ts'
import { branchFold, branchId } from '../../src/projections/branches.ts'
import { pullFold } from '../../src/projections/pulls.ts'
import type { Fold } from '../../src/projections/read-model.ts'
import { repositoryFold } from '../../src/projections/repositories.ts'
import { tokenFold } from '../../src/projections/tokens.ts'

const AT = '2026-01-02T03:04:05.000Z'
const sha = (digit: string) => digit.repeat(40)
const alice = { id: 1, login: 'alice' }

/** Given events, then the document with that id. */
function documentOf<D extends object>(
  fold: Fold<D>,
  id: string,
  events: readonly DomainEvent[],
): D | undefined {
  return events.reduce<D | undefined>((document, event, i) => {
    const metadata = { actor: alice, at: AT, correlationId: 'c', causationId: 'c', schema: 1 }
    const recorded: Recorded<DomainEvent> = {
      ...event,
      id: `${i}`,
      stream: 's',
      revision: i,
      position: i + 1,
      metadata,
    }
    return fold.touches(recorded).includes(id) ? fold.evolve(document, recorded, id) : document
  }, undefined)
}

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
      { ref: 'refs/heads/feature/x', from: null, to: sha('a'), commit },
      { ref: 'refs/tags/v1', from: null, to: sha('a'), commit: null },
    ],
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
  },
}
const merged: DomainEvent = {
  type: 'PullRequestMerged',
  data: { repoId: 5, index: 3, commit: sha('c'), head: sha('a'), mergedBy: alice },
}

t.test('a repository document follows its settings, collaborators and counters', async (t) => {
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

t.test('a branch document is the commit that the branch came to; tags are no branches', async (t) => {
  const id = branchId(5, 'feature/x')
  t.match(documentOf(branchFold, id, [pushed]), { repoId: 5, name: 'feature/x', commit: { sha: sha('a') } })
  const gone: DomainEvent = {
    type: 'RefsUpdated',
    data: {
      repoId: 5,
      cause: 'push',
      refs: [{ ref: 'refs/heads/feature/x', from: sha('a'), to: null, commit: null }],
    },
  }
  t.equal(documentOf(branchFold, id, [pushed, gone]), undefined)
  t.equal(documentOf(branchFold, branchId(5, 'v1'), [pushed]), undefined)
})

t.test('a pull request document knows its merge under way and its merge', async (t) => {
  const started: DomainEvent = {
    type: 'MergeStarted',
    data: {
      repoId: 5,
      index: 3,
      style: 'merge',
      baseBranch: 'main',
      from: sha('b'),
      head: sha('a'),
      commit: sha('c'),
      message: 'm',
      by: alice,
    },
  }
  const failed: DomainEvent = {
    type: 'MergeFailed',
    data: { repoId: 5, index: 3, commit: sha('c'), reason: 'r' },
  }
  t.match(documentOf(pullFold, '5.3', [opened]), {
    state: 'open',
    merging: false,
    merged: null,
    headKey: '5:topic',
  })
  t.match(documentOf(pullFold, '5.3', [opened, started]), { merging: true })
  t.match(documentOf(pullFold, '5.3', [opened, started, failed]), { merging: false, state: 'open' })
  t.match(documentOf(pullFold, '5.3', [opened, started, merged]), {
    state: 'closed',
    merging: false,
    mergeable: false,
    closedAt: AT,
    merged: { commit: sha('c'), at: AT, by: alice },
  })
})

t.test('a membership is on both accounts, and leaves both', async (t) => {
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
    { type: 'MemberSet', data: { organization: { id: 9, login: 'Team' }, user: alice, permission: 'write' } },
  ]
  t.match(documentOf(accountFold, '1', story), {
    kind: 'user',
    loginKey: 'alice',
    memberships: { 9: 'write' },
  })
  t.match(documentOf(accountFold, '9', story), {
    kind: 'organization',
    members: [{ id: 1, permission: 'write' }],
  })
  story.push({ type: 'MemberRemoved', data: { organization: { id: 9, login: 'Team' }, user: alice } })
  t.same(documentOf(accountFold, '1', story)?.memberships, {})
  t.same(documentOf(accountFold, '9', story)?.members, [])
})

t.test('a token document is there from its creation to its deletion', async (t) => {
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
    createdAt: AT,
  })
  story.push({ type: 'TokenDeleted', data: { user: alice, tokenId: 4, name: 'ci' } })
  t.equal(documentOf(tokenFold, '4', story), undefined)
})
