import t from 'tap'
import type { RecordedEvent } from '../../../src/events/store/event-store.ts'
import { createGaps } from '../../../src/projections/projector/log-gaps.ts'

function event(stream: string, revision: number, previous: string | null): RecordedEvent {
  const at = '2026-01-02T03:04:05.000Z'
  const hash = `${stream}@${revision}`
  const metadata = { actor: null, at, correlationId: 'c', causationId: 'c', schema: 1, previous, hash }
  return { id: hash, type: 'NumberTaken', data: {}, stream, revision, position: 1, metadata }
}

t.test('a rebuild reports missing revisions of the log, at the start or in between', async (t) => {
  const gaps = createGaps()
  gaps.next(event('a', 0, null))
  gaps.next(event('a', 1, 'a@0'))
  gaps.next(event('b', 3, 'b@2'))
  gaps.next(event('b', 5, 'b@4'))
  t.same(gaps.found(), ['b: revisions 0 to 2', 'b: revision 4'])
})

t.test('a foreign event in a stream is not a gap: the hash chain continues over it', async (t) => {
  const gaps = createGaps()
  gaps.next(event('a', 1, null))
  gaps.next(event('a', 3, 'a@1'))
  t.same(gaps.found(), [])
})
