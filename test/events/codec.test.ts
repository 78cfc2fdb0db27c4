import t from 'tap'
import { decode, schemaOf, UnreadableEvent } from '../../src/events/codec.ts'
import type { RecordedEvent } from '../../src/events/event-store.ts'

/** An event as an older or a newer version of Mergelog may have stored it. */
function stored(type: string, schema: number, data: object): RecordedEvent {
  const at = '2026-01-02T03:04:05.000Z'
  const metadata = { actor: null, at, correlationId: 'c', causationId: 'c', schema }
  return { id: 'e', stream: 'pull-5.1', revision: 0, position: 1, type, data, metadata }
}

t.test('an event of the current schema is read as it is', async (t) => {
  const event = stored('LabelDeleted', 1, { id: 3, name: 'bug' })
  t.equal(decode(event), event)
})

t.test('an upcaster adds what older events lack, and keeps the rest', async (t) => {
  const older = [
    ['PullRequestOpened', { labels: [], milestone: null, assignees: [], deadline: null }],
    ['MergeStarted', { mergeBase: null, deleteBranch: false }],
    ['PullRequestMerged', { style: 'merge', mergeBase: null, milestone: null, deleteBranch: false }],
  ] as const
  for (const [type, added] of older) {
    const event = decode(stored(type, 1, { repoId: 5, index: 1 }))
    t.strictSame(event.data, { repoId: 5, index: 1, ...added }, type)
    t.equal(event.metadata.schema, schemaOf[type], `${type} has the current schema`)
  }
})

t.test('an unknown type and a schema of the future are errors that name the event', async (t) => {
  for (const event of [
    stored('LabelPainted', 1, {}),
    stored('constructor', 1, {}),
    stored('LabelDeleted', schemaOf.LabelDeleted + 1, {}),
  ]) {
    t.throws(() => decode(event), UnreadableEvent, event.type)
    t.throws(() => decode(event), { message: new RegExp(`event 1 \\(${event.type} in pull-5\\.1\\)`) })
  }
})
