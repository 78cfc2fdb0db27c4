import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import {
  type AllStreamSubscription,
  ErrorType,
  EventStoreDBClient,
  eventTypeFilter,
  type Filter,
  jsonEvent,
  type Position,
  streamNameFilter,
} from '@eventstore/db-client'
import features from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js'
import sharedPb from '@eventstore/db-client/generated/shared_pb.js'
import streamsService from '@eventstore/db-client/generated/streams_grpc_pb.js'
import streamsPb from '@eventstore/db-client/generated/streams_pb.js'
import { credentials } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { all, newStream } from '../events/event-store-contract.ts'
import { program } from '../program.ts'
import { startEventStoreDouble } from './eventstore.ts'
import { refusal } from './refusal.ts'

async function started(t: Test) {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'eventstore.db') })
  const client = EventStoreDBClient.connectionString(double.url)
  t.teardown(async () => {
    await client.dispose()
    await double.close()
  })
  return { double, client }
}

function numbered(n: number, type = 'Numbered') {
  return jsonEvent({ type, data: { n } })
}

async function revisions(client: EventStoreDBClient, stream: string): Promise<number[]> {
  const read = await all(client.readStream(stream))
  return read.map(({ event }) => Number(event?.revision))
}

t.test('batch appends and plain appends have the same effect', async (t) => {
  const { client } = await started(t)
  // With credentials the client sends a plain append. An insecure channel does not send the credentials.
  for (const options of [{}, { credentials: { username: 'admin', password: 'changeit' } }]) {
    const stream = newStream()
    const wrong = async (expectedRevision: 'no_stream' | 'stream_exists' | bigint) =>
      refusal(client.appendToStream(stream, numbered(9), { expectedRevision, ...options }))
    t.match(await wrong('stream_exists'), {
      type: ErrorType.WRONG_EXPECTED_VERSION,
      streamName: stream,
      expectedVersion: 'stream_exists',
      actualVersion: 'no_stream',
    })
    t.match(await wrong(4n), { expectedVersion: 4n, actualVersion: 'no_stream' })
    const events = [numbered(0), numbered(1)]
    const first = await client.appendToStream(stream, events, { expectedRevision: 'no_stream', ...options })
    t.match(first, { success: true, nextExpectedRevision: 1n })
    t.strictSame(
      await client.appendToStream(stream, events, { expectedRevision: 'no_stream', ...options }),
      first,
    )
    t.match(await wrong('no_stream'), { expectedVersion: 'no_stream', actualVersion: 1n })
    t.match(await wrong(0n), { expectedVersion: 0n, actualVersion: 1n })
    await client.appendToStream(stream, numbered(2), { expectedRevision: 'stream_exists', ...options })
    await client.appendToStream(stream, numbered(3), { expectedRevision: 2n, ...options })
    await client.appendToStream(stream, numbered(4), options)
    t.strictSame(await revisions(client, stream), [0, 1, 2, 3, 4])
    const large = jsonEvent({ type: 'Large', data: { text: 'x'.repeat(1024 * 1024) } })
    t.match(await refusal(client.appendToStream(stream, large, options)), {
      type: ErrorType.MAXIMUM_APPEND_SIZE_EXCEEDED,
      maxAppendSize: 1024 * 1024,
    })
    t.equal((await revisions(client, stream)).length, 5)
  }
})

t.test('a batch that is sent in many parts is one append', async (t) => {
  const { client } = await started(t)
  const stream = newStream()
  const events = Array.from({ length: 100 }, (_, n) => numbered(n))
  await client.appendToStream(stream, events, { batchAppendSize: 500 })
  t.equal((await revisions(client, stream)).length, 100)
})

