import t from 'tap'
import { append } from '../../../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import { isUpTo, pointOf, type Until } from '../../../../src/queries/history/replay/document-at.ts'
import { lastRevision, SEGMENT } from '../../../../src/queries/history/replay/last-revision.ts'
import { aContext, counted, openStores, readerOf, writerOf } from '../../../stores.ts'

const taken: DomainEvent = { type: 'NumberTaken', data: { sequence: 'a' } }
const second = (n: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, n)).toISOString()

/** A stream with the given number of events at each time, and a count of the events that were read. */
async function streamOf(
  test: Parameters<typeof openStores>[0],
  parts: readonly [seconds: number, count: number][],
) {
  const { events } = openStores(test)
  const writer = writerOf(events)
  for (const [n, count] of parts) {
    await append(writer, aContext(), 'numbers-b', 'take', [taken], 'any')
    await append(writer, aContext({ at: second(n) }), 'numbers-a', 'take', Array(count).fill(taken), 'any')
  }
  const points = await Array.fromAsync(events.readStream('numbers-a'), (event) => pointOf(event))
  const watched = counted(events)
  const reader = readerOf(watched.events)
  return {
    points,
    ask: (until: Until) => lastRevision(reader, 'numbers-a', until),
    append: (n: number) => append(writer, aContext({ at: second(n) }), 'numbers-a', 'take', [taken], 'any'),
    async readsFor(until: Until) {
      const before = watched.reads()
      await lastRevision(reader, 'numbers-a', until)
      return watched.reads() - before
    },
  }
}

t.test('finds the last event up to a time, in any order of requests, cached or not', async (t) => {
  const parts = [
    [2, 700],
    [5, 700],
    [3, 1],
    [6, 1300],
    [4, 300],
    [9, 999],
    [1, 1],
    [7, 1200],
    [8, 1],
  ] as const
  const { points, ask } = await streamOf(
    t,
    parts.map(([n, count]) => [n, count]),
  )
  const asked = [9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 4, 7, 6, 1, 0, 2].flatMap((n): Until[] => [
    { at: second(n) },
    { at: second(n), position: 0 },
    { at: second(n), position: 1800 },
    { at: second(n), position: 100_000 },
  ])
  for (const until of asked) {
    const last = points.findLastIndex((point) => isUpTo(point, until))
    t.equal(await ask(until), last, JSON.stringify(until))
  }
})

t.test('a long past is not read again, and new events are seen', async (t) => {
  const seconds = [1, 2, 3, 4, 5, 6]
  const { points, ask, readsFor, append } = await streamOf(
    t,
    seconds.map((n) => [n, SEGMENT]),
  )
  t.equal(await ask({ at: second(1) }), SEGMENT - 1)
  for (const n of seconds) {
    const reads = await readsFor({ at: second(n) })
    t.ok(reads <= 1 + SEGMENT, `${reads} reads of ${points.length}`)
  }
  await append(1)
  t.equal(await ask({ at: second(1) }), 6 * SEGMENT, 'a clock that is slow')
  await append(7)
  t.equal(await ask({ at: second(1) }), 6 * SEGMENT)
  t.equal(await ask({ at: second(0) }), -1)
  t.equal(await ask({ at: second(9) }), 6 * SEGMENT + 1)
})

t.test('a stream that does not exist has no last revision', async (t) => {
  const { events } = openStores(t)
  t.equal(await lastRevision(readerOf(events), 'numbers-a', { at: second(1) }), -1)
})
