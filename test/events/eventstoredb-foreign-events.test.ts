/** Foreign events in the log: of the server itself, of other applications, and in Mergelog's streams. */
import { join } from 'node:path'
import { EventStoreDBClient } from '@eventstore/db-client'
import t, { type Test } from 'tap'
import {
  type EventStore,
  LOG_START,
  type Position,
  StreamUnusable,
} from '../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../src/events/store/eventstoredb/eventstoredb.ts'
import { startEventStoreDouble } from '../doubles/eventstore.ts'
import { until } from '../until.ts'
import { all, newEvent, newStream } from './event-store-contract.ts'

async function started(t: Test) {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
  const store = openEventStoreDb(double.url)
  t.teardown(async () => {
    await store.close()
    await double.close()
  })
  return { double, store }
}

const system = (count: number) => Array.from({ length: count }, () => ({ type: '$>', data: '0@x' }))
const foreign = (count: number) => Array.from({ length: count }, () => ({ type: 'Order', data: '{}' }))

/** Follows the log, and reports the passed positions. */
function following(t: Test, store: EventStore, after: Position = LOG_START) {
  const ending = new AbortController()
  let seen: Position = after
  const ids: string[] = []
  const passed = (position: Position) => {
    seen = position
  }
  const done = (async () => {
    for await (const batch of store.subscribe({ after, signal: ending.signal, passed })) {
      for (const { id } of batch) ids.push(id)
    }
  })()
  t.teardown(async () => {
    ending.abort()
    await done
  })
  return { ids, passed: (position: Position) => until(`${position} is passed`, async () => seen >= position) }
}

t.test('a subscription passes the last position despite events of other applications', async (t) => {
  const { double, store } = await started(t)
  t.equal(await store.lastPosition(), LOG_START, 'the first event of the log is the server’s own')
  const before = following(t, store)
  const { position } = await store.append(newStream(), [newEvent()], 'any')
  t.equal(await store.lastPosition(), position)
  for (const others of [system(1), system(31), system(200), foreign(1), foreign(300), system(1000)]) {
    const { position: end } = await double.append(newStream(), others)
    const last = await store.lastPosition()
    t.ok(last >= position && last <= end)
    await before.passed(last)
    await following(t, store).passed(last)
    await following(t, store, position).passed(last)
    await following(t, store, last).passed(last)
  }
  t.equal(before.ids.length, 1)
})

t.test('a subscription costs the server little, however many types it excludes', async (t) => {
  const { double, store } = await started(t)
  const { position } = await store.append(newStream(), [newEvent()], 'any')
  const unwanted = new Set(Array.from({ length: 100 }, (_, n) => `SomethingThatIsNotWanted${n}`))
  const before = double.compiledCharacters()
  const ending = new AbortController()
  let reached: Position = LOG_START
  for await (const batch of store.subscribe({ after: LOG_START, signal: ending.signal, unwanted })) {
    reached = batch.at(-1)?.position ?? reached
    if (reached >= position) break
  }
  // The server compiles the expression of each subscription again.
  t.ok(double.compiledCharacters() - before < 100, `${double.compiledCharacters() - before} characters`)
})

t.test('the last position costs one read of a few events, however many foreign events follow', async (t) => {
  const { double, store } = await started(t)
  await store.append(newStream(), [newEvent()], 'any')
  await double.append('orders', foreign(3000))
  const sent = double.sentEvents()
  await store.lastPosition()
  t.ok(double.sentEvents() - sent <= 128)
})

t.test(
  'a burst that makes the server drop the subscription is read from the log without a loss',
  async (t) => {
    const { double, store } = await started(t)
    const follower = following(t, store)
    const first = await store.append(newStream(), [newEvent()], 'any')
    await follower.passed(first.position)
    for (const burst of [100, 500]) {
      await double.append(newStream(), foreign(burst))
      const { position } = await store.append(
        newStream(),
        Array.from({ length: burst }, () => newEvent()),
        'any',
      )
      await follower.passed(position)
    }
    t.equal(follower.ids.length, 601)
    t.equal(new Set(follower.ids).size, 601)
  },
)

