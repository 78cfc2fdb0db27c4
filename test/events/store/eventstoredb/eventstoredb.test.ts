import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { binaryEvent, EventStoreDBClient, jsonEvent, MaxAppendSizeExceededError } from '@eventstore/db-client'
import sharedPb from '@eventstore/db-client/generated/shared_pb.js'
import streamsService from '@eventstore/db-client/generated/streams_grpc_pb.js'
import streamsPb from '@eventstore/db-client/generated/streams_pb.js'
import { Server, ServerCredentials, type ServerWritableStream, status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { type EventStore, LOG_START, StoreUnavailable } from '../../../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../../../src/events/store/eventstoredb/eventstoredb.ts'
import { startEventStoreDouble } from '../../../doubles/eventstore.ts'
import { all, eventStoreContract, follow, newEvent, newStream } from '../../event-store-contract.ts'

/** Simulates a real server: two servers of Mergelog meet appends that are accepted and not yet readable. */
const FLUSH_MS = 3

function opened(t: Test, url: string): EventStore {
  const store = openEventStoreDb(url)
  t.teardown(() => store.close())
  return store
}

async function started(t: Test, flushMs = 0) {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db'), flushMs })
  t.teardown(() => double.close())
  return double
}

t.test('the contract, with the protocol double', async (t) => {
  eventStoreContract(t, async (t) => {
    // The contract concerns the store's behaviour. A busy machine may exceed the limits of a server.
    const url = `${(await started(t, FLUSH_MS)).url}&defaultDeadline=60000&keepAliveTimeout=60000`
    return { store: opened(t, url), reopen: async () => openEventStoreDb(url) }
  })
})

const realUrl = process.env.TEST_EVENTSTORE_URL
t.test(
  'the contract, with a real server',
  { skip: realUrl === undefined ? 'TEST_EVENTSTORE_URL is not set' : false },
  async (t) => {
    if (realUrl === undefined) return
    eventStoreContract(t, async (t) => ({
      store: opened(t, realUrl),
      reopen: async () => openEventStoreDb(realUrl),
    }))
  },
)

t.test('an unreachable server quickly gives StoreUnavailable', async (t) => {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
  await double.close()
  await unavailable(t, opened(t, double.url))
})

t.test('a server that accepts and never answers gives StoreUnavailable after the deadline', async (t) => {
  const sockets: Socket[] = []
  const silent = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1')
  t.teardown(() => {
    silent.close()
    for (const socket of sockets) socket.destroy()
  })
  await once(silent, 'listening')
  const address = silent.address()
  const port = typeof address === 'object' ? address?.port : undefined
  await unavailable(t, opened(t, `esdb://127.0.0.1:${port}?tls=false&default-deadline=300`))
})

t.test('a server that goes away gives StoreUnavailable, and works again when it is back', async (t) => {
  const file = join(t.testdir(), 'events.db')
  let double = await startEventStoreDouble({ port: 0, file })
  const store = opened(t, double.url)
  t.teardown(() => double.close())
  const stream = newStream()
  const acknowledged: string[] = []
  let revision = -1
  for (let round = 0; round < 2; round++) {
    const reader = follow(t, store, LOG_START)
    for (let n = 0; n < 3; n++) {
      const event = newEvent({ round, n })
      revision = (await store.append(stream, [event], revision < 0 ? 'no-stream' : revision)).revision
      acknowledged.push(event.id)
    }
    await reader.has(acknowledged.length)
    const reading = store.readAll()[Symbol.asyncIterator]()
    await reading.next()
    await double.close()
    await t.rejects(reader.done, StoreUnavailable, 'the subscription ends with the error')
    await unavailable(t, store)
    double = await startEventStoreDouble({ port: double.port, file })
    t.strictSame(
      (await all(store.readStream(stream))).map(({ id }) => id),
      acknowledged,
    )
  }
})

/** Retries as long as the server is down. */
async function answered<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
    }
  }
}

