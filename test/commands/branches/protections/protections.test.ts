import t from 'tap'
import {
  decideAddProtection,
  decideEditProtection,
  decideOrderProtections,
  decideRemoveProtection,
  MAX_RULES,
  type ProtectionSettings,
} from '../../../../src/commands/branches/protections/protections.decider.ts'
import { repositoryDecider } from '../../../../src/commands/repositories/repository.decider.ts'
import type { RepositoryEvent } from '../../../../src/events/catalog/repositories.ts'
import { specify } from '../../../specification.ts'

const AT = '2026-01-02T03:04:05.000Z'
const LATER = '2026-01-02T03:04:06.000Z'

const created: RepositoryEvent = {
  type: 'RepositoryCreated',
  data: {
    repoId: 5,
    owner: { id: 1, login: 'alice', kind: 'user' },
    name: 'app',
    description: '',
    website: '',
    private: false,
    defaultBranch: 'main',
  },
}
const deleted: RepositoryEvent = {
  type: 'RepositoryDeleted',
  data: { repoId: 5, owner: { id: 1, login: 'alice' }, name: 'app' },
}

function settings(rule: string, more: Partial<ProtectionSettings> = {}): ProtectionSettings {
  return {
    rule,
    priority: 0,
    push: false,
    pushers: null,
    mergers: null,
    statusCheck: false,
    contexts: [],
    requireSigned: false,
    blockOutdated: false,
    blockAdminOverride: false,
    ...more,
  }
}

function set(rule: string, more: Partial<ProtectionSettings> = {}, updatedAt = AT, id = 1): RepositoryEvent {
  return {
    type: 'BranchProtectionSet',
    data: {
      repoId: 5,
      protection: { id, ...settings(rule, { priority: 1, ...more }), createdAt: AT, updatedAt },
    },
  }
}

t.test('a rule is created once, and one without a priority comes after all others', async (t) => {
  const { given } = specify(t, repositoryDecider)
  given(created)
    .when((state) => decideAddProtection(state, 1, settings('main'), AT))
    .thenEvents(set('main', { priority: 1 }))
  given(created, set('main', { priority: 7 }))
    .when((state) => decideAddProtection(state, 1, settings('v*'), AT))
    .thenEvents(set('v*', { priority: 8 }))
  given(created, set('main', { priority: 7 }))
    .when((state) => decideAddProtection(state, 1, settings('v*', { priority: 3 }), AT))
    .thenEvents(set('v*', { priority: 3 }))
  given(created, set('main'))
    .when((state) => decideAddProtection(state, 1, settings('main'), AT))
    .thenRefused('forbidden', 'branch protection "main" already exists')
})

t.test('an edit keeps the time of creation; an edit without changes appends no event', async (t) => {
  const { given } = specify(t, repositoryDecider)
  given(created, set('main'))
    .when((state) => decideEditProtection(state, 'main', (rule) => ({ ...rule, push: true }), LATER))
    .thenEvents(set('main', { push: true }, LATER))
  given(created, set('main', { pushers: [1] }))
    .when((state) => decideEditProtection(state, 'main', (rule) => ({ ...rule, pushers: [1] }), LATER))
    .thenEvents()
  given(created, set('main'))
    .when((state) => decideEditProtection(state, 'dev', (rule) => rule, LATER))
    .thenRefused('notFound')
})

t.test(
  'the order of rules: those that are named get 1, 2, …, and only what changes is an event',
  async (t) => {
    const { given } = specify(t, repositoryDecider)
    const rules = [set('main'), set('v*', { priority: 2 }, AT, 2), set('dev', { priority: 7 }, AT, 3)]
    given(created, ...rules)
      .when((state) => decideOrderProtections(state, [2, 1], LATER))
      .thenEvents(set('v*', { priority: 1 }, LATER, 2), set('main', { priority: 2 }, LATER))
    given(created, ...rules)
      .when((state) => decideOrderProtections(state, [1, 3], LATER))
      .thenEvents(set('dev', { priority: 2 }, LATER, 3))
    given(created, ...rules)
      .when((state) => decideOrderProtections(state, [], LATER))
      .thenEvents()
    given(created, ...rules)
      .when((state) => decideOrderProtections(state, [1, 4], LATER))
      .thenRefused('unprocessable', 'ids: no branch protection has the id 4')
    given(created, ...rules)
      .when((state) => decideOrderProtections(state, [1, 1], LATER))
      .thenRefused('unprocessable', 'ids: a branch protection is named twice')
    given(created, deleted)
      .when((state) => decideOrderProtections(state, [], LATER))
      .thenRefused('notFound')
  },
)

t.test('a removed rule can be created again', async (t) => {
  const { given } = specify(t, repositoryDecider)
  const removed: RepositoryEvent = { type: 'BranchProtectionRemoved', data: { repoId: 5, rule: 'main' } }
  given(created, set('main'))
    .when((state) => decideRemoveProtection(state, 'main'))
    .thenEvents(removed)
  given(created, set('main'), removed)
    .when((state) => decideRemoveProtection(state, 'main'))
    .thenRefused('notFound')
  given(created, set('main'), removed)
    .when((state) => decideAddProtection(state, 1, settings('main'), AT))
    .thenEvents(set('main'))
})

t.test('a deleted or unknown repository has no rules', async (t) => {
  const { given } = specify(t, repositoryDecider)
  for (const events of [[], [created, deleted]]) {
    given(...events)
      .when((state) => decideAddProtection(state, 1, settings('main'), AT))
      .thenRefused('notFound')
    given(...events)
      .when((state) => decideEditProtection(state, 'main', (rule) => rule, AT))
      .thenRefused('notFound')
    given(...events)
      .when((state) => decideRemoveProtection(state, 'main'))
      .thenRefused('notFound')
  }
})

t.test('rules have limits: their number, their total size, and the size of their patterns', async (t) => {
  const { given } = specify(t, repositoryDecider)
  const full = Array.from({ length: MAX_RULES }, (_, i) => set(`branch-${i}`))
  given(created, ...full)
    .when((state) => decideAddProtection(state, 1, settings('one more'), AT))
    .thenRefused('unprocessable', `a repository can have at most ${MAX_RULES} branch protections`)
  given(created, ...full)
    .when((state) => decideEditProtection(state, 'branch-7', (rule) => ({ ...rule, push: true }), LATER))
    .thenEvents(set('branch-7', { push: true }, LATER))

  const contexts = Array.from({ length: 100 }, (_, i) => `${i} ${'c'.repeat(250)}`)
  const large = Array.from({ length: 7 }, (_, i) => set(`large-${i}`, { contexts }))
  given(created, ...large)
    .when((state) => decideAddProtection(state, 1, settings('large', { contexts }), AT))
    .thenRefused('unprocessable', 'the branch protections of the repository together are too large')

  const patterns = Array.from({ length: 4 }, (_, i) => set(`${i}${'a'.repeat(240)}*`))
  given(created, ...patterns)
    .when((state) => decideAddProtection(state, 1, settings(`${'a'.repeat(50)}*`), AT))
    .thenRefused('unprocessable')
  given(created, ...patterns)
    .when((state) => decideAddProtection(state, 1, settings('a'.repeat(50)), AT))
    .thenEvents(set('a'.repeat(50), { priority: 2 }))
})
