import t from 'tap'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import { labelFold } from '../../../../src/projections/models/labels/labels.fold.ts'
import { at, documentOf } from '../../document-of.ts'

const scope = { kind: 'repository', repoId: 5 } as const
const settings = { name: 'Kind/Bug', color: 'ff0000', description: 'd', exclusive: true, archived: false }

t.test('a label document exists from its creation to its deletion', async (t) => {
  const story: DomainEvent[] = [{ type: 'LabelCreated', data: { id: 3, scope, ...settings } }]
  const created = {
    id: 3,
    scope,
    scopeKey: 'repository-5',
    ...settings,
    nameKey: 'kind/bug',
    createdAt: at(0),
    updatedAt: at(0),
  }
  t.same(documentOf(labelFold, '3', story), created)
  story.push({ type: 'LabelEdited', data: { id: 3, scope, changes: { name: 'Feature', archived: true } } })
  t.same(documentOf(labelFold, '3', story), {
    ...created,
    name: 'Feature',
    nameKey: 'feature',
    archived: true,
    updatedAt: at(1),
  })
  story.push({ type: 'LabelDeleted', data: { id: 3, scope, name: 'Feature' } })
  t.equal(documentOf(labelFold, '3', story), undefined)
})

t.test('labels of an organization and of a repository with the same id are different', async (t) => {
  const organization = { kind: 'organization', organizationId: 5 } as const
  const story: DomainEvent[] = [{ type: 'LabelCreated', data: { id: 4, scope: organization, ...settings } }]
  t.match(documentOf(labelFold, '4', story), { scopeKey: 'organization-5' })
})
