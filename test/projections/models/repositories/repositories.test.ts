import t from 'tap'
import { accessTo } from '../../../../src/access/access.ts'
import type { DomainEvent, Recorded } from '../../../../src/events/domain-events.ts'
import {
  ANYONE,
  type RepositoryDocument,
  repositoryFold,
} from '../../../../src/projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../../../src/projections/models/users/accounts.fold.ts'

const [alice, bob, carol] = [
  { id: 1, login: 'alice' },
  { id: 2, login: 'bob' },
  { id: 3, login: 'carol' },
]
const AT = '2024-05-06T07:08:09.000Z'

function documentOf(id: string, events: readonly DomainEvent[]): RepositoryDocument | undefined {
  let document: RepositoryDocument | undefined
  for (const [position, event] of events.entries()) {
    const metadata = { actor: null, at: AT, correlationId: 'c', causationId: 'c', schema: 1 }
    const recorded: Recorded<DomainEvent> = {
      ...event,
      id: 'x',
      stream: 's',
      revision: 0,
      position,
      metadata,
    }
    if (repositoryFold.touches(recorded).includes(id))
      document = repositoryFold.evolve(document, recorded, id)
  }
  return document
}

const created = (repoId: number, parentId?: number): DomainEvent => ({
  type: 'RepositoryCreated',
  data: {
    repoId,
    owner: { ...alice, kind: 'user' },
    name: 'app',
    description: '',
    website: '',
    private: false,
    defaultBranch: 'main',
    ...(parentId === undefined ? {} : { parent: { repoId: parentId, owner: bob, name: 'app' } }),
  },
})
const deleted = (repoId: number, parentId?: number): DomainEvent => ({
  type: 'RepositoryDeleted',
  data: { repoId, owner: alice, name: 'app', ...(parentId === undefined ? {} : { parentId }) },
})

t.test('a repository counts its forks', async (t) => {
  const story = [created(1), created(2, 1), created(3, 1), created(4, 2)]
  t.match(documentOf('1', story), { forks: 2, parentId: null, empty: true })
  t.match(documentOf('2', story), { forks: 1, parentId: 1, parent: { repoId: 1, owner: bob }, empty: false })
  story.push(deleted(3, 1))
  t.match(documentOf('1', story), { forks: 1 })
  t.equal(documentOf('3', story), undefined)
})

t.test('a fork and its base are deleted independently', async (t) => {
  const story = [created(1), created(2, 1), deleted(1)]
  t.match(documentOf('2', story), { parentId: 1, forks: 0 })
  t.equal(documentOf('1', story), undefined)
  t.equal(
    documentOf('1', [...story, created(3, 1), deleted(2, 1)]),
    undefined,
    'a deleted base is not created again',
  )
})

t.test('the readers of a repository are exactly the accounts that accessTo lets read it', async (t) => {
  const hidden: DomainEvent = { type: 'RepositoryEdited', data: { repoId: 1, changes: { private: true } } }
  const shown: DomainEvent = { type: 'RepositoryEdited', data: { repoId: 1, changes: { private: false } } }
  const given: DomainEvent = { type: 'CollaboratorSet', data: { repoId: 1, user: bob, permission: 'read' } }
  const taken: DomainEvent = { type: 'CollaboratorRemoved', data: { repoId: 1, user: bob } }
  const stories = [
    [],
    [hidden],
    [hidden, given],
    [hidden, given, taken],
    [given, hidden],
    [hidden, given, shown],
  ]
  const account = (ref: { id: number; login: string }, organization?: number): AccountDocument => ({
    ...ref,
    kind: 'user',
    loginKey: ref.login,
    nameParts: [],
    teams: {},
    teamIds: [],
    organizationIds: [],
    publicOrganizationIds: [],
    grantIds: [],
    writeGrantIds: [],
    ownedIds: [],
    stars: 0,
    fullName: '',
    email: '',
    emails: [],
    emailKeys: [],
    description: '',
    location: '',
    website: '',
    visibility: 'public',
    siteAdmin: false,
    showEmail: false,
    active: true,
    prohibitLogin: false,
    mustChangePassword: false,
    passwordId: null,
    deleted: false,
    createdAt: AT,
    memberships: organization === undefined ? {} : { [`${organization}`]: 'read' },
  })
  for (const story of stories) {
    const repository = documentOf('1', [created(1), ...story])
    if (repository === undefined) throw new Error('no document')
    t.equal(repository.readers.includes(ANYONE), accessTo(repository, null) !== 'none')
    // The owner is an organization here: its members have its id in their memberships.
    for (const requester of [account(alice), account(bob), account(carol), account(carol, alice.id)]) {
      const ids = [ANYONE, requester.id, ...Object.keys(requester.memberships).map(Number)]
      const listed = repository.readers.some((reader) => ids.includes(reader))
      t.equal(
        listed,
        accessTo(repository, requester) !== 'none',
        `${requester.login} ${JSON.stringify(story)}`,
      )
    }
  }
})
