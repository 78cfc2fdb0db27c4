import t from 'tap'
import {
  decideCreate,
  decideDelete,
  decideEdit,
  decideOwnerVisibility,
  decideRemoveCollaborator,
  decideSetCollaborator,
  MAX_COLLABORATORS,
  repositoryDecider,
} from '../../../src/commands/repositories/repository.decider.ts'
import { repositoryNameProblem } from '../../../src/commands/repositories/repository-name.ts'
import type { RepositoryEvent } from '../../../src/events/catalog/repositories.ts'
import { specify } from '../../specification.ts'

const owner = { id: 1, login: 'alice', kind: 'user' } as const
const settings = { name: 'app', description: '', website: '', private: false, defaultBranch: 'main' }
const created: Extract<RepositoryEvent, { type: 'RepositoryCreated' }> = {
  type: 'RepositoryCreated',
  data: { repoId: 5, owner, ...settings },
}
const deleted: RepositoryEvent = {
  type: 'RepositoryDeleted',
  data: { repoId: 5, owner: { id: 1, login: 'alice' }, name: 'app' },
}
const bob = { id: 2, login: 'bob' }
const bobWrites: RepositoryEvent = {
  type: 'CollaboratorSet',
  data: { repoId: 5, user: bob, permission: 'write' },
}

t.test('a repository is created once', async (t) => {
  const { given } = specify(t, repositoryDecider)
  given()
    .when((state) => decideCreate(state, { repoId: 5, owner, ownerVisibility: 'public', settings }))
    .thenEvents(created)
  given(created)
    .when((state) => decideCreate(state, { repoId: 5, owner, ownerVisibility: 'public', settings }))
    .thenRefused('conflict')
})

t.test('an edit records only what changes', async (t) => {
  const { given } = specify(t, repositoryDecider)
  given(created)
    .when((state) => decideEdit(state, { name: 'app', private: true }, true))
    .thenEvents({ type: 'RepositoryEdited', data: { repoId: 5, changes: { private: true } } })
  given(created)
    .when((state) => decideEdit(state, { description: '' }, true))
    .thenEvents()
  given(created, deleted)
    .when((state) => decideEdit(state, { private: true }, true))
    .thenRefused('notFound')
})

t.test('each merge style is allowed on its own, and the default style is always allowed', async (t) => {
  const { given } = specify(t, repositoryDecider)
  const changed = (changes: object): RepositoryEvent => ({
    type: 'RepositoryEdited',
    data: { repoId: 5, changes },
  })
  const squashOnly = changed({ mergeStyles: ['squash'], defaultMergeStyle: 'squash' })
  given(created)
    .when((state) => decideEdit(state, { allow: { rebase: false, 'manually-merged': true } }, true))
    .thenEvents(
      changed({ mergeStyles: ['merge', 'rebase-merge', 'squash', 'fast-forward-only', 'manually-merged'] }),
    )
  given(created, squashOnly)
    .when((state) => decideEdit(state, { allow: { merge: true } }, true))
    .thenEvents(changed({ mergeStyles: ['merge', 'squash'] }))
  given(created, squashOnly)
    .when((state) => decideEdit(state, { allow: { squash: true, merge: false } }, true))
    .thenEvents()
  given(created, squashOnly)
    .when((state) => decideEdit(state, { allow: { squash: false, rebase: true } }, true))
    .thenEvents(changed({ mergeStyles: ['rebase'], defaultMergeStyle: 'rebase' }))
  given(created, squashOnly)
    .when((state) => decideEdit(state, { allow: { squash: false } }, true))
    .thenEvents(changed({ mergeStyles: [] }))
  given(created, squashOnly)
    .when((state) => decideEdit(state, { defaultMergeStyle: 'merge' }, true))
    .thenRefused('unprocessable')
})

t.test('a repository records the visibility of its owner, and its changes', async (t) => {
  const { given } = specify(t, repositoryDecider)
  const hidden: RepositoryEvent = { ...created, data: { ...created.data, ownerVisibility: 'private' } }
  given()
    .when((state) => decideCreate(state, { repoId: 5, owner, ownerVisibility: 'private', settings }))
    .thenEvents(hidden)
  given(hidden)
    .when((state) => decideOwnerVisibility(state, 'private'))
    .thenEvents()
  given(created)
    .when((state) => decideOwnerVisibility(state, 'limited'))
    .thenEvents({ type: 'OwnerVisibilityChanged', data: { repoId: 5, visibility: 'limited' } })
  given(created, deleted)
    .when((state) => decideOwnerVisibility(state, 'limited'))
    .thenEvents()
})