t.test('a deleted stream reads as missing, and new events begin after its last revision', async (t) => {
  const { client } = await started(t)
  const stream = newStream()
  t.match(await refusal(client.deleteStream(stream, { expectedRevision: 0n })), {
    type: ErrorType.WRONG_EXPECTED_VERSION,
  })
  await client.appendToStream(stream, [numbered(0), numbered(1)])
  t.match(await refusal(client.deleteStream(stream, { expectedRevision: 7n })), {
    type: ErrorType.WRONG_EXPECTED_VERSION,
    streamName: stream,
    expectedVersion: 7,
    actualVersion: 1n,
  })
  const { position } = await client.deleteStream(stream, { expectedRevision: 1n })
  t.ok(position)
  t.match(await refusal(all(client.readStream(stream))), { type: ErrorType.STREAM_NOT_FOUND })
  t.match(await refusal(client.appendToStream(stream, numbered(2), { expectedRevision: 'stream_exists' })), {
    type: ErrorType.STREAM_DELETED,
  })
  const again = await client.appendToStream(stream, numbered(2), { expectedRevision: 'no_stream' })
  t.equal(again.nextExpectedRevision, 2n)
  t.strictSame(await revisions(client, stream), [2])
  t.match(await client.getStreamMetadata(stream), { metadata: { truncateBefore: 2 } })
  await client.deleteStream(stream)
  await client.appendToStream(stream, numbered(3))
  t.strictSame(await revisions(client, stream), [3])
  const log = await all(client.readAll())
  t.equal(log.filter(({ event }) => event?.streamId === stream).length, 4, 'the log still has all events')
})

t.test('a stream with a tombstone can never be used again', async (t) => {
  const { client } = await started(t)
  const stream = newStream()
  await client.appendToStream(stream, numbered(0))
  t.match(await refusal(client.tombstoneStream(stream, { expectedRevision: 'no_stream' })), {
    type: ErrorType.WRONG_EXPECTED_VERSION,
  })
  await client.tombstoneStream(stream, { expectedRevision: 0n })
  const deleted = { type: ErrorType.STREAM_DELETED, streamName: stream }
  const withCredentials = { credentials: { username: 'admin', password: 'changeit' } }
  t.match(await refusal(all(client.readStream(stream))), deleted)
  t.match(await refusal(client.appendToStream(stream, numbered(1))), deleted, 'a batch append')
  t.match(
    await refusal(client.appendToStream(stream, numbered(1), withCredentials)),
    deleted,
    'a plain append',
  )
  t.match(await refusal(client.deleteStream(stream)), deleted)
  t.match(await refusal(client.tombstoneStream(stream)), deleted)
  const last = (await all(client.readAll())).at(-1)?.event
  t.match(last, { streamId: stream, type: '$streamDeleted', revision: 2n ** 63n - 1n })
  await client.tombstoneStream(newStream(), { expectedRevision: 'no_stream' })
})

t.test('the metadata of a stream limits the events that reads return', async (t) => {
  const { client } = await started(t)
  const stream = newStream()
  await client.appendToStream(
    stream,
    Array.from({ length: 6 }, (_, n) => numbered(n)),
  )
  await client.setStreamMetadata(stream, { truncateBefore: 2 })
  t.strictSame(await revisions(client, stream), [2, 3, 4, 5])
  const back = await all(client.readStream(stream, { direction: 'backwards', fromRevision: 'end' }))
  t.strictSame(
    back.map(({ event }) => Number(event?.revision)),
    [5, 4, 3, 2],
  )
  await client.setStreamMetadata(stream, { maxCount: 2 })
  t.strictSame(await revisions(client, stream), [4, 5])
  await client.appendToStream(stream, numbered(6))
  t.strictSame(await revisions(client, stream), [5, 6])
  const refused = await refusal(client.setStreamMetadata(stream, { maxAge: 10 }))
  t.match(refused, { message: /maxAge: not supported by the double/ })
})

