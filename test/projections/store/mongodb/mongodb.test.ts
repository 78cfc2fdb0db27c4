import { randomUUID } from 'node:crypto'
import { type LookupAddress, promises } from 'node:dns'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { MongoClient } from 'mongodb'
import t, { type Test } from 'tap'
import { StoreDenied, StoreUnavailable } from '../../../../src/events/store/event-store.ts'
import { clientOptions, secretsDatabase } from '../../../../src/projections/store/mongodb/database.ts'
import { openMongoReadStore } from '../../../../src/projections/store/mongodb/mongodb.ts'
import { startMongoDouble } from '../../../doubles/mongodb.ts'
import { cards, put, readStoreContract } from '../../read-store-contract.ts'

const NONE = new Map()
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
  await store.prepare([{ ...cards, indexes: [{ key: 1 }, { open: -1 }], arrays: ['words'] }])
  t.strictSame(await indexes(), [{ _id: 1 }, ofKey, { 'body.words': 1 }, { 'body.open': -1, _id: 1 }])
  await store.clear(cards)
  t.equal((await indexes()).length, 6, 'a cleared collection has its indexes')
})

t.test('a failing server is unavailable within 5 s, and is used again when it is back', async (t) => {
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

async function faulty(t: Test, replicaSet?: string) {
  const file = join(t.testdir(), 'mongodb.db')
  const double = await startMongoDouble({ port: 0, file, ...(replicaSet && { replicaSet }) })
  t.teardown(() => double.close())
  const store = openMongoReadStore(`${double.url}/?${replicaSet ? `replicaSet=${replicaSet}` : ''}`)
  t.teardown(() => store.close())
  await store.prepare([cards])
  await store.apply([put('a', { key: 'a' })], NONE)
  return { double, store }
}

t.test(
  'codes 43, 100, 175, 292, 365 and other temporary ones are StoreUnavailable, and the store is used again',
  async (t) => {
    const { double, store } = await faulty(t)
    for (const [code, codeName] of [
      [43, 'CursorNotFound'],
      [175, 'QueryPlanKilled'],
      [292, 'QueryExceededMemoryLimitNoDiskUseAllowed'],
      [365, 'TemporarilyUnavailable'],
      [13, 'Unauthorized'],
      [50, 'MaxTimeMSExpired'],
    ] as const) {
      const times = code === 43 || code === 175 ? 2 : 1
      double.fail({ command: 'aggregate', times, with: { code, codeName } })
      const kind = code === 13 ? StoreDenied : StoreUnavailable
      await t.rejects(store.find(cards, {}), kind, codeName)
      double.fail({ command: 'aggregate', with: { code: 12345, codeName: 'Other' } })
      await t.rejects(store.find(cards, {}), { code: 12345 }, 'another code is another error')
      t.equal((await store.find(cards, {})).length, 1)
    }
    for (const code of [64, 100]) {
      double.fail({ command: 'update', with: { writeConcernError: code } })
      await t.rejects(store.apply([put('b', { key: 'b' })], NONE), StoreUnavailable, `write concern ${code}`)
      await store.apply([put('b', { key: 'b' })], NONE)
    }
  },
)

t.test('codes 43 and 175: a read that another call interrupted is retried', async (t) => {
  const { double, store } = await faulty(t)
  for (const code of [43, 175]) {
    double.fail({ command: 'aggregate', with: { code, codeName: 'Interrupted' } })
    t.equal((await store.find(cards, {})).length, 1)
  }
})

t.test(
  'elections and retryable writes: a write whose answer is lost is executed once, and the driver gets its answer',
  async (t) => {
    const { double, store } = await faulty(t, 'rs0')
    double.fail({ command: 'update', with: 'cut after it' })
    await store.apply([put('a', { key: 'b' }, 2)], new Map([['reader', { position: 2, version: 1 }]]))
    t.strictSame(await store.get(cards, 'a'), { key: 'b' })
    double.fail({ command: 'update', with: { code: 189, codeName: 'PrimarySteppedDown' }, times: 9 })
    await t.rejects(store.apply([put('a', { key: 'c' }, 3)], NONE), StoreUnavailable)
  },
)

t.test(
  'maxTimeMS: long walks have no limit; all other reads are StoreUnavailable when they pass theirs',
  async (t) => {
    const { double, store } = await faulty(t)
    double.setSlow(true)
    t.equal((await store.range(cards, { limit: 10 })).length, 1)
    await store.prepare([cards])
    await store.apply([put('b', { key: 'b' })], NONE)
    const reads: (() => Promise<unknown>)[] = [
      () => store.get(cards, 'a'),
      () => store.find(cards, {}, { limit: 1 }),
      () => store.count(cards, {}),
      () => store.page(cards, {}, { limit: 1 }),
    ]
    await Promise.all(reads.map((read) => t.rejects(read, StoreUnavailable)))
  },
)

t.test('getMany of a big batch is several commands of bounded size', async (t) => {
  const { double, store } = await faulty(t)
  const before = double.commands.length
  await store.getMany(
    cards,
    Array.from({ length: 2500 }, (_, i) => `${i}`),
  )
  t.strictSame(double.commands.slice(before), ['find', 'find', 'find'])
})

t.test('a list = one round trip to MongoDB: the page and the number of all rows', async (t) => {
  const { double, store } = await faulty(t)
  const before = double.commands.length
  const page = await store.page(cards, { key: 'a' }, { sort: [['key', 1]], limit: 30 })
  t.strictSame(page, { rows: [{ body: { key: 'a' } }], total: 1 })
  t.strictSame(double.commands.slice(before), ['aggregate'])
})

t.test('a start drops only undeclared indexes of Mergelog: those of a DBA stay', async (t) => {
  const { double, store } = await faulty(t)
  const client = new MongoClient(double.url)
  t.teardown(() => client.close())
  const collection = client.db('mergelog').collection('cards')
  await collection.createIndex({ 'body.rank': 1 })
  await collection.createIndex({ 'body.key': -1, 'body.note': 1 }, { name: 'for the reports' })
  await collection.createIndex({ 'body.gone': 1, _id: 1 }, { name: 'mergelog_body.gone_1__id_1' })
  await store.prepare([{ ...cards, indexes: [{ key: 1 }], arrays: [] }])
  const names = (await collection.indexes()).map(({ name }) => name)
  t.strictSame(names, ['_id_', 'mergelog_body.key_1__id_1', 'body.rank_1', 'for the reports'])
})

t.test("Mergelog's options override those of the URL; the URL's time limits count", async (t) => {
  const { double } = await faulty(t)
  const url = `${double.url}/?w=0&journal=false&readPreference=secondary&serverSelectionTimeoutMS=300`
  const store = openMongoReadStore(url)
  t.teardown(() => store.close())
  await store.apply([put('b', { key: 'b' })], NONE)
  t.strictSame(await store.get(cards, 'b'), { key: 'b' })
  t.match(clientOptions(url), {
    readPreference: 'primary',
    readConcern: { level: 'majority' },
    wtimeoutMS: 10_000,
  })
  t.notOk('serverSelectionTimeoutMS' in clientOptions(url))
  t.match(
    new MongoClient('mongodb://a/?wtimeoutMS=2000', clientOptions('mongodb://a/?wtimeoutMS=2000')).options,
    {
      writeConcern: { w: 'majority', journal: true, wtimeoutMS: 2000 },
      retryWrites: true,
    },
  )
})

t.test(
  'mongodb+srv: hosts come from the name service; without an answer the store is unavailable',
  async (t) => {
    const { double } = await faulty(t)
    let isThere = false
    const resolve = promises.resolve
    t.teardown(() => Object.assign(promises, { resolve }))
    Object.assign(promises, {
      async resolve(name: string, type: string) {
        const missing = Object.assign(new Error(`query${type} ENOTFOUND ${name}`), {
          code: 'ENOTFOUND',
          syscall: 'query',
        })
        if (!isThere || type === 'TXT') throw missing
        return [{ name: 'localhost.mergelog.test', port: double.port, priority: 0, weight: 0 }]
      },
    })
    const lookup = (_host: string, _options: object, found: (error: null, all: LookupAddress[]) => void) =>
      found(null, [{ address: '127.0.0.1', family: 4 }])
    const store = openMongoReadStore('mongodb+srv://cluster.mergelog.test/srv?tls=false', { lookup })
    t.teardown(() => store.close())
    await t.rejects(store.ping(), StoreUnavailable)
    isThere = true
    await until(() => store.ping())
  },
)

t.test("the secrets' database is named after the main one", async (t) => {
  t.equal(secretsDatabase('mongodb://127.0.0.1/forge'), 'forge_secrets')
  t.equal(secretsDatabase('mongodb://127.0.0.1'), 'mergelog_secrets')
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

/** Retries until it succeeds. The test's own timeout ends it. */
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
