import { join } from 'node:path'
import t, { type Test } from 'tap'
import { LOG_START, StoreUnavailable } from '../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../src/events/store/eventstoredb/eventstoredb.ts'
import { startEventStoreCluster } from '../doubles/eventstore.ts'
import { until } from '../until.ts'
import { all, follow, newEvent, newStream } from './event-store-contract.ts'

async function started(t: Test) {
  const cluster = await startEventStoreCluster({ nodes: 3, file: join(t.testdir(), 'events.db') })
  t.teardown(() => cluster.close())
  return cluster
}

/** Retries the operation while the store is unavailable. */
async function again<T>(operation: () => Promise<T>): Promise<T> {
  let result: { value: T } | undefined
  await until('the store is back', async () => {
    try {
      result = { value: await operation() }
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
    }
    return result !== undefined
  })
  if (result === undefined) throw new Error('the store did not come back')
  return result.value
}

t.test('when all nodes are down, operations give StoreUnavailable, and the process continues', async (t) => {
  const { url, discoverUrl, nodes } = await started(t)
  for (const hosts of [url, discoverUrl]) {
    const store = openEventStoreDb(`${hosts}&discoveryInterval=20`)
    t.teardown(() => store.close())
    const stream = newStream()
    await store.append(stream, [newEvent()], 'no-stream')
    const readers = Array.from({ length: 8 }, () => follow(t, store, LOG_START))
    for (const reader of readers) await reader.has(1)
    // Without the others the first node stops answering, but keeps the connections of the readers. They break while the
    // next operation searches for a node.
    const [first, ...others] = nodes
    for (const { stop } of others) stop()
    await t.rejects(store.lastPosition(), StoreUnavailable)
    const searching = t.rejects(store.lastPosition(), StoreUnavailable)
    first?.stop()
    await searching
    await Promise.all(readers.map(({ done }) => t.rejects(done, StoreUnavailable)))
    // The search for a node fails several times. tap fails when a rejection is not handled.
    for (let round = 0; round < 3; round++) {
      const operations = [
        store.append(stream, [newEvent()], 'any'),
        store.append(newStream(), [newEvent()], 'no-stream'),
        all(store.readStream(stream)),
        all(store.readAll()),
        store.lastPosition(),
        all(store.subscribe({ after: LOG_START, signal: new AbortController().signal })),
      ]
      for (const outcome of await Promise.allSettled(operations)) {
        if (outcome.status === 'fulfilled') t.fail('an operation succeeded without a node')
        else if (!(outcome.reason instanceof StoreUnavailable)) t.error(outcome.reason)
      }
    }
    for (const { start } of nodes) await start()
    await again(() => store.append(stream, [newEvent()], 'stream-exists'))
    t.ok((await all(store.readStream(stream))).length >= 2)
  }
})

t.test('when the leader dies, the next leader takes the writes', async (t) => {
  const { url, nodes, elect } = await started(t)
  const store = openEventStoreDb(url)
  t.teardown(() => store.close())
  const stream = newStream()
  await store.append(stream, [newEvent()], 'no-stream')
  nodes[0]?.stop()
  await again(() => store.append(stream, [newEvent()], 0))
  await nodes[0]?.start()
  elect(2)
  await again(() => store.append(stream, [newEvent()], 1))
  t.strictSame(
    (await all(store.readStream(stream))).map(({ revision }) => revision),
    [0, 1, 2],
  )
})

t.test('after an election, appends move from the follower to the new leader without a failure', async (t) => {
  const { url, access, elect } = await started(t)
  const store = openEventStoreDb(url)
  t.teardown(() => store.close())
  const stream = newStream()
  await store.append(stream, [newEvent()], 'no-stream')
  for (const leader of [1, 2, 0]) {
    elect(leader)
    await Promise.all(Array.from({ length: 8 }, () => store.append(newStream(), [newEvent()], 'no-stream')))
    const toLeader: boolean[] = []
    access.called = (what, _, isLeader) => what === 'write' && toLeader.push(isLeader)
    await store.append(stream, [newEvent()], 'any')
    t.strictSame(toLeader, [true], `node ${leader} leads`)
  }
})
