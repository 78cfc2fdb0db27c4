/** The log in EventStoreDB or KurrentDB, over gRPC. */
import { setMaxListeners } from 'node:events'
import {
  type AppendExpectedRevision,
  EventStoreDBClient,
  excludeSystemEvents,
  type JSONEventData,
  jsonEvent,
  type ReadPosition,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from '@eventstore/db-client'
import {
  type Appended,
  type EventStore,
  type ExpectedRevision,
  isEventMetadata,
  LOG_START,
  type NewEvent,
  type Position,
  type ReadAllOptions,
  type ReadStreamOptions,
  type RecordedEvent,
  StoreUnavailable,
  type SubscribeOptions,
  WrongExpectedRevision,
} from './event-store.ts'
import { BATCH_SIZE, readBatches } from './eventstoredb-batches.ts'
import { createChainedAppend } from './eventstoredb-chain.ts'
import { logIsClosed, toPortError, withTimeout } from './eventstoredb-errors.ts'

/** How long the server may take to answer, in milliseconds; `defaultDeadline` in the URL overrides it. */
const DEADLINE = 5000

/**
 * How long the server may take to answer a keep-alive ping (sent every 10 s), in milliseconds; `keepAliveTimeout` in
 * the URL overrides it.
 */
const KEEP_ALIVE_TIMEOUT = 3000

/** The smallest count in a read of all events: the server reads this many in one step anyway. */
const SERVER_PAGE = 32

const MOST = Number.MAX_SAFE_INTEGER

/**
 * Opens the log at a connection string like `esdb://localhost:2113?tls=false`. It connects at the first use, and again
 * after the connection was lost.
 *
 * @throws Error when the connection string is not valid
 */
export function openEventStoreDb(url: string): EventStore {
  const deadline = Number(setting(url, 'defaultDeadline') ?? DEADLINE)
  const client = EventStoreDBClient.connectionString(
    withDefaults(url, { defaultDeadline: DEADLINE, keepAliveTimeout: KEEP_ALIVE_TIMEOUT }),
  )
  // The client prefers batch appends when the server supports them. We force plain appends: each has its own
  // deadline and fails alone. Batch appends have no deadline and share one waiting list in the whole process. When
  // one connection breaks, the appends of all connections fail, and late answers throw errors that cannot be caught.
  Object.assign(client, { supports: async () => false })

  const closing = new AbortController()
  // Every read adds a listener while it runs. Without this, Node would warn about a leak.
  setMaxListeners(0, closing.signal)
  const reading = { closing: closing.signal, deadline }
  const inFlight = new Set<Promise<unknown>>()

  /** Runs one command with a timeout. It throws the port's errors, and `close` waits for it. */
  async function command<T>(run: () => Promise<T>): Promise<T> {
    if (closing.signal.aborted) throw logIsClosed()
    // The client's own deadline starts when it has a connection. To find a node of a cluster takes time, too.
    const answer = withTimeout(deadline + 1000, run())
    inFlight.add(answer)
    try {
      return await answer
    } catch (error) {
      throw toPortError(error)
    } finally {
      inFlight.delete(answer)
    }
  }

  async function write(
    stream: string,
    events: readonly NewEvent[],
    expected: number | 'no-stream',
  ): Promise<Appended> {
    try {
      const written = await command(() =>
        client.appendToStream(stream, events.map(toEventData), { expectedRevision: toExpected(expected) }),
      )
      const revision = toSafe(written.nextExpectedRevision, 'revision')
      if (written.position !== undefined) {
        return { revision, position: toSafe(written.position.commit, 'position') }
      }
      // The server may confirm a repeated append without its position. The event itself has it.
      for await (const { position } of readStream(stream, { from: revision, maxCount: 1 })) {
        return { revision, position }
      }
      throw new Error(`EventStoreDB confirmed revision ${revision} of stream ${stream} but does not have it`)
    } catch (error) {
      if (!(error instanceof WrongExpectedVersionError)) throw error
      const actual = typeof error.actualVersion === 'bigint' ? toSafe(error.actualVersion, 'revision') : null
      throw new WrongExpectedRevision(stream, expected, actual)
    }
  }

  const chain = createChainedAppend({ readStream, write, turnTimeoutMs: deadline + 1000 })

  async function append(
    stream: string,
    events: readonly NewEvent[],
    expected: ExpectedRevision,
  ): Promise<Appended> {
    if (events.length === 0) throw new TypeError('an append needs at least one event')
    return expected === 'any' || expected === 'stream-exists'
      ? chain.appendAnywhere(stream, events, expected)
      : chain.appendAfter(stream, events, toRevision(expected))
  }

  async function* readStream(stream: string, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    const { direction = 'forwards', maxCount = MOST } = options
    const from = options.from ?? (direction === 'forwards' ? 0 : MOST)
    if (maxCount <= 0 || (direction === 'backwards' && from < 0)) return
    const open = () =>
      client.readStream(stream, {
        direction,
        fromRevision: from >= MOST ? 'end' : BigInt(Math.max(from, 0)),
        maxCount: Math.min(maxCount, MOST),
      })
    let last: RecordedEvent | undefined
    try {
      for await (const batch of readBatches(open, (read) => read.cancel(), reading)) {
        for (const { event } of batch) {
          if (event === undefined) continue
          const recorded = toRecorded(event)
          if (recorded === undefined) {
            throw new Error(`event ${event.revision} of stream ${stream} was not written by Mergelog`)
          }
          if (last === undefined || last.revision < recorded.revision) last = recorded
          yield recorded
        }
      }
    } catch (error) {
      if (!(error instanceof StreamNotFoundError)) throw error
    } finally {
      if (last !== undefined) chain.seen(last)
    }
  }

  async function* readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    const { direction = 'forwards', maxCount = MOST } = options
    const forwards = direction === 'forwards'
    const from = options.from ?? (forwards ? LOG_START : MOST)
    if (maxCount <= 0 || (!forwards && from <= LOG_START)) return
    let at: Position = from
    let left = maxCount
    while (true) {
      // The server's count includes its system events and, forwards, the event at the start. The port's does not.
      const asked = Math.min(Math.max(left + 1, SERVER_PAGE), MOST)
      const start = at
      const open = () => client.readAll({ direction, fromPosition: toReadPosition(start), maxCount: asked })
      let seen = 0
      for await (const batch of readBatches(open, (read) => read.cancel(), reading)) {
        for (const { event } of batch) {
          seen += 1
          if (event === undefined) continue
          at = toSafe(event.position.commit, 'position')
          const recorded = toRecorded(event)
          if (recorded === undefined || at === start) continue
          yield recorded
          left -= 1
          if (left <= 0) return
        }
      }
      if (seen < asked) return
    }
  }

  async function* readPositions(positions: readonly Position[]): AsyncIterable<RecordedEvent> {
    const left = [...positions].reverse()
    let wanted = left.pop()
    while (wanted !== undefined) {
      // One read returns neighbouring positions. A position further away gets its own read.
      const asked = Math.min(Math.max(left.length + 1, SERVER_PAGE), BATCH_SIZE)
      const start: Position = wanted
      const open = () =>
        client.readAll({ direction: 'forwards', fromPosition: toReadPosition(start), maxCount: asked })
      for await (const batch of readBatches(open, (read) => read.cancel(), reading)) {
        for (const { event } of batch) {
          const recorded = event && toRecorded(event)
          if (recorded === undefined) continue
          while (wanted !== undefined && wanted < recorded.position) wanted = left.pop()
          if (wanted !== recorded.position) continue
          yield recorded
          wanted = left.pop()
        }
        if (wanted === undefined) return
      }
      // There is no event at this position.
      if (wanted === start) wanted = left.pop()
    }
  }

  async function* subscribe(options: SubscribeOptions): AsyncIterable<RecordedEvent[]> {
    const { after, signal, batchSize = BATCH_SIZE } = options
    const request = { fromPosition: toReadPosition(after), filter: excludeSystemEvents() }
    const open = () => client.subscribeToAll(request, { highWaterMark: batchSize })
    const following = { ...reading, batchSize, signal, isSubscription: true }
    for await (const batch of readBatches(open, (subscription) => subscription.unsubscribe(), following)) {
      const events = batch
        .map(({ event }) => event && toRecorded(event))
        .filter((event) => event !== undefined)
      if (events.length > 0) yield events
    }
    if (!signal.aborted) throw new StoreUnavailable('EventStoreDB ended the subscription')
  }

  return {
    append,
    readStream,
    readAll,
    readPositions,
    subscribe,
    async lastPosition() {
      for await (const event of readAll({ direction: 'backwards', maxCount: 1 })) return event.position
      return LOG_START
    },
    async close() {
      if (closing.signal.aborted) return
      closing.abort()
      await Promise.allSettled(inFlight)
      await withTimeout(deadline, client.dispose()).catch(() => {})
    },
  }
}