t.test('reads begin and end as in EventStoreDB', async (t) => {
  const { client } = await started(t)
  const stream = newStream()
  await client.appendToStream(
    stream,
    Array.from({ length: 4 }, (_, n) => numbered(n)),
  )
  const read = async (options: Parameters<typeof client.readStream>[1]) =>
    (await all(client.readStream(stream, options))).map(({ event }) => Number(event?.revision))
  t.strictSame(await read({ fromRevision: 2n }), [2, 3])
  t.strictSame(await read({ fromRevision: 'end' }), [])
  t.strictSame(await read({ direction: 'backwards', fromRevision: 'start' }), [0])
  t.strictSame(await read({ direction: 'backwards', fromRevision: 2n, maxCount: 2 }), [2, 1])

  const ours = (await all(client.readAll())).filter(({ event }) => event?.streamId === stream)
  const second = ours[1]?.event?.position
  if (second === undefined) throw new Error('the log has less than two events')
  const readAll = async (options: Parameters<typeof client.readAll>[0]) =>
    (await all(client.readAll(options))).map(({ event }) => Number(event?.revision))
  t.strictSame(await readAll({ fromPosition: second }), [1, 2, 3], 'forwards: with the event at the position')
  t.strictSame(
    await readAll({ fromPosition: second, direction: 'backwards', maxCount: 1 }),
    [0],
    'backwards: only before it',
  )
  t.strictSame(await readAll({ fromPosition: 'end' }), [])
  t.strictSame(await readAll({ fromPosition: 'end', direction: 'backwards', maxCount: 2 }), [3, 2])
  t.strictSame(await readAll({ fromPosition: 'start', direction: 'backwards' }), [])
})

t.test('only the position of a record may be named, as positions have gaps', async (t) => {
  const { client } = await started(t)
  const stream = newStream()
  await client.appendToStream(stream, [numbered(0), numbered(1), numbered(2)])
  const positions: bigint[] = []
  for (const { event } of await all(client.readStream(stream))) positions.push(event?.position?.commit ?? 0n)
  const [first = 0n, second = 0n, last = 0n] = positions
  t.ok(second > first + 1n && last > second + 1n && last - second !== second - first, `${positions}`)
  const at = (commit: bigint) => ({ commit, prepare: commit })
  const subscribed = async (fromPosition: Position, filter?: Filter) => {
    const subscription = client.subscribeToAll({ fromPosition, ...(filter && { filter }) })
    const seen: unknown[] = []
    subscription.on('data', ({ event }) => seen.push(event?.revision))
    await Promise.race([once(subscription, 'caughtUp'), once(subscription, 'error')])
    await subscription.unsubscribe()
    return seen
  }
  const filter = eventTypeFilter({ prefixes: ['Numbered'] })

  for (const wrong of [second - 1n, second + 1n, first - 1n]) {
    for (const direction of ['forwards', 'backwards'] as const) {
      t.match(await refusal(all(client.readAll({ fromPosition: at(wrong), direction }))), {
        type: ErrorType.UNKNOWN,
        message: '2 UNKNOWN: Unexpected ReadAllResult: Error',
      })
    }
    for (const options of [{}, { filter }]) {
      t.match(await refusal(all(client.subscribeToAll({ fromPosition: at(wrong), ...options }))), {
        type: ErrorType.UNKNOWN,
        message: '2 UNKNOWN: Exception was thrown by handler.',
      })
    }
  }
  t.strictSame(await subscribed(at(second)), [2n])
  t.strictSame(await subscribed(at(second), filter), [2n])

  for (const beyond of [last + 1n, last + 100_000n]) {
    t.strictSame(await all(client.readAll({ fromPosition: at(beyond) })), [], 'beyond the end is nothing')
    t.strictSame(await subscribed(at(beyond)), [])
    t.match(await refusal(all(client.readAll({ fromPosition: at(beyond), direction: 'backwards' }))), {
      type: ErrorType.UNKNOWN,
    })
  }
})

