import t from 'tap'
import { append } from '../../../../src/commands/execution/append.ts'
import type { LabelEvent } from '../../../../src/events/catalog/labels.ts'
import { labelFold } from '../../../../src/projections/models/labels/labels.fold.ts'
import type { Until } from '../../../../src/queries/history/replay/document-at.ts'
import { rangeOf, replayStream } from '../../../../src/queries/history/replay/replay-stream.ts'
import { BATCH_EVENTS } from '../../../../src/queries/history/replay/stream-batches.ts'
import { aContext, appendMany, openStores, readerOf, writerOf } from '../../../stores.ts'

const scope = { kind: 'repository', repoId: 1 } as const
const label = { color: 'aabbcc', description: '', exclusive: false, archived: false }

/** A label with names 0, 1, 2…, the event of each at its time; another stream's event comes before each. */
async function named(test: Parameters<typeof openStores>[0], times: readonly string[]) {
  const { events } = openStores(test)
  for (const [i, at] of times.entries()) {
    const event: LabelEvent =
      i === 0
        ? { type: 'LabelCreated', data: { id: 7, scope, name: '0', ...label } }
        : { type: 'LabelEdited', data: { id: 7, scope, changes: { name: `${i}` } } }
    const other: LabelEvent = { type: 'LabelDeleted', data: { id: 8, scope, name: 'x' } }
    await append(writerOf(events), aContext({ at }), 'label-8', 'other', [other], 'any')
    await append(writerOf(events), aContext({ at }), 'label-7', 'edit', [event], 'any')
  }
  const reader = readerOf(events)
  const replay = (until: Until) => replayStream(reader, 'label-7', labelFold, '7', until)
  return { events, replay, nameAt: async (until: Until) => (await replay(until)).document?.name }
}

const second = (n: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, n)).toISOString()

t.test('replays a document to a revision, to a position and to a time', async (t) => {
  const { nameAt, replay, events } = await named(t, [second(1), second(2), second(3)])
  for (const revision of [0, 1, 2]) t.equal(await nameAt({ revision }), `${revision}`)
  t.equal(await nameAt({ revision: 9 }), '2')
  t.strictSame(await replay({ revision: -1 }), { document: undefined, last: undefined })
  // The events of the other stream have the odd positions.
  const atPositions = await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map((position) => nameAt({ position })))
  t.strictSame(atPositions, [undefined, undefined, '0', '0', '1', '1', '2', '2'])
  const atTimes = await Promise.all([0, 1, 2, 3, 4].map((n) => nameAt({ at: second(n) })))
  t.strictSame(atTimes, [undefined, '0', '1', '2', '2'])
  t.equal(await nameAt({ at: second(2).replace('000Z', '999Z') }), '1')
  t.strictSame((await replay({ at: second(2) })).last, { revision: 1, position: 4, at: second(2) })
  t.match(await rangeOf(events, 'label-7'), {
    first: { revision: 0, at: second(1) },
    last: { revision: 2, at: second(3) },
  })
  t.equal(await rangeOf(events, 'label-9'), undefined)
})

t.test(
  'clocks differ: includes all events before the last one up to the time, and all up to the position',
  async (t) => {
    const { nameAt } = await named(t, [second(1), second(5), second(3), second(6)])
    t.equal(await nameAt({ at: second(2) }), '0')
    t.equal(await nameAt({ at: second(3) }), '2')
    t.equal(await nameAt({ at: second(5) }), '2')
    t.equal(await nameAt({ at: second(2), position: 4 }), '1')
    t.equal(await nameAt({ at: second(0), position: 1 }), undefined)
  },
)