t.test('events of other applications in a stream are skipped and reported', async (t) => {
  const { double, store } = await started(t)
  const others = [
    { type: 'NoEnvelope', data: '{}' },
    { type: 'Binary', data: Buffer.from([0, 255]), contentType: 'application/octet-stream' },
    { type: 'BrokenJson', data: '{"a":', metadata: '{' },
  ]
  const stream = 'ids-issue'
  const at = async (options = {}) =>
    (await all(store.readStream(stream, options))).map(({ revision }) => revision)
  t.strictSame(store.problems?.(), { denied: undefined, others: [], unusable: [] })
  await double.append(stream, others)
  t.equal((await store.append(stream, [newEvent()], 'no-stream')).revision, 3, 'also at the beginning')
  await double.append(stream, others)
  t.equal((await store.append(stream, [newEvent()], 3)).revision, 7, 'after an event of ours')
  await double.append(stream, others)
  t.equal((await store.append(stream, [newEvent()], 'any')).revision, 11)
  await double.append(stream, others)
  const event = newEvent()
  const first = await store.append(stream, [event], 'stream-exists')
  t.equal(first.revision, 15)
  await double.append(stream, others)
  t.strictSame(await store.append(stream, [event], 'any'), first, 'a repeated append changes nothing')
  await t.rejects(store.append(stream, [newEvent()], 11), { name: 'WrongExpectedRevision', actual: 18 })

  t.strictSame(await at(), [3, 7, 11, 15])
  t.strictSame(await at({ from: 8 }), [11, 15])
  t.strictSame(await at({ from: 4, maxCount: 2 }), [7, 11])
  t.strictSame(await at({ direction: 'backwards', maxCount: 1 }), [15], 'the last claim is found')
  t.strictSame(await at({ direction: 'backwards', maxCount: 3 }), [15, 11, 7])
  await double.append(stream, foreign(100))
  t.strictSame(await at({ direction: 'backwards', maxCount: 1 }), [15])
  t.strictSame(store.problems?.().others, [`event 118 of stream ${stream} was not written by Mergelog`])

  const again = openEventStoreDb(double.url)
  t.teardown(() => again.close())
  t.equal(
    (await again.append(stream, [newEvent()], 'any')).revision,
    119,
    'by a server that knows nothing yet',
  )
})

t.test('a stream with a damaged event is refused, and other streams work', async (t) => {
  const { double, store } = await started(t)
  const [stream, copy] = [newStream(), newStream()]
  for (let n = 0; n < 3; n++) await store.append(stream, [newEvent({ n })], 'any')
  const client = EventStoreDBClient.connectionString(double.url)
  t.teardown(() => client.dispose())
  const events = await all(client.readStream(stream))
  const copies = events.map(({ event }) => ({
    type: String(event?.type),
    data: JSON.stringify(event?.data),
    metadata: JSON.stringify(event?.metadata),
  }))
  await double.append(
    copy,
    copies.map((event, n) => (n === 1 ? { ...event, metadata: 'damaged' } : event)),
  )
  await t.rejects(all(store.readStream(copy)), StreamUnusable)
  await t.rejects(all(store.readStream(copy)), { message: /event 1 of stream .* is damaged/ })
  t.equal((await all(store.readStream(stream))).length, 3)

  const other = newStream()
  const spoilt = (text: string) => text.replace('"schema":1', '"schema":"1"')
  await double.append(
    other,
    copies.map((event, n) => (n === 1 ? { ...event, metadata: spoilt(event.metadata) } : event)),
  )
  const reader = openEventStoreDb(double.url)
  t.teardown(() => reader.close())
  await following(t, reader).passed(await reader.lastPosition())
  const named = `event 1 of stream ${other} is damaged: it has our metadata, but cannot be read`
  t.strictSame(reader.problems?.().unusable, [named], 'also when nobody asks for the stream')
})

t.test('a deleted stream is not "written by too many at once"', async (t) => {
  const { double, store } = await started(t)
  const client = EventStoreDBClient.connectionString(double.url)
  t.teardown(() => client.dispose())
  const stranger = openEventStoreDb(double.url)
  t.teardown(() => stranger.close())
  const filled = async () => {
    const stream = newStream()
    await store.append(stream, [newEvent(), newEvent()], 'no-stream')
    return stream
  }
  for (const known of [true, false]) {
    const writer = known ? store : stranger
    const truncated = await filled()
    await client.setStreamMetadata(truncated, { truncateBefore: 2 })
    t.equal((await writer.append(truncated, [newEvent()], 'any')).revision, 2, 'a sequence goes on')
    const deleted = await filled()
    await client.deleteStream(deleted)
    t.strictSame(await all(writer.readStream(deleted)), [])
    t.equal((await writer.append(deleted, [newEvent()], 'any')).revision, 2)
    const cut = await filled()
    await client.setStreamMetadata(cut, { maxCount: 1 })
    t.equal((await writer.append(cut, [newEvent()], 'any')).revision, 2)
    const gone = await filled()
    await client.tombstoneStream(gone)
    const operations: (() => Promise<unknown>)[] = [
      () => writer.append(gone, [newEvent()], 'any'),
      () => writer.append(gone, [newEvent()], 1),
      () => all(writer.readStream(gone)),
    ]
    for (const operation of operations) {
      await t.rejects(operation(), {
        message: `stream ${gone} has a tombstone: it was deleted in EventStoreDB`,
      })
    }
  }
  const truncated = await filled()
  await client.setStreamMetadata(truncated, { truncateBefore: 2 })
  await t.rejects(stranger.append(truncated, [newEvent()], 'no-stream'), { name: 'WrongExpectedRevision' })
})
