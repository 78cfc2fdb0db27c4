/** Random commands to repositories, their labels, milestones and branches, and to the statuses of their commits. */
import fc from 'fast-check'
import {
  decideAddProtection,
  decideEditProtection,
  decideOrderProtections,
  decideRemoveProtection,
} from '../../src/commands/branches/protections/protections.decider.ts'
import {
  decideCreateLabel,
  decideDeleteLabel,
  decideEditLabel,
} from '../../src/commands/labels/label.decider.ts'
import {
  decideCreateMilestone,
  decideDeleteMilestone,
  decideEditMilestone,
} from '../../src/commands/milestones/milestone.decider.ts'
import * as ownership from '../../src/commands/repositories/ownership/ownership.decider.ts'
import { decideMovePin, decidePin, decideUnpin } from '../../src/commands/repositories/pins.decider.ts'
import * as repository from '../../src/commands/repositories/repository.decider.ts'
import { decideTopics } from '../../src/commands/repositories/topics.decider.ts'
import { decidePost } from '../../src/commands/statuses/checks.decider.ts'
import {
  decideAddTagProtection,
  decideEditTagProtection,
  decideRemoveTagProtection,
} from '../../src/commands/tags/protections.decider.ts'
import type { Visibility } from '../../src/events/catalog/organizations.ts'
import type { AccountRef } from '../../src/events/catalog/parts.ts'
import { COMMIT_STATES } from '../../src/events/catalog/statuses.ts'
import * as streams from '../../src/events/streams.ts'
import {
  ACME,
  account,
  BOB,
  by,
  command,
  deadline,
  INDEXES,
  isAdmin,
  labelId,
  milestoneId,
  mostly,
  nextId,
  oneOf,
  partial,
  permission,
  record,
  repoId,
  sha,
  text,
  visibility,
} from './values.ts'
import type { World } from './world.ts'

const onRepository = <Given>(
  name: string,
  given: fc.Arbitrary<Given>,
  decide: (
    state: repository.RepositoryState,
    given: Given,
    by: AccountRef,
  ) => ReturnType<typeof repository.decideDelete>,
) =>
  command(name, record({ id: repoId, by, given }), (world, { id, by, given }) =>
    world.repositories.change(id, by, (state) => decide(state, given, by)),
  )

export const createRepository = (world: World, id: number, isPrivate: boolean, visibility: Visibility) => {
  const fork = {
    owner: { ...BOB, kind: 'user' as const },
    parent: { repoId: 1, owner: ACME, name: 'repo1' },
  }
  const details = id === 2 ? fork : { owner: { ...ACME, kind: 'organization' as const } }
  const settings = {
    name: `repo${id}`,
    description: '',
    website: '',
    private: isPrivate,
    defaultBranch: 'main',
  }
  world.repositories.change(id, BOB, (state) =>
    repository.decideCreate(state, { repoId: id, ...details, ownerVisibility: visibility, settings }),
  )
}
const rule = oneOf(['main', 'release/*'])
const protection = {
  push: false,
  pushers: null,
  mergers: null,
  statusCheck: false,
  contexts: [],
  requireSigned: false,
  blockOutdated: false,
  blockAdminOverride: false,
}

const TRANSFERS = ['offer', 'give', 'accept', 'end', 'forget'] as const

