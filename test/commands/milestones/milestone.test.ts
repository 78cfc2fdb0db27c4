import t from 'tap'
import {
  decideCreateMilestone,
  decideDeleteMilestone,
  decideEditMilestone,
  milestoneDecider,
} from '../../../src/commands/milestones/milestone.decider.ts'
import type { MilestoneEvent, MilestoneSettings } from '../../../src/events/catalog/milestones.ts'
import { specify } from '../../specification.ts'

const settings: MilestoneSettings = { title: 'v1', description: 'd', state: 'open', dueOn: null }
const created: MilestoneEvent = { type: 'MilestoneCreated', data: { id: 7, repoId: 5, ...settings } }
const edited = (changes: Partial<MilestoneSettings>): MilestoneEvent => ({
  type: 'MilestoneEdited',
  data: { id: 7, repoId: 5, changes },
})
const deleted: MilestoneEvent = { type: 'MilestoneDeleted', data: { id: 7, repoId: 5, title: 'v1' } }

t.test('a milestone is made once, with its title trimmed', async (t) => {
  const { given } = specify(t, milestoneDecider)
  given()
    .when((state) => decideCreateMilestone(state, 7, 5, { ...settings, title: ' v1 ' }))
    .thenEvents(created)
  for (const events of [[created], [created, deleted]]) {
    given(...events)
      .when((state) => decideCreateMilestone(state, 7, 5, settings))
      .thenRefused('conflict')
  }
})

t.test('a due date is any RFC 3339 date-time, and its instant is stored', async (t) => {
  const { given } = specify(t, milestoneDecider)
  const dates = [
    ['2026-05-01T12:30:00Z', '2026-05-01T12:30:00.000Z'],
    ['2026-05-01t12:30:00z', '2026-05-01T12:30:00.000Z'],
    ['2026-05-01T00:30:00+02:00', '2026-04-30T22:30:00.000Z'],
    ['2028-02-29T23:59:59.123456789-08:00', '2028-03-01T07:59:59.123Z'],
  ] as const
  for (const [text, dueOn] of dates) {
    given(created)
      .when((state) => decideEditMilestone(state, 5, { dueOn: text }))
      .thenEvents(edited({ dueOn }))
  }
})

t.test('the zero time and the year 9999 mean: no due date', async (t) => {
  const { given } = specify(t, milestoneDecider)
  for (const dueOn of ['0001-01-01T00:00:00Z', '9999-12-31T00:00:00Z', '9999-12-31T23:59:59-12:00']) {
    given(created, edited({ dueOn: '2026-05-01T00:00:00.000Z' }))
      .when((state) => decideEditMilestone(state, 5, { dueOn }))
      .thenEvents(edited({ dueOn: null }))
    given()
      .when((state) => decideCreateMilestone(state, 7, 5, { ...settings, dueOn }))
      .thenEvents(created)
  }
})

t.test(
  'a milestone needs a title of one line; an invalid due date is refused with the name of its field',
  async (t) => {
    const { given } = specify(t, milestoneDecider)
    const bad = [
      ['title', { title: '' }],
      ['title', { title: '  ' }],
      ['title', { title: 'a\nb' }],
      ['due_on', { dueOn: '' }],
      ['due_on', { dueOn: 'tomorrow' }],
      ['due_on', { dueOn: '2026-05-01' }],
      ['due_on', { dueOn: '2026-05-01T12:00:00' }],
      ['due_on', { dueOn: '2026-02-30T12:00:00Z' }],
      ['due_on', { dueOn: '2026-13-01T12:00:00Z' }],
      ['due_on', { dueOn: '2026-05-01T25:00:00Z' }],
      ['due_on', { dueOn: '+12026-05-01T12:00:00Z' }],
    ] as const
    for (const [field, part] of bad) {
      given()
        .when((state) => decideCreateMilestone(state, 7, 5, { ...settings, ...part }))
        .thenRefused('unprocessable')
      given(created)
        .when((state) => decideEditMilestone(state, 5, part))
        .thenRefused('unprocessable')
      const refused = decideCreateMilestone({ status: 'missing' }, 7, 5, { ...settings, ...part })
      t.match(refused, { message: new RegExp(`^${field}: `) }, JSON.stringify(part))
    }
  },
)

t.test('an edit records only what changes', async (t) => {
  const { given } = specify(t, milestoneDecider)
  const dueOn = '2026-05-01T00:00:00.000Z'
  given(created)
    .when((state) => decideEditMilestone(state, 5, { ...settings, state: 'closed' }))
    .thenEvents(edited({ state: 'closed' }))
  given(created, edited({ state: 'closed', dueOn }))
    .when((state) => decideEditMilestone(state, 5, { state: 'closed', dueOn: '2026-05-01T02:00:00+02:00' }))
    .thenEvents()
  given(created, edited({ dueOn }))
    .when((state) => decideEditMilestone(state, 5, { title: 'v2', description: '', dueOn: null }))
    .thenEvents(edited({ title: 'v2', description: '', dueOn: null }))
})

t.test('a milestone that is missing, deleted or of another repository is not found', async (t) => {
  const { given } = specify(t, milestoneDecider)
  const cases: [MilestoneEvent[], number][] = [
    [[], 5],
    [[created, deleted], 5],
    [[created], 6],
  ]
  for (const [events, repoId] of cases) {
    given(...events)
      .when((state) => decideEditMilestone(state, repoId, { title: '' }))
      .thenRefused('notFound')
    given(...events)
      .when((state) => decideDeleteMilestone(state, repoId))
      .thenRefused('notFound')
  }
  given(created)
    .when((state) => decideDeleteMilestone(state, 5))
    .thenEvents(deleted)
})