t.test('a private fork becomes public only by a permitted user', async (t) => {
  const { given } = specify(t, repositoryDecider)
  const parent = { repoId: 4, owner: bob, name: 'app' }
  const forked: RepositoryEvent = {
    type: 'RepositoryCreated',
    data: { repoId: 5, owner, parent, ...settings, private: true },
  }
  given(forked)
    .when((state) => decideEdit(state, { private: false }, false))
    .thenRefused('forbidden')
  given(forked)
    .when((state) => decideEdit(state, { private: false }, true))
    .thenEvents({ type: 'RepositoryEdited', data: { repoId: 5, changes: { private: false } } })
  given(created)
    .when((state) => decideEdit(state, { private: false }, false))
    .thenEvents()
})

t.test('a fork knows its parent, also when it is deleted', async (t) => {
  const { given } = specify(t, repositoryDecider)
  const parent = { repoId: 4, owner: bob, name: 'app' }
  const forked: RepositoryEvent = {
    type: 'RepositoryCreated',
    data: { repoId: 5, owner, parent, ...settings },
  }
  given()
    .when((state) => decideCreate(state, { repoId: 5, owner, parent, ownerVisibility: 'public', settings }))
    .thenEvents(forked)
  given(forked)
    .when(decideDelete)
    .thenEvents({ type: 'RepositoryDeleted', data: { ...deleted.data, parentId: 4 } })
})

t.test('a deleted repository stays deleted', async (t) => {
  const { given } = specify(t, repositoryDecider)
  given(created).when(decideDelete).thenEvents(deleted)
  given(created, deleted).when(decideDelete).thenRefused('notFound')
})

t.test('a repository has at most a thousand collaborators, whose permissions still change', async (t) => {
  const { given } = specify(t, repositoryDecider)
  const made = Array.from({ length: MAX_COLLABORATORS }, (_, i): RepositoryEvent => {
    const user = { id: 100 + i, login: `user${i}` }
    return { type: 'CollaboratorSet', data: { repoId: 5, user, permission: 'read' } }
  })
  const last = { id: 5000, login: 'last' }
  given(created, ...made)
    .when((state) => decideSetCollaborator(state, last, 'read'))
    .thenRefused('unprocessable', 'a repository has at most 1000 collaborators; use teams for more people')
  const first = { id: 100, login: 'user0' }
  given(created, ...made)
    .when((state) => decideSetCollaborator(state, first, 'write'))
    .thenEvents({ type: 'CollaboratorSet', data: { repoId: 5, user: first, permission: 'write' } })
  given(created, ...made)
    .when((state) => decideRemoveCollaborator(state, first))
    .thenEvents({ type: 'CollaboratorRemoved', data: { repoId: 5, user: first } })
})

t.test('a collaborator is set, changed and removed; the owner cannot be one', async (t) => {
  const { given } = specify(t, repositoryDecider)
  given(created)
    .when((state) => decideSetCollaborator(state, bob, 'write'))
    .thenEvents(bobWrites)
  given(created, bobWrites)
    .when((state) => decideSetCollaborator(state, bob, 'write'))
    .thenEvents()
  given(created, bobWrites)
    .when((state) => decideRemoveCollaborator(state, bob))
    .thenEvents({ type: 'CollaboratorRemoved', data: { repoId: 5, user: bob } })
  given(created)
    .when((state) => decideRemoveCollaborator(state, bob))
    .thenEvents()
  given(created)
    .when((state) => decideSetCollaborator(state, { id: 1, login: 'alice' }, 'read'))
    .thenRefused('unprocessable')
})

t.test('repository names are the ones that Gitea takes', async (t) => {
  for (const name of ['app', 'a.b', 'A-1_2', '.github', 'x'.repeat(100)]) {
    t.equal(repositoryNameProblem(name), undefined, name)
  }
  for (const name of [
    '',
    '.',
    '..',
    '-',
    '--upload-pack=x',
    'a/b',
    '../x',
    'a b',
    'a\n',
    'é',
    'x.git',
    'x.WIKI',
    'x'.repeat(101),
  ]) {
    t.type(repositoryNameProblem(name), 'string', JSON.stringify(name))
  }
})
