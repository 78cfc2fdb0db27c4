import t from 'tap'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import { linkedEventFold } from '../../../../src/projections/models/history/linked-events.fold.ts'
import { documentOf } from '../../document-of.ts'

const linked = (repoId: number, event: DomainEvent) => documentOf(linkedEventFold, `${repoId}.1`, [event])

t.test(
  'references are linked to the repository of the text and to those of the issues that it names',
  (t) => {
    const issue = { repoId: 2, index: 3 }
    const event: DomainEvent = {
      type: 'ReferencesRecorded',
      data: {
        repoId: 1,
        source: { index: 1, isPull: false, commentId: null },
        revision: 0,
        references: [{ issue, action: 'none', inTitle: false }],
      },
    }
    t.same(linked(1, event), { repoId: 1, position: 1 })
    t.same(linked(2, event), { repoId: 2, position: 1 })
    t.equal(linked(3, event), undefined)
    t.end()
  },
)

t.test('the deletion of a fork is linked to its parent only', (t) => {
  const event: DomainEvent = {
    type: 'RepositoryDeleted',
    data: { repoId: 5, owner: { id: 1, login: 'alice' }, name: 'fork', parentId: 2 },
  }
  t.same(linked(2, event), { repoId: 2, position: 1 })
  t.equal(linked(5, event), undefined)
  t.end()
})
