/** The log in EventStoreDB or KurrentDB, over gRPC. */
import { setMaxListeners } from 'node:events'
import { parseEventStoreDbUrl } from '../../../config/eventstoredb-url.ts'
import {
  type Appended,
  type EventStore,
  type EventText,
  type ExpectedRevision,
  type NewEvent,
  type RecordedEvent,
  StoreDenied,
} from '../event-store.ts'
import { shareSubscription } from '../shared-subscription.ts'
import { createAllReads } from './all.ts'
import { createAppends } from './appends.ts'
import { createChainedAppend } from './chain.ts'
import { connect, DEADLINE } from './client.ts'
import { startProblem } from './diagnosis.ts'
import { logIsClosed, toPortError, withTimeout } from './errors.ts'
import { toSafe } from './events.ts'
import { createImportMark, type ImportMark } from './import-mark.ts'
import { createSameLog } from './same-log.ts'
import { createStreamReads } from './streams.ts'

/**
 * Time for which a denied write is reported, in milliseconds. It expires, because an unhealthy server may get no more
 * requests that would show that writes are allowed again.
 */
const DENIED_MS = 30_000

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
 * @throws EventStoreDbUrlProblem when the connection string has a mistake
 * @throws StoreUnavailable when a file that it names cannot be read
 */
export function openEventStoreDb(url: string, { linked = true }: EventStoreDbOptions = {}): EventStoreDb {
  const parsed = parseEventStoreDbUrl(url)
  const deadline = parsed.options.defaultDeadline ?? DEADLINE
  const connection = connect(parsed)

  /** The last denied append, until one to the same stream succeeds. */
  let deniedWrite: { stream: string; reason: string; at: number } | undefined

  const closing = new AbortController()
  // Every read adds a listener while it runs. Without this, Node would warn about a leak.
  setMaxListeners(0, closing.signal)
  const reading = { closing: closing.signal, deadline }
  const sameLog = createSameLog(connection.client, { ...reading, what: 'to read $all' })
  const appendText = createAppends(connection.client, deadline, sameLog.check)
  const inFlight = new Set<Promise<unknown>>()
  const streams = createStreamReads(connection.client, reading, (last) => chain.seen(last))
  const followed = (event: RecordedEvent) => chain.followed(event)
  const all = createAllReads(connection.client, reading, sameLog, followed, streams.noteDamage)

  /** Runs one command with a timeout. It throws the port's errors, and `close` waits for it. */
  async function command<T>(run: () => Promise<T>, what: string): Promise<T> {
    if (closing.signal.aborted) throw logIsClosed()
    // The client's own deadline begins with the connection. Finding a node of a cluster takes time, too.
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
    events: readonly EventText[],
    expected: number | 'no-stream',
  ): Promise<Appended> {
    try {
      const written = await streams.recording(stream, () =>
        command(() => appendText(stream, events, expected), 'to write our streams'),
      )
      if (deniedWrite?.stream === stream) deniedWrite = undefined
      const revision = toSafe(written.revision, 'revision')
      if (written.position !== undefined) return { revision, position: toSafe(written.position, 'position') }
      // The server may confirm a repeated append without its position. The event itself has it.
      for await (const { position } of streams.readStream(stream, { from: revision, maxCount: 1 })) {
        return { revision, position }
      }
      throw new Error(`EventStoreDB confirmed revision ${revision} of stream ${stream} but does not have it`)
    } catch (error) {
      if (error instanceof StoreDenied) deniedWrite = { stream, reason: error.message, at: performance.now() }
      throw error
    }
  }

  const chain = createChainedAppend({
    readStream: streams.readStream,
    write,
    others: streams.othersBetween,
    deletedBefore: streams.deletedBefore,
    lockTimeoutMs: deadline + 1000,
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
    return linked ? chain.appendAfter(stream, events, after) : write(stream, events.map(toText), after)
  }

  return {
    append,
    readStream: streams.readStream,
    readAll: all.readAll,
    readPositions: all.readPositions,
    subscribe: shareSubscription({ alone: all.subscribe, lastPosition: all.lastPosition }),
    importMark: createImportMark(connection.client, reading, command),
    lastPosition: all.lastPosition,
    problems() {
      const isRecent = deniedWrite !== undefined && performance.now() - deniedWrite.at < DENIED_MS
      return {
        denied: isRecent ? deniedWrite?.reason : undefined,
        others: streams.othersFound(),
        unusable: streams.unusable(),
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

/** Opens the log and reads its end. @throws StoreUnavailable with one line of advice */
export async function openReadableEventStoreDb(
  url: string,
  options: EventStoreDbOptions = {},
): Promise<EventStoreDb> {
  const store = openEventStoreDb(url, options)
  try {
    await store.lastPosition()
    return store
  } catch (error) {
    await store.close()
    throw await startProblem(parseEventStoreDbUrl(url), error)
  }
}

function toText({ id, type, data, metadata }: NewEvent): EventText {
  return { id, type, data: JSON.stringify(data), metadata: JSON.stringify(metadata) }
}

function toRevision(expected: number | 'no-stream'): number | 'no-stream' {
  if (expected === 'no-stream' || (Number.isSafeInteger(expected) && expected >= 0)) return expected
  throw new RangeError(`expected revision: ${expected} is not a revision`)
}
