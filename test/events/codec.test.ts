import t from 'tap'
import { decode, type Reshaped, schemaOf, UnreadableEvent, upcast } from '../../src/events/codec.ts'
import type { RecordedEvent } from '../../src/events/store/event-store.ts'

/** An event as stored by an older or a newer version of Mergelog. */
function stored(type: string, schema: number, data: object): RecordedEvent {
  const at = '2026-01-02T03:04:05.000Z'
  const metadata = { actor: null, at, correlationId: 'c', causationId: 'c', schema }
  return { id: 'e', stream: 'pull-5.1', revision: 0, position: 1, type, data, metadata }
}

t.test('an event of the current schema is read as it is', async (t) => {
  const event = stored('LabelDeleted', 1, { id: 3, scope: { kind: 'repository', repoId: 5 }, name: 'bug' })
  t.equal(decode(event), event)
})

t.test('an upcaster adds missing fields to older events of a made-up type, and keeps the rest', async (t) => {
  const lampLit: Reshaped = {
    schema: 3,
    upcast: (data, schema) => ({ color: 'white', ...(schema < 2 && { room: null }), ...data }),
  }
  for (const [schema, then, added] of [
    [1, { lamp: 4 }, { color: 'white', room: null }],
    [2, { lamp: 4, room: 'hall' }, { color: 'white' }],
    [3, { lamp: 4, room: 'hall', color: 'red' }, {}],
  ] as const) {
    const event = upcast(stored('LampLit', schema, then), lampLit)
    t.strictSame(event, stored('LampLit', 3, { ...added, ...then }))
  }
  t.throws(() => upcast(stored('LampLit', 4, {}), lampLit), UnreadableEvent)
})

t.test('an unknown type and a schema of the future are errors that name the event', async (t) => {
  for (const event of [
    stored('LabelPainted', 1, {}),
    stored('constructor', 1, {}),
    stored('LabelDeleted', schemaOf('LabelDeleted') + 1, {}),
  ]) {
    t.throws(() => decode(event), UnreadableEvent, event.type)
    t.throws(() => decode(event), { message: new RegExp(`event 1 \\(${event.type} in pull-5\\.1\\)`) })
    const message = /^event 0 of stream pull-5\.1 .* "mergelog verify" says how$/
    const refusal = { refused: 'unavailable', message, lasts: true }
    t.match(refusalOf(event), refusal)
  }
})

t.test(
  'types of known events are checked where they are read: the error names the field and the reason',
  async (t) => {
    const issue = { repoId: 5, index: 1 }
    const label = { id: 3, scope: { kind: 'repository', repoId: 5 }, name: 'bug' }
    const changed = { ...issue, labels: [], added: [], removed: [] }
    const right = [
      stored('LabelDeleted', 1, label),
      stored('LabelDeleted', 1, { ...label, scope: { kind: 'organization', organizationId: 4 } }),
      stored('RepositoryEdited', 1, { repoId: 5, changes: { private: true } }),
      stored('LabelsChanged', 1, { ...changed, added: [{ id: 3, name: 'bug' }] }),
      stored('DeadlineChanged', 1, { ...issue, from: null, to: '2026-01-02T23:59:59Z' }),
    ]
    for (const event of right) t.equal(decode(event), event, event.type)
    const wrong: [event: RecordedEvent, problem: string][] = [
      [stored('LabelDeleted', 1, []), 'data must be object'],
      [stored('LabelDeleted', 1, { ...label, id: '3' }), 'data/id must be integer'],
      [stored('LabelDeleted', 1, { ...label, id: 2 ** 53 }), 'data/id must be <= 9007199254740991'],
      [stored('LabelDeleted', 1, { ...label, scope: 'x' }), 'data/scope must be object'],
      [stored('LabelDeleted', 1, { ...label, name: null }), 'data/name must be string'],
      [
        stored('RepositoryEdited', 1, { repoId: 5, changes: { private: 1 } }),
        'data/changes/private must be boolean',
      ],
      [
        stored('LabelsChanged', 1, { ...changed, added: [{}] }),
        'data/added/0 must have required properties id, name',
      ],
      [stored('LabelsChanged', 1, { ...changed, added: {} }), 'data/added must be array'],
      [stored('IssueRead', 1, { ...issue, user: null }), 'data/user must be object'],
      [stored('MergeFailed', 1, { ...issue, commit: 'c' }), 'data must have required properties reason'],
    ]
    for (const [event, problem] of wrong) {
      t.throws(() => decode(event), {
        name: 'UnreadableEvent',
        message: new RegExp(RegExp.escape(problem)),
      })
    }
  },
)

/** The client's error for a request that needs the event. */
function refusalOf(event: Parameters<typeof decode>[0]): unknown {
  try {
    return decode(event)
  } catch (error) {
    return error instanceof UnreadableEvent ? error.refusal : error
  }
}
