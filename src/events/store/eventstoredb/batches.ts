/** Reads from EventStoreDB in batches, with backpressure, and with a timeout. */
import { setImmediate } from 'node:timers/promises'
import { logIsClosed, toPortError, withTimeout } from './errors.ts'

/** Maximum number of events in memory for a slow reader. */
export const BATCH_SIZE = 1000

/** Minimum useful count of a read: the server reads this many in one step. */
export const SERVER_PAGE = 32

/** Time to wait for more events of a batch while they keep arriving, in milliseconds. */
const GATHER_MS = 20

/** The common part of the client's reads and subscriptions. */
interface EventStream<E> extends NodeJS.EventEmitter {
  readonly readableLength: number
  read(): E | null
  resume(): unknown
}

export interface ReadLimits {
  /** Aborts when the store is closed: the read fails. */
  closing: AbortSignal
  /** Aborts when the reader stops: the read ends without an error. */
  signal?: AbortSignal
  /**
   * Maximum silence of the server, in milliseconds: between two events of a read, and before it confirms a subscription.
   */
  deadline: number
  batchSize?: number
  /** The operation, for the error when it is denied: "to read $all". */
  what?: string
  /** Called when the reader has taken all arrived events. */
  drained?: () => void
  /** Whether this is a subscription: after its confirmation it waits for events without a timeout. */
  isSubscription?: boolean
}

/**
 * Yields events in non-empty batches as they arrive. The server sends no more until the reader has taken them. `open`
 * gets a function to call when a message other than an event has arrived: then `drained` is called.
 * @throws StoreUnavailable when the store is closed, the connection is lost, or the server is silent for too long
 */
export async function* readBatches<E, Stream extends EventStream<E>>(
  open: (changed: () => void) => Stream & EventStream<E>,
  cancel: (stream: Stream) => Promise<void>,
  { closing, signal, deadline, batchSize = BATCH_SIZE, isSubscription = false, what, drained }: ReadLimits,
): AsyncIterable<E[]> {
  if (closing.aborted) throw logIsClosed()
  if (signal?.aborted) return
  let failure: unknown
  let ended = false
  let hasTimeout = true
  let wake = () => {}
  const onChange = () => wake()
  const stream = open(onChange)
  stream.on('readable', onChange)
  stream.on('confirmation', () => {
    hasTimeout = !isSubscription
    wake()
  })
  stream.on('end', () => {
    ended = true
    wake()
  })
  // This listener is never removed: the client may report a broken connection after this function has returned.
  stream.on('error', (error: unknown) => {
    failure ??= error
    wake()
  })
  closing.addEventListener('abort', onChange)
  signal?.addEventListener('abort', onChange)
  try {
    while (!signal?.aborted) {
      if (closing.aborted) throw logIsClosed()
      if (failure !== undefined) throw toPortError(failure, what)
      const batch: E[] = []
      while (batch.length < batchSize) {
        const item = stream.read()
        if (item === null) break
        batch.push(item)
      }
      if (batch.length > 0) {
        yield batch
        continue
      }
      drained?.()
      // The callback may have ended the read.
      if (ended || signal?.aborted) return
      const changed = new Promise<void>((resolve) => {
        wake = resolve
      })
      await (hasTimeout ? withTimeout(deadline, changed) : changed)
      await gather(stream, batchSize)
    }
  } finally {
    closing.removeEventListener('abort', onChange)
    signal?.removeEventListener('abort', onChange)
    cancel(stream).catch(() => {})
    // Discard the events that have already arrived. Until then the client keeps the read, and its `close` waits for it.
    stream.off('readable', onChange)
    stream.resume()
  }
}

/**
 * Waits at most `GATHER_MS` while events keep arriving. gRPC delivers one message at a time, and a reader that is
 * behind the log is much faster with large batches.
 */
async function gather(stream: EventStream<unknown>, enough: number): Promise<void> {
  const latest = performance.now() + GATHER_MS
  let length: number
  do {
    length = stream.readableLength
    await setImmediate()
  } while (stream.readableLength > length && stream.readableLength < enough && performance.now() < latest)
}