export const repositoryCommands = [
  command('create repository', record({ id: repoId, isPrivate: fc.boolean(), visibility }), (world, given) =>
    createRepository(world, given.id, given.isPrivate, given.visibility),
  ),
  onRepository(
    'edit repository',
    partial({
      name: oneOf(['repo1', 'repo2', 'tool']),
      description: text,
      private: fc.boolean(),
      allow: partial({ merge: fc.boolean(), squash: fc.boolean() }),
      defaultMergeStyle: oneOf(['merge', 'squash', 'rebase'] as const),
      archived: fc.boolean(),
      template: fc.boolean(),
    }),
    (state, edit, by) => repository.decideEdit(state, edit, isAdmin(by)),
  ),
  onRepository(
    'pin',
    record({
      index: oneOf(INDEXES),
      isPull: fc.boolean(),
      what: oneOf(['pin', 'pin', 'unpin', 'move']),
      position: oneOf([1, 2, 9]),
    }),
    (state, { index, isPull, what, position }) => {
      const of = { index, isPull }
      if (what === 'pin') return decidePin(state, of)
      return what === 'unpin' ? decideUnpin(state, of) : decideMovePin(state, of, position)
    },
  ),
  onRepository('owner visibility', visibility, repository.decideOwnerVisibility),
  onRepository('topics', fc.array(oneOf(['go', 'ci', 'web'])), (state, topics) =>
    decideTopics(state, () => topics),
  ),
  command(
    'transfer',
    record({ id: repoId, by, to: account, what: oneOf(TRANSFERS), visibility }),
    (world, { id, by, to, what, visibility: ownerVisibility }) => {
      const owner = { ...to, kind: 'user' as const }
      const teamIds: number[] = []
      // As in the request: a deleted user gets nothing.
      if (what !== 'forget' && world.users.now(to.id).status !== 'existing') return
      const ownerIn = (state: repository.RepositoryState) => (state.status === 'active' ? state.owner.id : 0)
      const offer = (state: repository.RepositoryState) =>
        ownership.decideStartTransfer(state, ownerIn(state), { sender: by, recipient: owner, teamIds })
      // Only a pending offer is accepted or cancelled.
      if (what !== 'give') world.repositories.change(id, by, offer)
      world.repositories.change(id, by, (state) => {
        switch (what) {
          case 'offer':
            return []
          case 'give':
            return ownership.decideTransfer(state, ownerIn(state), { owner, ownerVisibility, teamIds })
          case 'accept':
            return ownership.decideAcceptTransfer(state, { owner, ownerVisibility })
          case 'end':
            return ownership.decideCancelTransfer(state, to.id)
          case 'forget':
            return ownership.decideForgetUser(state, to)
        }
      })
    },
  ),
  onRepository(
    'collaborator',
    record({ who: account, may: fc.option(permission, { freq: 2 }) }),
    (state, { who, may }) =>
      may === null
        ? repository.decideRemoveCollaborator(state, who)
        : repository.decideSetCollaborator(state, who, may),
  ),
  onRepository(
    'protection',
    record({
      ...{ id: oneOf([1, 2]), rule, priority: oneOf([0, 1, 2]) },
      ...{ at: deadline, what: oneOf(['add', 'edit', 'order', 'remove']) },
    }),
    (state, { id, rule, priority, at, what }) => {
      const settings = { ...protection, rule, priority }
      if (what === 'add') return decideAddProtection(state, id, settings, at ?? '')
      if (what === 'order') return decideOrderProtections(state, [id], at ?? '')
      if (what === 'edit') return decideEditProtection(state, rule, () => settings, at ?? '')
      return decideRemoveProtection(state, rule)
    },
  ),
  onRepository(
    'tag protection',
    record({ id: oneOf([1, 2]), pattern: rule, at: deadline, what: oneOf(['add', 'edit', 'remove']) }),
    (state, { id, pattern, at, what }) => {
      if (what === 'add')
        return decideAddTagProtection(state, { id, pattern, users: [1], teams: [101] }, at ?? '')
      if (what === 'edit') return decideEditTagProtection(state, id, { pattern }, at ?? '')
      return decideRemoveTagProtection(state, id)
    },
  ),
  command('push', record({ repoId, by, branch: rule, to: fc.option(sha) }), (world, given) => {
    const { repoId, by, branch, to } = given
    if (world.repositories.now(repoId).status !== 'active') return
    const who = { name: by.login, email: `${by.login}@example.org`, date: '2026-01-01T00:00:00Z' }
    const commits = to === null ? [] : [{ sha: to, message: 'm', author: who, committer: who }]
    const refs = [{ ref: `refs/heads/${branch}`, from: null, to }]
    world.record(streams.gitStream(repoId), by, {
      type: 'RefsUpdated',
      data: { repoId, cause: 'push', refs, commits },
    })
  }),
  command(
    'post status',
    record({ repoId, sha, by, context: oneOf(['ci', 'lint']), state: oneOf(COMMIT_STATES) }),
    (world, { by, repoId, sha, context, state }) => {
      const status = { id: nextId(world), repoId, sha, context, state, description: '', targetUrl: '' }
      world.checks.change({ repoId, sha }, by, (before) => decidePost(before, { ...status, creator: by }))
    },
  ),
]
/** Deletions are rare, because they remove all resources of a repository. */
export const deleteRepository = onRepository('delete repository', fc.constant(null), repository.decideDelete)

const scopeOf = (id: number) =>
  id === 3
    ? ({ kind: 'organization', organizationId: ACME.id } as const)
    : ({ kind: 'repository', repoId: id } as const)
const what = oneOf(['create', 'edit', 'edit', 'delete'])

export const labelCommand = command(
  'label',
  record({
    id: labelId,
    ownScope: mostly,
    by,
    name: oneOf([' bug ', 'Kind', 'Area', ' ']),
    color: oneOf(['#ABC', '00ff00', '#00FF00', 'red']),
    what,
  }),
  (world, { id, by, name, color, what, ownScope }) => {
    const scope = scopeOf(ownScope || what === 'create' ? id : (id % 3) + 1)
    const wanted = { name, color, description: '', exclusive: false, archived: false }
    world.labels.change(id, by, (state) => {
      if (what === 'create') return decideCreateLabel(state, id, scope, wanted)
      return what === 'edit'
        ? decideEditLabel(state, scope, { name, color })
        : decideDeleteLabel(state, scope)
    })
  },
)

export const milestoneCommand = command(
  'milestone',
  record({
    id: milestoneId,
    ownRepo: mostly,
    by,
    title: oneOf([' v1 ', 'V2', 'v3', ' ']),
    state: oneOf(['open', 'closed'] as const),
    dueOn: oneOf([null, '2026-05-01T00:00:00+02:00', '0001-01-01T00:00:00Z', 'soon']),
    what,
  }),
  (world, { id, ownRepo, by, what, ...given }) =>
    world.milestones.change(id, by, (state) => {
      const wanted = { ...given, description: '' }
      const repoId = ownRepo ? 1 : 2
      if (what === 'create') return decideCreateMilestone(state, id, repoId, wanted)
      return what === 'edit'
        ? decideEditMilestone(state, repoId, given)
        : decideDeleteMilestone(state, repoId)
    }),
)
