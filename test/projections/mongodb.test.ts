import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { MongoClient } from 'mongodb'
import t from 'tap'
import { StoreUnavailable } from '../../src/events/event-store.ts'
import { openMongoReadStore } from '../../src/projections/mongodb.ts'
import { startMongoDouble } from '../doubles/mongodb.ts'
import { cards, put, readStoreContract } from './read-store-contract.ts'

/** The driver's own timeout. The store must fail well before it. */
const DRIVER_TIMEOUT_MS = 30_000
const realServer = process.env.TEST_MONGODB_URL

t.test('against the double', async (t) => {
  const double = await startMongoDouble({ port: 0, file: join(t.testdir(), 'mongodb.db') })
  t.teardown(() => double.close())
  readStoreContract(t, () => storesOf(double.url))
})

t.test(
  'against a real server',
  { skip: realServer === undefined && 'TEST_MONGODB_URL names no server' },
  async (t) => {
    const url = realServer ?? ''
    readStoreContract(t, (t) => {
      const database = newDatabase()
      t.teardown(() => dropDatabase(url, database))
      return () => openMongoReadStore(url, { database })
    })
  },
)

t.test('the database is the one in the options, else the one in the URL, else mergelog', async (t) => {
  const double = await startMongoDouble({ port: 0, file: join(t.testdir(), 'mongodb.db') })
  t.teardown(() => double.close())
  const stores = [
    openMongoReadStore(`${double.url}/from_url?appName=test`, { database: 'from_options' }),
    openMongoReadStore(`${double.url}/from%2Durl?appName=test`),
    openMongoReadStore(double.url),
    openMongoReadStore(`${double.url}/?appName=test`),
  ]
  for (const store of stores) {
    await store.prepare([cards])
    await store.close()
  }
  const client = new MongoClient(double.url)
  t.teardown(() => client.close())
  const { databases } = await client.db().admin().listDatabases()
  t.strictSame(databases.map(({ name }) => name).sort(), ['from-url', 'from_options', 'mergelog'])
})

t.test('after every prepare, the indexes are the declared ones, each with the id at its end', async (t) => {
  const double = await startMongoDouble({ port: 0, file: join(t.testdir(), 'mongodb.db') })
  t.teardown(() => double.close())
  const store = openMongoReadStore(double.url)
  t.teardown(() => store.close())
  const client = new MongoClient(double.url)
  t.teardown(() => client.close())
  const indexes = async () =>
    (await client.db('mergelog').collection('cards').indexes()).map(({ key }) => key)

  await store.prepare([cards])
  const ofArrays = [{ 'body.labels': 1 }, { 'body.scores': 1 }, { 'body.words': 1 }]
  const ofKey = { 'body.key': 1, _id: 1 }
  t.strictSame(await indexes(), [
    { _id: 1 },
    { 'body.state': 1, 'body.rank': -1, _id: 1 },
    ofKey,
    ...ofArrays,
  ])
  await store.prepare([{ ...cards, indexes: [[['key', 1]], [['open', -1]]], arrays: ['words'] }])
  t.strictSame(await indexes(), [{ _id: 1 }, ofKey, { 'body.words': 1 }, { 'body.open': -1, _id: 1 }])
  await store.clear(cards)
  t.equal((await indexes()).length, 6, 'a cleared collection has its indexes')
})