t.test('the log holds events of the server and of other applications', async (t) => {
  const { double, client } = await started(t)
  await double.append('orders', [
    { type: 'OrderPlaced', data: '{"n":1}' },
    { type: 'Picture', data: Buffer.from([0, 255]), contentType: 'application/octet-stream' },
    { type: 'Broken', data: '{"n":', metadata: 'no JSON' },
  ])
  await double.append('$ce-order', [{ type: '$>', data: '0@orders' }])
  await double.append('$stats-127.0.0.1:2113', [{ type: '$statsCollected', data: '{}' }])
  const log = await all(client.readAll())
  t.strictSame(
    log.map(({ event }) => [event?.type, event?.isJson, event?.data]),
    [
      ['$metadata', true, { $maxCount: 1000 }],
      ['OrderPlaced', true, { n: 1 }],
      ['Picture', false, new Uint8Array([0, 255])],
      ['Broken', true, '{"n":'],
      ['$>', true, '0@orders'],
      ['$statsCollected', true, {}],
    ],
  )
})

t.test('data, metadata and type count for the size of an append', async (t) => {
  const { client } = await started(t)
  const limit = 1024 * 1024
  const stream = newStream()
  for (const options of [{}, { credentials: { username: 'admin', password: 'changeit' } }]) {
    const sized = (type: string, data: number, metadata: number) =>
      client.appendToStream(
        stream,
        [jsonEvent({ type, data: { t: 'x'.repeat(data - 8) }, metadata: { m: 'x'.repeat(metadata - 8) } })],
        options,
      )
    await sized('T', limit - 102, 100)
    for (const [type, data, metadata] of [
      ['T', limit - 101, 100],
      ['T', limit - 102, 101],
      ['Tt', limit - 102, 100],
    ] as const) {
      const tooLarge = sized(type, data, metadata)
      t.match(await refusal(tooLarge), { type: ErrorType.MAXIMUM_APPEND_SIZE_EXCEEDED })
    }
  }
})

t.test('a subscription to a stream gives its events after a revision, and new ones', async (t) => {
  const { client } = await started(t)
  const stream = newStream()
  await client.appendToStream(stream, [numbered(0), numbered(1), numbered(2)])
  const subscription = client.subscribeToStream(stream, { fromRevision: 0n })
  t.teardown(() => subscription.unsubscribe())
  let caughtUp = false
  subscription.on('caughtUp', () => {
    caughtUp = true
  })
  const seen: number[] = []
  for await (const { event } of subscription) {
    seen.push(Number(event?.revision))
    if (seen.length === 2) {
      await client.appendToStream(newStream(), numbered(0))
      await client.appendToStream(stream, numbered(3))
    }
    if (seen.length === 3) break
  }
  t.strictSame(seen, [1, 2, 3])
  t.ok(caughtUp)
})

t.test('a subscription to a stream ends with its tombstone', async (t) => {
  const { client } = await started(t)
  const stream = newStream()
  await client.appendToStream(stream, numbered(0))
  const subscription = client.subscribeToStream(stream)
  const ended = refusal(all(subscription))
  await once(subscription, 'caughtUp')
  await client.tombstoneStream(stream)
  t.match(await ended, { type: ErrorType.STREAM_DELETED })
})

t.test('filters select by a prefix or regex of the stream name or event type', async (t) => {
  const { client } = await started(t)
  const [apples, pears] = [`apple-${newStream()}`, `pear-${newStream()}`]
  await client.appendToStream(apples, [numbered(0, 'Picked'), numbered(1, 'Eaten')])
  await client.appendToStream(pears, [numbered(2, 'Picked'), numbered(3, 'PickedUp'), numbered(4, 'Sold')])
  const chosen = async (filter: Filter) => {
    const subscription = client.subscribeToAll({ filter })
    const seen: unknown[] = []
    subscription.on('data', ({ event }) => seen.push(event?.data))
    await once(subscription, 'caughtUp')
    await subscription.unsubscribe()
    return seen.map((data) => JSON.stringify(data).replace(/\D/g, '')).join('')
  }
  t.equal(await chosen(streamNameFilter({ prefixes: ['apple-'] })), '01')
  t.equal(await chosen(streamNameFilter({ prefixes: ['apple-', 'pear-'] })), '01234')
  t.equal(await chosen(streamNameFilter({ regex: '^p.*r-' })), '234')
  t.equal(await chosen(eventTypeFilter({ prefixes: ['Picked'] })), '023')
  t.equal(await chosen(eventTypeFilter({ regex: '^(Eaten|Sold)$' })), '14')
  const broken = client.subscribeToAll({ filter: eventTypeFilter({ regex: '(' }) })
  t.match(await refusal(all(broken)), { code: 3, message: /regex/ })
})