t.test('a long stream gives the same result in slices, without blocking the event loop', async (t) => {
  const { events } = openStores(t)
  const count = 1777
  const created: LabelEvent = { type: 'LabelCreated', data: { id: 7, scope, name: '0', ...label } }
  const edits = Array.from({ length: count }, (_, i): LabelEvent => {
    return { type: 'LabelEdited', data: { id: 7, scope, changes: { name: `${i + 1}` } } }
  })
  await appendMany(events, 'label-7', [created, ...edits], aContext({ at: second(1) }))
  let turns = 0
  let counting = true
  const countTurn = () => {
    turns += 1
    if (counting) setImmediate(countTurn)
  }
  countTurn()
  const reader = readerOf(events)
  const replay = (until: Until) => replayStream(reader, 'label-7', labelFold, '7', until)
  t.equal((await replay({ at: second(1) })).document?.name, `${count}`)
  counting = false
  t.ok(turns > 5, `${turns} turns`)
  for (const revision of [
    0,
    BATCH_EVENTS - 2,
    BATCH_EVENTS - 1,
    BATCH_EVENTS,
    BATCH_EVENTS + 1,
    2 * BATCH_EVENTS,
    999,
    1000,
    1001,
    count,
  ]) {
    const replayed = await replay({ revision })
    t.match(replayed, { document: { name: `${revision}` }, last: { revision } })
    for (const later of [revision, count]) {
      const on = await replayStream(reader, 'label-7', labelFold, '7', { revision: later }, replayed)
      t.match(on, { document: { name: `${later}` }, last: { revision: later } })
    }
  }
  t.match(await replay({ position: 777 }), { document: { name: '776' }, last: { position: 777 } })
})

t.test('concurrent replays alternate: each iteration of the event loop works on one', async (t) => {
  const { events } = openStores(t)
  const created: LabelEvent = { type: 'LabelCreated', data: { id: 7, scope, name: '0', ...label } }
  const edits = Array.from({ length: 2 * BATCH_EVENTS }, (_, i): LabelEvent => {
    return { type: 'LabelEdited', data: { id: 7, scope, changes: { name: `${i + 1}` } } }
  })
  await appendMany(events, 'label-7', [created, ...edits], aContext({ at: second(1) }))
  let inTurn = 0
  let most = 0
  let isOver = false
  const nextTurn = () => {
    inTurn = 0
    if (!isOver) setImmediate(nextTurn)
  }
  nextTurn()
  const slow: typeof events = {
    ...events,
    async *readStream(stream, options) {
      t.ok((options?.maxCount ?? Number.POSITIVE_INFINITY) <= BATCH_EVENTS, 'it reads a part')
      inTurn += 1
      most = Math.max(most, inTurn)
      // As long as an iteration.
      const began = performance.now()
      while (performance.now() - began < 4);
      yield* events.readStream(stream, options)
    },
  }
  const asked: Until[] = [
    { revision: 2 * BATCH_EVENTS },
    { at: second(1) },
    { revision: BATCH_EVENTS + 3 },
    { at: second(2) },
  ]
  const reader = readerOf(slow)
  const replayed = await Promise.all(
    asked.map((until) => replayStream(reader, 'label-7', labelFold, '7', until)),
  )
  isOver = true
  t.same(
    replayed.map(({ last }) => last?.revision),
    [2 * BATCH_EVENTS, 2 * BATCH_EVENTS, BATCH_EVENTS + 3, 2 * BATCH_EVENTS],
  )
  t.equal(most, 1)
})

t.test('a replay is aborted when its last client disconnects', async (t) => {
  const { events } = openStores(t)
  const created: LabelEvent = { type: 'LabelCreated', data: { id: 7, scope, name: '0', ...label } }
  const edits = Array.from({ length: 1000 }, (_, i): LabelEvent => {
    return { type: 'LabelEdited', data: { id: 7, scope, changes: { name: `${i + 1}` } } }
  })
  await appendMany(events, 'label-7', [created, ...edits], aContext({ at: second(1) }))
  const leaving = new AbortController()
  let turns = 0
  const onTurn = () => {
    turns += 1
    leaving.abort(new Error('gone'))
  }
  const replay = (until: Until) =>
    replayStream(readerOf(events), 'label-7', labelFold, '7', until, undefined, onTurn, {
      client: 'a',
      gone: leaving.signal,
    })
  await t.rejects(replay({ revision: 1000 }), { message: 'gone' })
  t.equal(turns, 1)
  await t.rejects(replay({ at: second(0) }), { message: 'gone' }, 'also while it looks for the moment')
  t.equal(turns, 1)
})