t.test('a server that goes away is unavailable within 5 s, and is used again when it is back', async (t) => {
  const file = join(t.testdir(), 'mongodb.db')
  const first = await startMongoDouble({ port: 0, file })
  const store = openMongoReadStore(first.url)
  t.teardown(() => store.close())
  await store.prepare([cards])
  await store.apply([put('a', { key: 'a' })], new Map([['reader', { position: 1, version: 1 }]]))
  await first.close()

  const calls = (): Promise<unknown>[] => [
    store.ping(),
    store.get(cards, 'a'),
    store.find(cards, {}),
    store.count(cards, {}),
    store.checkpoint('reader'),
    store.apply([put('a', { key: 'b' }, 2)], new Map()),
    store.prepare([cards]),
  ]
  const start = performance.now()
  const answers = await Promise.allSettled(calls())
  t.ok(performance.now() - start < DRIVER_TIMEOUT_MS)
  for (const answer of answers) {
    t.ok(answer.status === 'rejected' && answer.reason instanceof StoreUnavailable)
  }

  const second = await startMongoDouble({ port: first.port, file })
  t.teardown(() => second.close())
  await until(() => store.ping())
  t.strictSame(await store.get(cards, 'a'), { key: 'a' })
  t.strictSame(await store.checkpoint('reader'), { position: 1, version: 1 })
  await store.apply([put('a', { key: 'b' }, 2)], new Map())
  t.strictSame(await store.get(cards, 'a'), { key: 'b' })
})

t.test(
  'a server that stops answering is unavailable after a limited time, and is used again when it answers',
  async (t) => {
    const double = await startMongoDouble({ port: 0, file: join(t.testdir(), 'mongodb.db') })
    t.teardown(() => double.close())
    const proxy = await startProxy(double.port)
    t.teardown(() => proxy.close())
    const store = openMongoReadStore(`mongodb://127.0.0.1:${proxy.port}`)
    t.teardown(() => store.close())
    await store.prepare([cards])
    await store.apply([put('a', { key: 'a' })], new Map())

    proxy.silence(true)
    const start = performance.now()
    const answers = await Promise.allSettled([
      store.get(cards, 'a'),
      store.apply([put('a', { key: 'b' }, 2)], new Map()),
    ])
    t.ok(performance.now() - start < DRIVER_TIMEOUT_MS, `${performance.now() - start} ms`)
    for (const answer of answers) {
      t.ok(answer.status === 'rejected' && answer.reason instanceof StoreUnavailable)
    }
    proxy.silence(false)
    await until(() => store.ping())
    await store.apply([put('a', { key: 'c' }, 3)], new Map())
    t.strictSame(await store.get(cards, 'a'), { key: 'c' })
  },
)

t.test('an error of a document itself is not StoreUnavailable', async (t) => {
  const double = await startMongoDouble({ port: 0, file: join(t.testdir(), 'mongodb.db') })
  t.teardown(() => double.close())
  const store = openMongoReadStore(double.url)
  t.teardown(() => store.close())
  await store.prepare([cards])
  const large = put('large', { key: 'large', note: 'x'.repeat(17 * 1024 * 1024) })
  const error: unknown = await store
    .apply([put('a', { key: 'a' }), large], new Map())
    .catch((e: unknown) => e)
  t.type(error, Error)
  t.notOk(error instanceof StoreUnavailable)
})

const newDatabase = () => `mergelog_test_${randomUUID().replaceAll('-', '')}`

function storesOf(url: string) {
  const database = newDatabase()
  return () => openMongoReadStore(url, { database })
}

async function dropDatabase(url: string, database: string): Promise<void> {
  const client = new MongoClient(url)
  await client.db(database).dropDatabase()
  await client.close()
}

/** Repeats the attempt until it works. The test's own timeout ends it. */
async function until(attempt: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
    }
  }
}

/** A proxy in front of a server. It can fall silent: connections stay open, but no data passes. */
async function startProxy(target: number) {
  const pairs = new Set<[Socket, Socket]>()
  let silent = false
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    const pair: [Socket, Socket] = [client, upstream]
    pairs.add(pair)
    for (const [from, to] of [pair, [upstream, client] satisfies [Socket, Socket]]) {
      from.on('data', (data) => silent || to.write(data))
      from.on('error', () => to.destroy())
      from.on('close', () => {
        to.destroy()
        pairs.delete(pair)
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new TypeError('the proxy has no port')
  return {
    port: address.port,
    silence(now: boolean) {
      silent = now
    },
    async close() {
      for (const pair of pairs) for (const socket of pair) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
