/** The log in EventStoreDB or KurrentDB, over gRPC. */
import { setMaxListeners } from 'node:events'
import {
  excludeSystemEvents,
  type JSONEventData,
  jsonEvent,
  type ReadPosition,
  type RecordedEvent as ServerEvent,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from '@eventstore/db-client'
import { LRUCache } from 'lru-cache'
import { parseEventStoreDbUrl } from '../eventstoredb-url.ts'
import { lastHashOf } from './chain.ts'
import { hasOurMetadata, type PassedOver } from './damage.ts'
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
  StoreDenied,
  StoreUnavailable,
  StreamUnusable,
  type SubscribeOptions,
  WrongExpectedRevision,
} from './event-store.ts'
import { BATCH_SIZE, readBatches } from './eventstoredb-batches.ts'
import { createChainedAppend } from './eventstoredb-chain.ts'
import { connect, DEADLINE } from './eventstoredb-client.ts'
import { startProblem } from './eventstoredb-diagnosis.ts'
import { logIsClosed, SubscriptionDropped, toPortError, withTimeout } from './eventstoredb-errors.ts'
import { createImportMark, type ImportMark } from './eventstoredb-import-mark.ts'
import { shareSubscription } from './shared-subscription.ts'

/** The smallest count in a read of all events: the server reads this many in one step anyway. */
const SERVER_PAGE = 32

/** The largest count in a read of all events that looks for few events of ours among many of others. */
const LARGEST_PAGE = 4096

/**
 * More system events than a subscription can have passed without a checkpoint. The server sends one after each 32
 * events, and none for its last page when it reaches the end of the log: at most 64 and a few.
 */
const MOST_UNREPORTED = 128

/**
 * How long a denied write is reported, in milliseconds. It ends by itself: a server that is reported as unhealthy may
 * get no more requests, and so never learn that it may write again.
 */
const DENIED_MS = 30_000

/** How often in turn the server may drop a subscription that has not made progress. */
const MOST_DROPS = 5

const MOST = Number.MAX_SAFE_INTEGER

export interface EventStoreDb extends EventStore {
  importMark: ImportMark
}

export interface EventStoreDbOptions {
  /**
   * Whether appended events are linked to the hash chain of their stream (the default), or stored unchanged. Unchanged
   * ones need an exact expected revision.
   */
  linked?: boolean
}

/**
 * Opens the log at a connection string like `esdb://localhost:2113?tls=false`. It connects at the first use, and again
 * after the connection was lost.
 *
 * @throws EventStoreDbUrlProblem when the connection string has a mistake
 * @throws StoreUnavailable when a file that it names cannot be read
 */
