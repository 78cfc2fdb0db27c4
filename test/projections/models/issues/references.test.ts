import t from 'tap'
import type { ReferencesData } from '../../../../src/events/catalog/references.ts'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import { referenceFold } from '../../../../src/projections/models/issues/references.fold.ts'
import { documentOf } from '../../document-of.ts'

const source = { index: 3, isPull: true, commentId: null }
const recorded = (...references: ReferencesData['references']): DomainEvent => ({
  type: 'ReferencesRecorded',
  data: { repoId: 5, source, revision: 0, references },
})
const naming = (index: number, action: 'none' | 'closes' = 'none', inTitle = false) => ({
  issue: { repoId: 5, index },
  action,
  inTitle,
})

t.test('the references of a text are those of its last event, since the first event with them', async (t) => {
  const first = documentOf(referenceFold, '5.3.0', [recorded(naming(1), naming(2))])
  t.match(first, { repoId: 5, source, targetKeys: ['5.1', '5.2'] })
  const next = documentOf(referenceFold, '5.3.0', [
    recorded(naming(1), naming(2)),
    recorded(naming(4), naming(2, 'closes')),
  ])
  t.same(next?.targetKeys, ['5.4', '5.2'])
  t.same(next?.targets[1], { ...first?.targets[1], action: 'closes' })
  t.not(next?.targets[0]?.position, first?.targets[0]?.position)
})

t.test('a text without references has no document', async (t) => {
  t.equal(documentOf(referenceFold, '5.3.0', [recorded(naming(1)), recorded()]), undefined)
})

t.test('a target in both title and body is one reference, with the keyword of either', async (t) => {
  for (const [body, title] of [
    ['closes', 'none'],
    ['none', 'closes'],
  ] as const) {
    const named = documentOf(referenceFold, '5.3.0', [
      recorded(naming(1, body), naming(2), naming(1, title, true)),
    ])
    t.match(named?.targets, [
      { key: '5.1', action: 'closes', row: 0 },
      { key: '5.2', action: 'none', row: 1 },
    ])
    t.same(named?.targetKeys, ['5.1', '5.2'])
  }
})
