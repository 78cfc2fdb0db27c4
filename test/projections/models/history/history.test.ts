import t from 'tap'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import {
  historyFold,
  NO_REPOSITORY,
  repositoryOf,
} from '../../../../src/projections/models/history/history.fold.ts'
import { documentOf } from '../../document-of.ts'

const label = { name: 'bug', color: 'ff0000', description: '', exclusive: false, archived: false }

t.test('repositoryOf finds the repository of an event, if it has one', async (t) => {
  const title: DomainEvent = {
    type: 'TitleChanged',
    data: { repoId: 5, index: 1, oldTitle: 'a', title: 'b' },
  }
  t.equal(repositoryOf(title), 5)
  const own = { kind: 'repository', repoId: 6 } as const
  const organization = { kind: 'organization', organizationId: 6 } as const
  t.equal(repositoryOf({ type: 'LabelCreated', data: { id: 1, scope: own, ...label } }), 6)
  t.equal(
    repositoryOf({ type: 'LabelCreated', data: { id: 1, scope: organization, ...label } }),
    NO_REPOSITORY,
  )
  const token = { user: { id: 1, login: 'alice' }, tokenId: 1, name: 'x' }
  t.equal(repositoryOf({ type: 'TokenDeleted', data: token }), NO_REPOSITORY)
})

t.test('each event of the history has one document; internal events have none', async (t) => {
  const story: DomainEvent[] = [
    { type: 'NumberTaken', data: { sequence: 'numbers-5' } },
    { type: 'TitleChanged', data: { repoId: 5, index: 1, oldTitle: 'a', title: 'b' } },
  ]
  const document = documentOf(historyFold, '2', story)
  t.match(document, { repoId: 5, type: 'TitleChanged', position: 2 })
  t.strictSame(Object.keys(document ?? {}).sort(), [
    'actor',
    'adminsOnly',
    'at',
    'issueWords',
    'position',
    'repoId',
    'type',
  ])
  t.equal(document?.actor, document?.actor.toLowerCase())
  t.equal(documentOf(historyFold, '1', story), undefined)
})

t.test('events about access and branch protection are only for admins of the repository', async (t) => {
  const rule = { repoId: 5, rule: 'main' }
  const story: DomainEvent[] = [
    { type: 'TitleChanged', data: { repoId: 5, index: 1, oldTitle: 'a', title: 'b' } },
    { type: 'BranchProtectionRemoved', data: rule },
  ]
  t.equal(documentOf(historyFold, '1', story)?.adminsOnly, false)
  t.equal(documentOf(historyFold, '2', story)?.adminsOnly, true)
})