t.test('a writer that retries while the server restarts writes each event once', async (t) => {
  const file = join(t.testdir(), 'events.db')
  let double = await startEventStoreDouble({ port: 0, file })
  const store = opened(t, double.url)
  t.teardown(() => double.close())
  const streams = Array.from({ length: 8 }, newStream)
  let restarts = 0
  const writing = streams.map(async (stream) => {
    const ids: string[] = []
    while (restarts < 3) {
      const event = newEvent()
      await answered(() => store.append(stream, [event], 'any'))
      ids.push(event.id)
    }
    return ids
  })
  while (restarts < 3) {
    // The client may not have detected yet that the server is back.
    const seen = await answered(() => store.lastPosition())
    const reader = follow(t, store, seen)
    await reader.has(40)
    await double.close()
    double = await startEventStoreDouble({ port: double.port, file })
    restarts += 1
  }
  const written = await Promise.all(writing)
  for (const [i, stream] of streams.entries()) {
    const read = (await all(store.readStream(stream))).map(({ id }) => id)
    if (JSON.stringify(read) !== JSON.stringify(written[i])) t.fail(`${stream} differs from what was written`)
  }
})

t.test('a broken connection does not disturb the appends of another', async (t) => {
  const one = await startEventStoreDouble({ port: 0, file: join(t.testdir({ one: {} }), 'one', 'events.db') })
  const other = await started(t)
  const broken = opened(t, one.url)
  const healthy = opened(t, other.url)
  for (const store of [broken, healthy]) await store.append(newStream(), [newEvent()], 'any')
  let running = true
  const writers = Array.from({ length: 10 }, async () => {
    const stream = newStream()
    let written = 0
    for (; running; written++) await healthy.append(stream, [newEvent()], 'any')
    return (await all(healthy.readStream(stream))).length === written
  })
  const failing = Array.from({ length: 20 }, () => broken.append(newStream(), [newEvent()], 'any'))
  const outcomes = Promise.allSettled(failing)
  await one.close()
  await outcomes
  await unavailable(t, broken)
  running = false
  t.ok((await Promise.all(writers)).every(Boolean))
})

t.test('events that Mergelog did not write are left out of the log and of streams', async (t) => {
  const { url } = await started(t)
  const store = opened(t, url)
  const client = EventStoreDBClient.connectionString(url)
  t.teardown(() => client.dispose())
  const [stream, foreign] = [newStream(), newStream()]
  const ours = [newEvent({ n: 0 }), newEvent({ n: 1 })]
  const noise = async () => {
    await client.setStreamMetadata(foreign, { maxCount: 1000 })
    for (let n = 0; n < 15; n++) {
      await client.appendToStream(foreign, [
        jsonEvent({ type: 'OrderPlaced', data: { n } }),
        jsonEvent({ type: 'OrderPlaced', data: { n }, metadata: { at: 'noon' } }),
        binaryEvent({ type: 'Picture', data: Buffer.from([0, 255]) }),
      ])
    }
    await client.appendToStream('$own', jsonEvent({ type: 'NotSystem', data: {} }))
  }
  await noise()
  await store.append(stream, ours.slice(0, 1), 'no-stream')
  await noise()
  const { position } = await store.append(stream, ours.slice(1), 0)
  await noise()

  const ids = (events: { id: string }[]) => events.map(({ id }) => id)
  t.strictSame(ids(await all(store.readAll())), ids(ours))
  t.strictSame(ids(await all(store.readAll({ maxCount: 1 }))), ids(ours.slice(0, 1)))
  t.strictSame(ids(await all(store.readAll({ direction: 'backwards' }))), ids(ours).reverse())
  t.strictSame(ids(await all(store.readAll({ direction: 'backwards', from: position, maxCount: 1 }))), [
    ours[0]?.id,
  ])
  t.ok((await store.lastPosition()) > position, 'the end of the log may be an event of others')
  const reader = follow(t, store, LOG_START)
  await reader.has(2)
  t.strictSame(ids(reader.events), ids(ours))
  const resumed = follow(t, store, reader.events[0]?.position ?? 0)
  await resumed.has(1)
  t.strictSame(ids(resumed.events), ids(ours.slice(1)), 'a subscription resumes across the left-out events')
  t.strictSame(await all(store.readStream(foreign)), [])
})

t.test('an empty log has no last position', async (t) => {
  const { url } = await started(t)
  const store = opened(t, url)
  t.equal(await store.lastPosition(), LOG_START)
  t.strictSame(await all(store.readAll()), [])
})

t.test('an append that is too large for the server gives MaxAppendSizeExceededError', async (t) => {
  const { url } = await started(t)
  const store = opened(t, url)
  const stream = newStream()
  const large = () => newEvent({ text: 'x'.repeat(600_000) })
  const [outcome] = await Promise.allSettled([store.append(stream, [large(), large()], 'any')])
  t.type(outcome.status === 'rejected' && outcome.reason, MaxAppendSizeExceededError)
  t.strictSame(await all(store.readStream(stream)), [])
})

