import t from 'tap'
import {
  colorOf,
  decideCreateLabel,
  decideDeleteLabel,
  decideEditLabel,
  labelDecider,
} from '../../../src/commands/labels/label.decider.ts'
import type { LabelEvent, LabelScope, LabelSettings } from '../../../src/events/catalog/labels.ts'
import { specify } from '../../specification.ts'

const scope: LabelScope = { kind: 'repository', repoId: 5 }
const others: LabelScope[] = [
  { kind: 'repository', repoId: 6 },
  { kind: 'organization', organizationId: 5 },
]
const bug: LabelSettings = {
  name: 'bug',
  color: 'ff0000',
  description: '',
  exclusive: false,
  archived: false,
}
const created: LabelEvent = { type: 'LabelCreated', data: { id: 3, scope, ...bug } }
const edited = (changes: Partial<LabelSettings>): LabelEvent => ({
  type: 'LabelEdited',
  data: { id: 3, scope, changes },
})
const deleted: LabelEvent = { type: 'LabelDeleted', data: { id: 3, scope, name: 'bug' } }

t.test('colors come in four forms and are kept in one', async (t) => {
  for (const text of ['#00AABB', '00aabb', '#0ab', '0AB', ' #00aabb ']) t.equal(colorOf(text), '00aabb', text)
  const bad = ['', '#', 'red', '#12', '#1234', '#12345', '#1234567', '##0ab', '#00aabg', '0ab\n;', '0x00aabb']
  for (const text of bad) t.equal(colorOf(text), undefined, JSON.stringify(text))
})

t.test('a label is made once, with its name trimmed and its color in one form', async (t) => {
  const { given } = specify(t, labelDecider)
  given()
    .when((state) => decideCreateLabel(state, 3, scope, { ...bug, name: ' bug ', color: '#F00' }))
    .thenEvents(created)
  given(created)
    .when((state) => decideCreateLabel(state, 3, scope, bug))
    .thenRefused('conflict')
  given(created, deleted)
    .when((state) => decideCreateLabel(state, 3, scope, bug))
    .thenRefused('conflict')
})

t.test('a label needs a name of one line and a color; the refusal names the field', async (t) => {
  const { given } = specify(t, labelDecider)
  const bad = [
    ['name', { name: '' }],
    ['name', { name: ' \t ' }],
    ['name', { name: 'a\u0000b' }],
    ['color', { color: 'red' }],
  ] as const
  for (const [field, part] of bad) {
    for (const decision of [
      given().when((state) => decideCreateLabel(state, 3, scope, { ...bug, ...part })),
      given(created).when((state) => decideEditLabel(state, scope, part)),
    ]) {
      decision.thenRefused('unprocessable')
    }
    const refused = decideCreateLabel({ status: 'missing' }, 3, scope, { ...bug, ...part })
    t.match(refused, { message: new RegExp(`^${field}: `) })
  }
})

t.test('an edit records only what changes', async (t) => {
  const { given } = specify(t, labelDecider)
  given(created)
    .when((state) => decideEditLabel(state, scope, { ...bug, color: '#FF0000', description: 'd' }))
    .thenEvents(edited({ description: 'd' }))
  given(created)
    .when((state) =>
      decideEditLabel(state, scope, { name: 'b', color: '0f0', exclusive: true, archived: true }),
    )
    .thenEvents(edited({ name: 'b', color: '00ff00', exclusive: true, archived: true }))
  given(created, edited({ name: 'b' }))
    .when((state) => decideEditLabel(state, scope, { name: 'b' }))
    .thenEvents()
})

t.test('a label is deleted under its last name', async (t) => {
  const { given } = specify(t, labelDecider)
  given(created, edited({ name: 'b' }))
    .when((state) => decideDeleteLabel(state, scope))
    .thenEvents({ type: 'LabelDeleted', data: { id: 3, scope, name: 'b' } })
})

t.test(
  'a missing or deleted label, or one of another owner, is not found, and nothing is deleted',
  async (t) => {
    const { given } = specify(t, labelDecider)
    const cases: [LabelEvent[], LabelScope][] = [
      [[], scope],
      [[created, deleted], scope],
      ...others.map((other): [LabelEvent[], LabelScope] => [[created], other]),
    ]
    for (const [events, from] of cases) {
      given(...events)
        .when((state) => decideEditLabel(state, from, { color: 'not even a color' }))
        .thenRefused('notFound')
      given(...events)
        .when((state) => decideDeleteLabel(state, from))
        .thenEvents()
    }
  },
)
