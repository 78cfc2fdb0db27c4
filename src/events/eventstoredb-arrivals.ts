/**
 * What a server that may be slow, far or gone asks of a reader: batches, backpressure, an end to waiting,
 * and errors in the words of the port.
 */
import { setImmediate } from 'node:timers/promises'
import {
  CancelledError,
  DeadlineExceededError,
  NotLeaderError,
  TimeoutError,
  UnavailableError,
} from '@eventstore/db-client'
import { StoreUnavailable } from './event-store.ts'

/** The most events that wait in memory for a slow reader. */
export const BATCH_SIZE = 1000

/** How long a batch may grow while events keep arriving, in milliseconds. */
const GATHERING = 20

/** What the client's reads and subscriptions have in common. */
interface Arriving<E> extends NodeJS.EventEmitter {
  readonly readableLength: number
  read(): E | null
  resume(): unknown
}

export interface Reading {
  /** The store is being closed: fail. */
  closing: AbortSignal
  /** The reader has enough: end. */
  signal?: AbortSignal
  /** How long the server may be silent: between two events of a read, before a subscription's confirmation. */
  deadline: number
  batchSize?: number
  endless?: boolean
}

/** What has arrived, in non-empty batches; what has not been taken holds back the server. */
export async function* arrivals<E, Stream extends Arriving<E>>(
  open: () => Stream & Arriving<E>,
  cancel: (stream: Stream) => Promise<void>,
  { closing, signal, deadline, batchSize = BATCH_SIZE, endless = false }: Reading,
): AsyncIterable<E[]> {
  if (closing.aborted) throw closed()
  if (signal?.aborted) return
  const stream = open()
  let failure: unknown
  let ended = false
  let patient = false
  let wake = () => {}
  const look = () => wake()
  stream.on('readable', look)
  stream.on('confirmation', () => {
    patient = endless
    wake()
  })
  stream.on('end', () => {
    ended = true
    wake()
  })
  // Never taken off: the client may report a broken connection after we have left.
  stream.on('error', (error: unknown) => {
    failure ??= error
    wake()
  })
  closing.addEventListener('abort', look)
  signal?.addEventListener('abort', look)
  try {
    while (!signal?.aborted) {
      if (closing.aborted) throw closed()
      if (failure !== undefined) throw translated(failure)
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
      if (ended) return
      const changed = new Promise<void>((resolve) => {
        wake = resolve
      })
      await (patient ? changed : within(deadline, changed))
      await gathered(stream, batchSize)
    }
  } finally {
    closing.removeEventListener('abort', look)
    signal?.removeEventListener('abort', look)
    cancel(stream).catch(() => {})
    // What has come already must flow off: until then the client keeps the read, and waits for it in `close`.
    stream.off('readable', look)
    stream.resume()
  }
}

/**
 * Waits while more keeps arriving, a short time at most: gRPC hands over one message at a time, and a
 * reader that is behind is far quicker with large batches.
 */
async function gathered(stream: Arriving<unknown>, enough: number): Promise<void> {
  const latest = performance.now() + GATHERING
  let length: number
  do {
    length = stream.readableLength
    await setImmediate()
  } while (stream.readableLength > length && stream.readableLength < enough && performance.now() < latest)
}

/** The promise, or StoreUnavailable when it takes longer. */
export async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const error = new StoreUnavailable(`EventStoreDB did not answer within ${milliseconds} ms`)
    timer = setTimeout(reject, milliseconds, error)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

export function closed(): StoreUnavailable {
  return new StoreUnavailable('the event log is closed')
}

// gRPC's status codes for "not now": cancelled, deadline exceeded, resource exhausted, aborted, unavailable.
const NOT_NOW: ReadonlySet<unknown> = new Set([1, 4, 8, 10, 14])

// What gRPC and the client say in plain errors when the connection breaks at a bad moment.
const BROKEN = /channel has been shut down|failed to discover|RST_STREAM|write after end/i

/** The client's error in the words of the port, where it has one. */
export function translated(error: unknown): unknown {
  if (!(error instanceof Error)) return new Error(String(error))
  const notNow =
    error instanceof UnavailableError ||
    error instanceof DeadlineExceededError ||
    error instanceof TimeoutError ||
    error instanceof CancelledError ||
    error instanceof NotLeaderError ||
    ('code' in error && NOT_NOW.has(error.code)) ||
    BROKEN.test(error.message)
  return notNow ? new StoreUnavailable(`EventStoreDB: ${error.message}`, { cause: error }) : error
}