function toEventData({ id, type, data, metadata }: NewEvent): JSONEventData {
  return jsonEvent({ id, type, data: Array.isArray(data) ? data : { ...data }, metadata: { ...metadata } })
}

function toExpected(expected: number | 'no-stream'): AppendExpectedRevision {
  return expected === 'no-stream' ? 'no_stream' : BigInt(expected)
}

function toRevision(expected: number | 'no-stream'): number | 'no-stream' {
  if (expected === 'no-stream' || (Number.isSafeInteger(expected) && expected >= 0)) return expected
  throw new RangeError(`expected revision: ${expected} is not a revision`)
}

function toReadPosition(position: Position): ReadPosition {
  if (position <= LOG_START) return 'start'
  if (position >= MOST) return 'end'
  return { commit: BigInt(position), prepare: BigInt(position) }
}

interface ServerEvent {
  streamId: string
  id: string
  type: string
  isJson: boolean
  revision: bigint
  data: unknown
  metadata?: unknown
  position?: { commit: bigint }
}

/**
 * Turns a server's event into the port's. Returns undefined for an event that Mergelog did not write: the server has
 * system events (`$…`), and may hold events of other applications.
 */
function toRecorded(event: ServerEvent): RecordedEvent | undefined {
  if (event.type.startsWith('$') || event.streamId.startsWith('$')) return undefined
  const { streamId: stream, id, type, isJson, data, metadata } = event
  if (!isJson || typeof data !== 'object' || data === null || !isEventMetadata(metadata)) return undefined
  if (event.position === undefined)
    throw new Error('EventStoreDB 22.6 or later is needed: events lack positions')
  const position = toSafe(event.position.commit, 'position')
  return { id, type, data, metadata, stream, revision: toSafe(event.revision, 'revision'), position }
}

function toSafe(value: bigint, what: string): number {
  if (value > BigInt(MOST))
    throw new RangeError(`${what} ${value} is beyond 2^53, the largest that Mergelog can hold`)
  return Number(value)
}

/** The value of a setting in a connection string. Ignores case, `-` and `_` in keys, like the client. */
function setting(url: string, key: string): string | undefined {
  const query = url.slice(url.indexOf('?') + 1 || url.length)
  for (const pair of query.split('&')) {
    const [name = '', value] = pair.split('=')
    if (name.trim().replace(/[_-]/g, '').toLowerCase() === key.toLowerCase()) return value
  }
  return undefined
}

function withDefaults(url: string, defaults: Record<string, number>): string {
  let result = url.trim().replace(/\/+$/, '')
  for (const [key, value] of Object.entries(defaults)) {
    if (setting(url, key) === undefined) result += `${result.includes('?') ? '&' : '?'}${key}=${value}`
  }
  return result
}