t.test('a filtered subscription sends checkpoints, and resumes from them', async (t) => {
  const { client } = await started(t)
  const noise = newStream()
  await client.appendToStream(
    noise,
    Array.from({ length: 100 }, (_, n) => numbered(n, 'Noise')),
  )
  const checkpoints: Position[] = []
  const reached = (_: AllStreamSubscription, position: Position) => {
    checkpoints.push(position)
  }
  const filter = eventTypeFilter({
    prefixes: ['Signal'],
    maxSearchWindow: 10,
    checkpointInterval: 2,
    checkpointReached: reached,
  })
  const first = client.subscribeToAll({ filter })
  first.on('data', () => t.fail('nothing matches'))
  await once(first, 'caughtUp')
  await first.unsubscribe()
  const read = (await all(client.readAll())).map(({ event }) => event?.position?.commit)
  // The first event of the log is the server's own. A checkpoint names the beginning of the last full page.
  const seen = checkpoints.map(({ commit }) => read.indexOf(commit) + 1)
  t.strictSame(seen, [11, 31, 51, 71, 91], 'every 2 x 10 events, and none at the end of the log')

  await client.appendToStream(noise, numbered(100, 'Signal'))
  const fromPosition = checkpoints.at(-1)
  if (fromPosition === undefined) return
  const second = client.subscribeToAll({ filter, fromPosition })
  for await (const { event } of second) {
    t.match(event, { type: 'Signal', data: { n: 100 } })
    break
  }
  await second.unsubscribe()
})

t.test('a live filtered subscription sends a checkpoint after every window of events', async (t) => {
  const { double, client } = await started(t)
  const checkpoints: bigint[] = []
  const filter = eventTypeFilter({
    prefixes: ['Signal'],
    checkpointReached: (_: AllStreamSubscription, { commit }: Position) => {
      checkpoints.push(commit)
    },
  })
  const subscription = client.subscribeToAll({ filter, fromPosition: 'end' })
  t.teardown(() => subscription.unsubscribe())
  const signals = once(subscription, 'data')
  await once(subscription, 'caughtUp')
  const noise = Array.from({ length: 70 }, () => ({ type: '$noise', data: '{}' }))
  await double.append('$noise', noise)
  await client.appendToStream(newStream(), numbered(0, 'Signal'))
  await signals
  const positions = (await all(client.readStream('$noise'))).map(({ event }) => event?.position?.commit)
  t.strictSame(checkpoints, [positions[31], positions[63]])
})

