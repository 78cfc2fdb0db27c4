/** Simultaneous appends to several streams, and their delivery to subscribers without a read of the file. */
import { join } from 'node:path'
import { setImmediate as nextIteration } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { chainProblem, STREAM_START } from '../../src/events/store/chain.ts'
import {
  type Appended,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../src/events/store/sqlite/sqlite.ts'
import { openSqlite } from '../../src/storage/sqlite/sqlite.ts'
import { until } from '../until.ts'
import { all, newEvent, newStream } from './event-store-contract.ts'

function openStore(t: Test) {
  const store = openSqliteEventStore(join(t.testdir(), 'events.db'))
  t.teardown(() => store.close())
  const { appendTogether } = store
  if (appendTogether === undefined) throw new Error('the embedded store can write several streams at once')
  return { store, appendTogether }
}

t.test('several streams are appended to at once; each append may use the places before it', async (t) => {
  const { store, appendTogether } = openStore(t)
  const [first, second] = [newStream(), newStream()]
  await store.append(first, [newEvent()], 'no-stream')
  let known: readonly Appended[] = []
  const places = await appendTogether([
    () => ({ stream: first, events: [newEvent(), newEvent()], expected: 'any' }),
    () => ({ stream: first, events: [newEvent()], expected: 2 }),
    (before) => {
      known = [...before]
      return { stream: second, events: [newEvent({ n: before[1]?.revision })], expected: 'no-stream' }
    },
  ])
  t.same(places, [
    { revision: 2, position: 3 },
    { revision: 3, position: 4 },
    { revision: 0, position: 5 },
  ])
  t.same(known, places.slice(0, 2))
  t.match(await all(store.readStream(second)), [{ data: { n: 3 }, position: 5 }])
  let end = STREAM_START
  for (const event of await all(store.readStream(first))) {
    t.equal(chainProblem(event, end), undefined)
    end = { revision: event.revision, hash: event.metadata.hash ?? null }
  }
  t.equal(end.revision, 3)
})

t.test(
  'when one of several streams is refused, none of its append is stored, and other appends are',
  async (t) => {
    const { store, appendTogether } = openStore(t)
    const [taken, other] = [newStream(), newStream()]
    const old = newEvent()
    await store.append(taken, [old], 'no-stream')
    const numbers = () => ({ stream: other, events: [newEvent()], expected: 'any' }) as const
    const results = await Promise.allSettled([
      store.append(other, [newEvent()], 'any'),
      appendTogether([numbers, () => ({ stream: taken, events: [newEvent()], expected: 'no-stream' })]),
      store.append(other, [newEvent()], 'any'),
      appendTogether([numbers, () => ({ stream: taken, events: [old], expected: 'any' })]),
      appendTogether([
        numbers,
        () => {
          throw new RangeError('not made')
        },
      ]),
      appendTogether([numbers]),
    ])
    t.match(results, [
      { status: 'fulfilled', value: { revision: 0 } },
      { status: 'rejected', reason: WrongExpectedRevision },
      { status: 'fulfilled', value: { revision: 1 } },
      { status: 'rejected', reason: WrongExpectedRevision },
      { status: 'rejected', reason: RangeError },
      { status: 'fulfilled', value: [{ revision: 2 }] },
    ])
    t.same(
      (await all(store.readAll())).map(({ stream, revision }) => [stream, revision]),
      [
        [taken, 0],
        [other, 0],
        [other, 1],
        [other, 2],
      ],
    )
  },
)

/** Follows a log from its beginning; waits after each batch until `mayGoOn` resolves. */
function following(t: Test, store: ReturnType<typeof openStore>['store'], mayGoOn = async () => {}) {
  const ending = new AbortController()
  const events: RecordedEvent[] = []
  const done = (async () => {
    for await (const batch of store.subscribe({ after: 0, signal: ending.signal })) {
      events.push(...batch)
      await mayGoOn()
    }
  })()
  t.teardown(async () => {
    ending.abort()
    await done
  })
  return events
}

t.test('a subscription delivers the events of the file without reading it', async (t) => {
  const { store } = openStore(t)
  const events = following(t, store)
  const odd = {
    lacks: undefined,
    zero: -0,
    none: Number.NaN,
    half: '\ud800',
    at: new Date(0),
    list: [undefined],
  }
  for (const data of [{ n: 1 }, odd]) await store.append(newStream(), [newEvent(data)], 'no-stream')
  await until('both have come', async () => events.length === 2)
  t.strictSame(events, await all(store.readAll()))
})

t.test('a slow subscription gets all events, though newer ones replace them in memory', async (t) => {
  const { store } = openStore(t)
  const { promise: gate, resolve: goOn } = Promise.withResolvers<void>()
  const slow = following(t, store, () => gate)
  const fast = following(t, store)
  for (let n = 0; n < 8; n++) {
    const events = Array.from({ length: 400 }, () => newEvent())
    await store.append(newStream(), events, 'no-stream')
    await until('one is at the end', async () => fast.length === 400 * (n + 1))
  }
  t.ok(slow.length <= 1000)
  goOn()
  await until('the other is, too', async () => slow.length === 3200)
  t.strictSame(slow, fast)
  t.strictSame(
    slow.map(({ position }) => position),
    slow.map((_, i) => i + 1),
  )
})

t.test('appends that arrive during a transaction share the next one', async (t) => {
  const { store } = openStore(t)
  await store.append(newStream(), [newEvent()], 'no-stream')
  let turns = 0
  const ended: number[] = []
  const names: string[] = []
  const append = async (name: string) => {
    await store.append(newStream(), [newEvent()], 'no-stream')
    ended.push(turns)
    names.push(name)
  }
  const first = append('first')
  await nextIteration()
  const others = Array.from({ length: 8 }, () => append('other'))
  const counting = (async () => {
    while (ended.length < 9) {
      await nextIteration()
      turns += 1
    }
  })()
  await Promise.all([first, ...others, counting])
  t.equal(names[0], 'first')
  t.equal(new Set(ended.slice(1)).size, 1, 'all of them end in the same turn of the event loop')
})

t.test('while another process holds the file, an append waits, and the event loop continues', async (t) => {
  const file = join(t.testdir(), 'events.db')
  const store = openSqliteEventStore(file)
  t.teardown(() => store.close())
  const stream = newStream()
  await store.append(stream, [newEvent()], 'no-stream')
  const other = openSqlite(file, 'FULL')
  other.exec('BEGIN IMMEDIATE')
  let isDone = false
  const appending = store.append(stream, [newEvent()], 0).then(() => {
    isDone = true
  })
  for (let turn = 0; turn < 100; turn++) {
    t.equal((await all(store.readStream(stream))).length, 1)
    await nextIteration()
  }
  t.notOk(isDone)
  other.exec('COMMIT')
  await appending
  other.close()
  t.equal((await all(store.readStream(stream))).length, 2)
})

t.test('in a batch with a repeated append, each append gets its own answer', async (t) => {
  const { store, appendTogether } = openStore(t)
  const [known, other] = [newStream(), newStream()]
  const old = newEvent()
  const before = await store.append(known, [old], 'no-stream')
  let made = 0
  const answers = await Promise.allSettled([
    store.append(other, [newEvent()], 'any'),
    store.append(known, [old], 'any'),
    appendTogether([
      () => {
        made += 1
        return { stream: other, events: [newEvent({ made })], expected: 'any' }
      },
    ]),
    store.append(known, [newEvent()], 0),
    store.append(other, [newEvent()], 'any'),
  ])
  t.match(answers, [
    { status: 'fulfilled', value: { revision: 0, position: 2 } },
    { status: 'fulfilled', value: before },
    { status: 'fulfilled', value: [{ revision: 1 }] },
    { status: 'fulfilled', value: { revision: 1 } },
    { status: 'fulfilled', value: { revision: 2 } },
  ])
  const log = await all(store.readAll())
  t.strictSame(
    log.map(({ position }) => position),
    [1, 2, 3, 4, 5],
  )
  t.match(await all(store.readStream(other)), [{}, { data: { made } }, {}])
})

t.test('an abandoned long read does not block later appends and reads', async (t) => {
  const { store } = openStore(t)
  const stream = newStream()
  const long = () => newEvent({ text: 'x'.repeat(8 * 1024) })
  await store.append(stream, Array.from({ length: 250 }, long), 'no-stream')
  const places = await all(store.readAll())
  const reads = {
    stream: () => store.readStream(stream),
    'stream, backwards': () => store.readStream(stream, { direction: 'backwards' }),
    log: () => store.readAll(),
    'log, backwards': () => store.readAll({ direction: 'backwards' }),
    positions: () => store.readPositions(places.map(({ position }) => position)),
  }
  let last = 249
  for (const [name, read] of Object.entries(reads)) {
    for await (const _ of read()) break
    const { revision } = await store.append(stream, [newEvent()], last)
    last += 1
    t.equal(revision, last, name)
    t.match(await all(store.readStream(stream, { from: last })), [{ revision }], name)
  }
})
