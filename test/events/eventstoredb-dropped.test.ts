/** Subscriptions that the server drops, and clients of the driver that were replaced. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseEventStoreDbUrl } from '../../src/config/eventstoredb-url.ts'
import { LOG_START, StoreUnavailable } from '../../src/events/store/event-store.ts'
import { type Connection, connect } from '../../src/events/store/eventstoredb/client.ts'
import { openEventStoreDb } from '../../src/events/store/eventstoredb/eventstoredb.ts'
import { startEventStoreCluster, startEventStoreDouble } from '../doubles/eventstore.ts'
import { until } from '../until.ts'
import { follow, newEvent, newStream } from './event-store-contract.ts'

async function started(t: Test) {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
  const store = openEventStoreDb(double.url)
  t.teardown(async () => {
    await store.close()
    await double.close()
  })
  return { double, store }
}

t.test('a subscription that is dropped 5 times without progress continues without a loss', async (t) => {
  const { double, store } = await started(t)
  await store.append(newStream(), [newEvent()], 'any')
  double.access.drops = 5
  const reader = follow(t, store, LOG_START)
  await reader.has(1)
  t.equal(double.access.drops, 0, 'it was dropped so often')
  await store.append(newStream(), [newEvent(), newEvent()], 'any')
  await reader.has(3)
})

t.test(
  'a subscription that is dropped once more ends with StoreUnavailable; the next one works',
  async (t) => {
    const { double, store } = await started(t)
    await store.append(newStream(), [newEvent()], 'any')
    double.access.drops = 7
    const first = follow(t, store, LOG_START)
    const error: unknown = await first.done.catch((reason: unknown) => reason)
    t.ok(error instanceof StoreUnavailable)
    t.match(error, { name: 'SubscriptionDropped', message: /resubscription required/i })
    t.equal(double.access.drops, 1, 'it has not asked without end')
    const next = follow(t, store, LOG_START)
    await next.has(1)
  },
)

t.test('only drops without progress count; events of other applications are progress', async (t) => {
  const { double, store } = await started(t)
  const ending = new AbortController()
  let passed = LOG_START
  let read = 0
  const following = (async () => {
    const options = {
      after: LOG_START,
      signal: ending.signal,
      passed(position: number) {
        passed = position
      },
    }
    for await (const batch of store.subscribe(options)) read += batch.length
  })()
  const { position } = await store.append(newStream(), [newEvent()], 'any')
  await until('it follows the log', () => passed >= position)
  for (let round = 0; round < 4; round++) {
    // The server drops the live subscription after the burst, and then twice the new one.
    double.access.drops = 2
    const burst = Array.from({ length: 100 }, () => ({ type: 'Order', data: '{}' }))
    const end = await double.append('orders', burst)
    await Promise.race([until('the burst is passed', () => passed >= end.position), following])
    t.equal(double.access.drops, 0)
  }
  t.equal(read, 1)
  await store.append(newStream(), [newEvent()], 'any')
  await until('the next event has come', () => read === 2)
  ending.abort()
  await following
})

t.test('after a drop, skipped events of other applications are not sent again', async (t) => {
  const { double, store } = await started(t)
  const ending = new AbortController()
  let passed = LOG_START
  const options = {
    after: LOG_START,
    signal: ending.signal,
    passed(position: number) {
      passed = position
    },
  }
  const following = (async () => {
    for await (const _ of store.subscribe(options));
  })()
  const { position } = await store.append(newStream(), [newEvent()], 'any')
  await until('it follows the log', () => passed >= position)
  const orders = async (count: number) => {
    const burst = Array.from({ length: count }, () => ({ type: 'Order', data: '{}' }))
    const end = await double.append('orders', burst)
    await Promise.race([until('the burst is passed', () => passed >= end.position), following])
  }
  await orders(1000)
  const before = double.sentEvents()
  double.access.drops = 1
  await orders(100)
  t.equal(double.access.drops, 0)
  t.ok(double.sentEvents() - before < 1000, `${double.sentEvents() - before} events were sent`)
  ending.abort()
  await following
})

t.test('a client that found no node is replaced, and the old one is disposed once', async (t) => {
  const cluster = await startEventStoreCluster({ nodes: 3, file: join(t.testdir(), 'events.db') })
  t.teardown(() => cluster.close())
  const url = parseEventStoreDbUrl(
    `${cluster.url}&discoveryInterval=10&maxDiscoverAttempts=2&gossipTimeout=1`,
  )
  const connection = connect(url)
  const ask = () => readOne(connection)
  const disposed: number[] = []
  const { promise: mayEnd, resolve: finish } = Promise.withResolvers<void>()
  /** Records the disposal of this round's client. The first one is slow. */
  function watch(round: number) {
    const client = connection.client()
    const { dispose } = client
    client.dispose = async () => {
      disposed.push(round)
      await dispose()
      if (round === 1) await mayEnd
    }
    return client
  }

  for (const round of [1, 2]) {
    await until('the cluster answers', () =>
      ask().then(
        () => true,
        () => false,
      ),
    )
    const client = watch(round)
    for (const node of cluster.nodes) node.stop()
    // Many operations meet the outage at the same time.
    await until('the client is replaced', async () => {
      const outcomes = await Promise.allSettled(Array.from({ length: 8 }, ask))
      t.ok(outcomes.every(({ status }) => status === 'rejected'))
      return connection.client() !== client
    })
    t.equal(disposed.filter((one) => one === round).length, 1)
    for (const node of cluster.nodes) await node.start()
  }
  await until('the cluster answers', () =>
    ask().then(
      () => true,
      () => false,
    ),
  )
  const last = watch(3)
  t.equal(connection.client(), last, 'a client that works is kept')

  let isClosed = false
  const closing = connection.close().then(() => {
    isClosed = true
  })
  await until('the client in use is disposed, too', () => disposed.includes(3))
  t.equal(isClosed, false, 'to close waits for the replaced ones')
  finish()
  await closing
  t.equal(disposed.filter((round) => round === 1).length, 1)
})

async function readOne(connection: Connection): Promise<void> {
  // Runs to the end, because the driver's `dispose` waits for an abandoned read.
  for await (const _ of connection.client().readAll({ maxCount: 1 }));
}