export function openEventStoreDb(url: string, { linked = true }: EventStoreDbOptions = {}): EventStoreDb {
  const parsed = parseEventStoreDbUrl(url)
  const deadline = parsed.options.defaultDeadline ?? DEADLINE
  const connection = connect(parsed)

  /** The last revision that others wrote into each of our streams, as far as they were read. */
  const others = new LRUCache<string, number>({ max: 100 })
  /** The last append that was denied, and when; undefined when one to the same stream has succeeded since. */
  let deniedWrite: { stream: string; reason: string; at: number } | undefined

  const closing = new AbortController()
  // Every read adds a listener while it runs. Without this, Node would warn about a leak.
  setMaxListeners(0, closing.signal)
  const reading = { closing: closing.signal, deadline }
  const readingAll = { ...reading, what: 'to read $all' }
  const inFlight = new Set<Promise<unknown>>()

  /** Runs one command with a timeout. It throws the port's errors, and `close` waits for it. */
  async function command<T>(run: () => Promise<T>, what: string): Promise<T> {
    if (closing.signal.aborted) throw logIsClosed()
    // The client's own deadline starts when it has a connection. To find a node of a cluster takes time, too.
    const answer = withTimeout(deadline + 1000, run())
    inFlight.add(answer)
    try {
      return await answer
    } catch (error) {
      throw toPortError(error, what)
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
      const expectedRevision = expected === 'no-stream' ? 'no_stream' : BigInt(expected)
      const written = await command(
        () => connection.client().appendToStream(stream, events.map(toEventData), { expectedRevision }),
        'to write our streams',
      )
      if (deniedWrite?.stream === stream) deniedWrite = undefined
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
      if (error instanceof StoreDenied) deniedWrite = { stream, reason: error.message, at: performance.now() }
      if (!(error instanceof WrongExpectedVersionError)) throw error
      const actual = typeof error.actualVersion === 'bigint' ? toSafe(error.actualVersion, 'revision') : null
      throw new WrongExpectedRevision(stream, expected, actual)
    }
  }

  const chain = createChainedAppend({
    readStream,
    write,
    others: othersBetween,
    turnTimeoutMs: deadline + 1000,
  })

  async function append(
    stream: string,
    events: readonly NewEvent[],
    expected: ExpectedRevision,
  ): Promise<Appended> {
    if (events.length === 0) throw new TypeError('an append needs at least one event')
    if (expected === 'any' || expected === 'stream-exists') {
      if (!linked) throw new TypeError('an append of unchanged events needs an exact expected revision')
      return chain.appendAnywhere(stream, events, expected)
    }
    const after = toRevision(expected)
    return linked ? chain.appendAfter(stream, events, after) : write(stream, events, after)
  }

  /** Reads the server's events of a stream, ours and others. Returns none when the stream does not exist. */
  async function* readServerEvents(
    stream: string,
    direction: 'forwards' | 'backwards',
    from: number,
    maxCount: number,
  ): AsyncIterable<ServerEvent> {
    const open = () =>
      connection.client().readStream(stream, {
        direction,
        fromRevision: from >= MOST ? 'end' : BigInt(Math.max(from, 0)),
        maxCount: Math.min(maxCount, MOST),
      })
    const limits = { ...reading, what: 'to read our streams' }
    try {
      for await (const batch of readBatches(open, (read) => read.cancel(), limits)) {
        for (const { event } of batch) if (event !== undefined) yield event
      }
    } catch (error) {
      if (!(error instanceof StreamNotFoundError)) throw error
    }
  }

  /**
   * An event that another application wrote into the stream is passed over: it says nothing to us. Only when an event
   * of ours is missing in its place, which the hash chain shows, the stream cannot be used.
   */
  async function* readStream(stream: string, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    const { direction = 'forwards', maxCount = MOST } = options
    const step = direction === 'forwards' ? 1 : -1
    let next = options.from ?? (direction === 'forwards' ? 0 : MOST)
    let left = maxCount
    let last: RecordedEvent | undefined
    let before: RecordedEvent | undefined
    let passedOver: number | undefined
    let asked = left
    try {
      while (left > 0 && next >= 0) {
        let seen = 0
        for await (const event of readServerEvents(stream, direction, next, asked)) {
          seen += 1
          const revision = toSafe(event.revision, 'revision')
          next = revision + step
          const recorded = toRecorded(event)
          if (recorded === undefined) {
            if (isDamaged(event)) throw damaged(stream, revision)
            passedOver = revision
            if (revision > (others.get(stream) ?? -1)) others.set(stream, revision)
            continue
          }
          if (passedOver !== undefined && before !== undefined) requireLinked(before, recorded, passedOver)
          passedOver = undefined
          before = recorded
          if (last === undefined || last.revision < recorded.revision) last = recorded
          yield recorded
          left -= 1
          if (left <= 0) return
        }
        if (seen < asked) return
        asked = Math.max(left, SERVER_PAGE)
      }
    } finally {
      if (last !== undefined) chain.seen(last)
    }
  }

  async function othersBetween(stream: string, from: number, to: number) {
    let count = 0
    for await (const event of readServerEvents(stream, 'forwards', from, to - from + 1)) {
      if (event.revision > BigInt(to)) break
      if (toRecorded(event) !== undefined || isDamaged(event)) return { onlyOthers: false, count }
      others.set(stream, toSafe(event.revision, 'revision'))
      count += 1
    }
    return { onlyOthers: true, count }
  }

  async function* readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    const { direction = 'forwards', maxCount = MOST } = options
    const forwards = direction === 'forwards'
    const from = options.from ?? (forwards ? LOG_START : MOST)
    if (maxCount <= 0 || (!forwards && from <= LOG_START)) return
    let at: Position = from
    let left = maxCount
    // The server's count includes its system events and, forwards, the event at the start. The port's does not. Among
    // many events of others, each read asks for more than the one before.
    for (let page = SERVER_PAGE; ; page = Math.min(page * 4, LARGEST_PAGE)) {
      const asked = Math.min(Math.max(left + 1, page), MOST)
      const start = at
      const open = () =>
        connection.client().readAll({ direction, fromPosition: toReadPosition(start), maxCount: asked })
      let seen = 0
      for await (const batch of readBatches(open, (read) => read.cancel(), readingAll)) {
        for (const { event } of batch) {
          seen += 1
          if (event === undefined) continue
          at = toSafe(event.position.commit, 'position')
          const recorded = toRecorded(event)
          if (at === start) continue
          if (recorded === undefined) {
            if (options.passedOver !== undefined && !isSystemType(event.type)) {
              options.passedOver(toPassedOver(event, at))
            }
            continue
          }
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
        connection
          .client()
          .readAll({ direction: 'forwards', fromPosition: toReadPosition(start), maxCount: asked })
      for await (const batch of readBatches(open, (read) => read.cancel(), readingAll)) {
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
    let reported: Position = options.after
    let drops = 0
    function passed(position: Position): void {
      if (position <= reported) return
      reported = position
      drops = 0
      options.passed?.(position)
    }
    let after = options.after
    for (;;) {
      try {
        for await (const batch of subscribeOnce({ ...options, after, passed })) {
          after = batch.at(-1)?.position ?? after
          yield batch
        }
        return
      } catch (error) {
        // Usual after a burst of events: a new subscription reads them from the log.
        if (!(error instanceof SubscriptionDropped) || drops >= MOST_DROPS) throw error
        drops += 1
      }
    }
  }

  async function* subscribeOnce(
    options: SubscribeOptions & { passed: (position: Position) => void },
  ): AsyncIterable<RecordedEvent[]> {
    const { after, signal, batchSize = BATCH_SIZE, passed } = options
    // The server sends no system events, but a checkpoint when it has passed some of them.
    let checkpoint: Position = LOG_START
    const open = (changed: () => void) => {
      const filter = excludeSystemEvents({
        checkpointReached(_: unknown, { commit }: { commit: bigint }) {
          checkpoint = Number(commit)
          changed()
        },
      })
      return connection
        .client()
        .subscribeToAll({ fromPosition: toReadPosition(after), filter }, { highWaterMark: batchSize })
    }
    const drained = () => passed(checkpoint)
    const following = { ...readingAll, batchSize, signal, isSubscription: true, drained }
    for await (const batch of readBatches(open, (subscription) => subscription.unsubscribe(), following)) {
      const events = batch
        .map(({ event }) => event && toRecorded(event))
        .filter((event) => event !== undefined)
      for (const event of events) chain.followed(event)
      if (events.length > 0) yield events
      const last = batch.at(-1)?.event?.position
      if (last !== undefined) passed(toSafe(last.commit, 'position'))
    }
    if (!signal.aborted) throw new StoreUnavailable('EventStoreDB ended the subscription')
  }

  async function lastPosition(): Promise<Position> {
    let position: Position = LOG_START
    let seen = 0
    const open = () =>
      connection.client().readAll({ direction: 'backwards', fromPosition: 'end', maxCount: MOST_UNREPORTED })
    for await (const batch of readBatches(open, (read) => read.cancel(), readingAll)) {
      for (const { event } of batch) {
        seen += 1
        if (event === undefined) continue
        position = toSafe(event.position.commit, 'position')
        if (!isSystemType(event.type)) return position
      }
    }
    return seen < MOST_UNREPORTED ? LOG_START : position
  }

  return {
    append,
    readStream,
    readAll,
    readPositions,
    subscribe: shareSubscription({ alone: subscribe, lastPosition }),
    importMark: createImportMark(connection.client, reading, command),
    lastPosition,
    problems() {
      const isRecent = deniedWrite !== undefined && performance.now() - deniedWrite.at < DENIED_MS
      return {
        denied: isRecent ? deniedWrite?.reason : undefined,
        others: [...others.entries()].map(
          ([stream, revision]) => `event ${revision} of stream ${stream} was not written by Mergelog`,
        ),
      }
    },
    async close() {
      if (closing.signal.aborted) return
      closing.abort()
      await Promise.allSettled(inFlight)
      await withTimeout(deadline, connection.close()).catch(() => {})
    },
  }
}

/**
 * Opens the log and reads its end.
 * @throws StoreUnavailable in one line, which says what to do, when that fails
 */
export async function openReadableEventStoreDb(url: string): Promise<EventStoreDb> {
  const store = openEventStoreDb(url)
  try {
    await store.lastPosition()
    return store
  } catch (error) {
    await store.close()
    throw await startProblem(parseEventStoreDbUrl(url), error)
  }
}

function toEventData({ id, type, data, metadata }: NewEvent): JSONEventData {
  return jsonEvent({ id, type, data: Array.isArray(data) ? data : { ...data }, metadata: { ...metadata } })
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

/**
 * Turns a server's event into the port's. Returns undefined for an event that Mergelog did not write: the server has
 * system events (`$…`), and may hold events of other applications.
 */
function toRecorded(event: ServerEvent): RecordedEvent | undefined {
  if (isSystemType(event.type) || event.streamId.startsWith('$')) return undefined
  const { streamId: stream, id, type, isJson, data, metadata } = event
  if (!isJson || typeof data !== 'object' || data === null || !isEventMetadata(metadata)) return undefined
  if (event.position === undefined)
    throw new Error('EventStoreDB 22.6 or later is needed: events lack positions')
  const position = toSafe(event.position.commit, 'position')
  return { id, type, data, metadata, stream, revision: toSafe(event.revision, 'revision'), position }
}

/** As the filter of the subscription says it. */
function isSystemType(type: string): boolean {
  return type.startsWith('$')
}

/** Whether an event that is not readable was one of ours. */
const isDamaged = ({ type, metadata }: ServerEvent) => !isSystemType(type) && hasOurMetadata(metadata)

function toPassedOver(event: ServerEvent, position: Position): PassedOver {
  const { streamId: stream, type } = event
  return { stream, revision: toSafe(event.revision, 'revision'), position, type, isDamaged: isDamaged(event) }
}

const damaged = (stream: string, revision: number, because = 'it has our metadata, but cannot be read') =>
  new StreamUnusable(`event ${revision} of stream ${stream} is damaged: ${because}`)

/** @throws StreamUnusable when an event of ours was at the revision that was passed over */
function requireLinked(one: RecordedEvent, other: RecordedEvent, passedOver: number): void {
  const [before, after] = one.revision < other.revision ? [one, other] : [other, one]
  const { previous } = after.metadata
  if (previous === undefined || previous === lastHashOf(before)) return
  throw damaged(after.stream, passedOver, 'the event after it does not follow the one before it')
}

function toSafe(value: bigint, what: string): number {
  if (value > BigInt(MOST))
    throw new RangeError(`${what} ${value} is beyond 2^53, the largest that Mergelog can hold`)
  return Number(value)
}