t.test('an invalid expected revision is a mistake of the caller', async (t) => {
  const { url } = await started(t)
  const store = opened(t, url)
  for (const expected of [-1, 1.5, Number.NaN]) {
    await t.rejects(store.append(newStream(), [newEvent()], expected), RangeError)
  }
})

t.test('an invalid connection string is refused at the start', async (t) => {
  t.throws(() => openEventStoreDb('http://localhost:2113'), /esdb:\/\//)
  t.throws(() => openEventStoreDb('esdb://localhost:port'), /name:port/)
})

t.test('a position beyond the safe integers is an error, not a wrong number', async (t) => {
  const store = opened(t, await serving(t, sendFarEvent))
  await t.rejects(all(store.readAll()), /position 9007199254740993 is beyond 2\^53/)
  await t.rejects(store.lastPosition(), RangeError)
})

t.test('an overloaded server gives StoreUnavailable, a broken server another error', async (t) => {
  let code = status.RESOURCE_EXHAUSTED
  const store = opened(t, await serving(t, (call) => call.emit('error', { code, details: 'so it is' })))
  for (code of [status.RESOURCE_EXHAUSTED, status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.ABORTED]) {
    await t.rejects(store.lastPosition(), StoreUnavailable, status[code])
    await t.rejects(store.lastPosition(), { message: 'EventStoreDB: so it is' }, 'without codes of gRPC')
  }
  for (code of [status.UNKNOWN, status.INTERNAL]) {
    await t.rejects(store.lastPosition(), { code, message: /so it is/ }, status[code])
  }
})

t.test('the error for an address without a server names the address and the remedy', async (t) => {
  const store = openEventStoreDb('esdb://127.0.0.1:1?tls=false')
  t.teardown(() => store.close())
  const problem =
    'EventStoreDB does not answer: 127.0.0.1:1: no server listens on this port: start it, or correct the port (ECONNREFUSED)'
  await t.rejects(store.lastPosition(), { message: problem })
})

/** The client's own timeout. The store must fail well before it. */
const CLIENT_TIMEOUT_MS = 10_000

/** Every operation must give StoreUnavailable. */
async function unavailable(t: Test, store: EventStore): Promise<void> {
  const signal = AbortSignal.timeout(60_000)
  const operations: [string, () => Promise<unknown>][] = [
    ['append', () => store.append(newStream(), [newEvent()], 'any')],
    ['readStream', () => all(store.readStream(newStream()))],
    ['readAll', () => all(store.readAll())],
    ['lastPosition', () => store.lastPosition()],
    ['subscribe', () => all(store.subscribe({ after: LOG_START, signal }))],
  ]
  for (const [name, operation] of operations) {
    const begin = performance.now()
    await t.rejects(operation(), StoreUnavailable, name)
    const took = performance.now() - begin
    if (took > CLIENT_TIMEOUT_MS) t.fail(`${name} took ${took} ms to fail`)
  }
}

type ReadCall = ServerWritableStream<streamsPb.ReadReq, streamsPb.ReadResp>

/** A server that gives the same answer to every read, for answers that the double never gives. */
async function serving(t: Test, read: (call: ReadCall) => void): Promise<string> {
  const server = new Server()
  server.addService(streamsService.StreamsService, { read })
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    )
  })
  t.teardown(() => server.forceShutdown())
  return `esdb://127.0.0.1:${port}?tls=false`
}

function sendFarEvent(call: ReadCall): void {
  const position = (2n ** 53n + 1n).toString()
  const recorded = new streamsPb.ReadResp.ReadEvent.RecordedEvent()
  recorded.setId(new sharedPb.UUID().setString(newEvent().id))
  recorded.setStreamIdentifier(new sharedPb.StreamIdentifier().setStreamName(Buffer.from(newStream())))
  recorded.setStreamRevision('0')
  recorded.setCommitPosition(position)
  recorded.setPreparePosition(position)
  recorded.getMetadataMap().set('type', 'FarAway').set('content-type', 'application/json').set('created', '0')
  recorded.setData(Buffer.from('{}'))
  recorded.setCustomMetadata(Buffer.from(JSON.stringify(newEvent().metadata)))
  const read = new streamsPb.ReadResp.ReadEvent().setEvent(recorded).setCommitPosition(position)
  call.write(new streamsPb.ReadResp().setEvent(read))
  call.end()
}