t.test('UUIDs are read and written as text and as two halves', async (t) => {
  const { double } = await started(t)
  const client = new streamsService.StreamsClient(`127.0.0.1:${double.port}`, credentials.createInsecure())
  t.teardown(() => client.close())
  const id = 'fedcba98-7654-4321-8000-00000000000f'
  const halves = new sharedPb.UUID.Structured()
  halves.setMostSignificantBits(BigInt.asIntN(64, 0xfedcba9876544321n).toString())
  halves.setLeastSignificantBits(BigInt.asIntN(64, 0x800000000000000fn).toString())
  const stream = new sharedPb.StreamIdentifier().setStreamName(Buffer.from(newStream()))

  const message = new streamsPb.AppendReq.ProposedMessage()
  message.setId(new sharedPb.UUID().setStructured(halves))
  message.getMetadataMap().set('type', 'Tested').set('content-type', 'application/json')
  const options = new streamsPb.AppendReq.Options().setStreamIdentifier(stream).setAny(new sharedPb.Empty())
  const appended = await new Promise<streamsPb.AppendResp>((resolve, reject) => {
    const call = client.append((error, response) => (error ? reject(error) : resolve(response)))
    call.write(new streamsPb.AppendReq().setOptions(options))
    call.end(new streamsPb.AppendReq().setProposedMessage(message))
  })
  t.equal(appended.getSuccess()?.getCurrentRevision(), '0')

  for (const structured of [true, false]) {
    const uuid = new streamsPb.ReadReq.Options.UUIDOption()
    if (structured) uuid.setStructured(new sharedPb.Empty())
    else uuid.setString(new sharedPb.Empty())
    const where = new streamsPb.ReadReq.Options.StreamOptions().setStreamIdentifier(stream)
    const how = new streamsPb.ReadReq.Options().setStream(where.setStart(new sharedPb.Empty()))
    how.setCount('10').setUuidOption(uuid).setNoFilter(new sharedPb.Empty())
    how.setControlOption(new streamsPb.ReadReq.Options.ControlOption().setCompatibility(1))
    const responses: unknown[] = await all(client.read(new streamsPb.ReadReq().setOptions(how)))
    const [event, last] = responses
    if (!(event instanceof streamsPb.ReadResp) || !(last instanceof streamsPb.ReadResp)) {
      throw new Error('the event or the last position is missing')
    }
    const read = event.getEvent()?.getEvent()?.getId()
    if (structured) t.strictSame(read?.getStructured()?.toObject(), halves.toObject())
    else t.equal(read?.getString(), id)
    t.equal(last.getLastStreamPosition(), '0', 'newer clients get the end of the stream')
  }
})

t.test('the server reports its version and its supported methods', async (t) => {
  const { double } = await started(t)
  const client = new features.ServerFeaturesClient(`127.0.0.1:${double.port}`, credentials.createInsecure())
  t.teardown(() => client.close())
  const names = await new Promise<string[]>((resolve, reject) => {
    client.getSupportedMethods(new sharedPb.Empty(), (error, response) =>
      error ? reject(error) : resolve(response.getMethodsList().map((method) => method.getMethodName())),
    )
  })
  t.strictSame(names.sort(), [
    'append',
    'batchappend',
    'delete',
    'getsupportedmethods',
    'read',
    'read',
    'tombstone',
  ])
})

t.test('an unsupported feature gives an error', async (t) => {
  const { client } = await started(t)
  const refused = await refusal(client.enableProjection('p'))
  t.match(refused, { code: 12, message: /Projections\/Enable: not supported by the double/ })
  const streaming = client.subscribeToPersistentSubscriptionToStream('s', 'g')
  t.match(await refusal(all(streaming)), { code: 12, message: /not supported by the double/ })
})

t.test('started alone, the double prints its URL, keeps its data and exits 0 on SIGTERM', async (t) => {
  const data = join(t.testdir(), 'data')
  const stream = newStream()
  for (const n of [0, 1]) {
    const { child, url } = await alone(t, ['--port', '0', '--data', data])
    const client = EventStoreDBClient.connectionString(url)
    t.equal((await client.appendToStream(stream, numbered(n))).nextExpectedRevision, BigInt(n))
    await client.dispose()
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    t.strictSame(await exited, [0, null])
  }
})

t.test('wrong arguments are refused with the usage', async (t) => {
  for (const args of [[], ['--port', 'x', '--data', 'd']]) {
    const child = run(t, args)
    t.strictSame(await once(child, 'exit'), [2, null])
  }
})

function run(t: Test, args: string[]): ChildProcess {
  const child = spawn(process.execPath, [program('test/doubles/eventstore'), ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

async function alone(t: Test, args: string[]): Promise<{ child: ChildProcess; url: string }> {
  const child = run(t, args)
  if (child.stdout === null) throw new Error('the double has no output')
  const [url] = await once(createInterface({ input: child.stdout }), 'line')
  return { child, url: String(url) }
}
