/** The errors of EventStoreDB's client, as errors of the port. */
import {
  AccessDeniedError,
  CancelledError,
  DeadlineExceededError,
  NotLeaderError,
  StreamDeletedError,
  TimeoutError,
  UnavailableError,
} from '@eventstore/db-client'
import { connectionAdvice } from '../../../config/connection-advice.ts'
import { REPAIR_OF_TOMBSTONE } from '../damage.ts'
import { StoreDenied, StoreUnavailable, StreamUnusable } from '../event-store.ts'

export function logIsClosed(): StoreUnavailable {
  return new StoreUnavailable('the event log is closed')
}

/** The server dropped a subscription after a burst of events. It accepts a new one at once. */
export class SubscriptionDropped extends StoreUnavailable {
  override readonly name = 'SubscriptionDropped'
}

/** Resolves like the promise. @throws StoreUnavailable when it takes longer than `milliseconds` */
export async function withTimeout<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    // Created on demand: an error's stack costs more than the timer.
    timer = setTimeout(
      () => reject(new StoreUnavailable(`EventStoreDB did not answer within ${milliseconds} ms`)),
      milliseconds,
    )
  })
  try {
    return await Promise.race([promise, timeout])
  } finally {
    clearTimeout(timer)
  }
}

// The gRPC status codes of temporary failures: cancelled, deadline exceeded, resource exhausted, aborted, unavailable.
const TEMPORARY: ReadonlySet<unknown> = new Set([1, 4, 8, 10, 14])

/** The server's words for it, with gRPC's status ABORTED. */
const DROPPED = /resubscription required/i

// gRPC and the client throw plain errors with these messages when the connection breaks at certain moments.
const CONNECTION_BROKEN = /channel has been shut down|failed to discover|RST_STREAM|write after end/i

/** gRPC's status UNAUTHENTICATED. */
const UNAUTHENTICATED = 16

/**
 * Converts the client's error into one of the port: a temporary failure, a denied access, or a stream with a tombstone.
 * Other errors stay unchanged. `what` names the operation: "to read $all".
 */
export function toPortError(error: unknown, what = 'this'): unknown {
  if (!(error instanceof Error)) return new Error(String(error))
  if (error instanceof AccessDeniedError) {
    const reason =
      error.code === UNAUTHENTICATED
        ? 'does not know the user of EVENTSTORE_URL, or the password is wrong'
        : `does not allow the user of EVENTSTORE_URL ${what}: grant it in the stream's ACL`
    return new StoreDenied(`EventStoreDB ${reason}`, { cause: error })
  }
  if (error instanceof StreamDeletedError) {
    return new StreamUnusable(`stream ${error.streamName} has a tombstone: it was deleted in EventStoreDB`, {
      cause: error,
      repair: REPAIR_OF_TOMBSTONE,
    })
  }
  const isTemporary =
    error instanceof UnavailableError ||
    error instanceof DeadlineExceededError ||
    error instanceof TimeoutError ||
    error instanceof CancelledError ||
    error instanceof NotLeaderError ||
    ('code' in error && TEMPORARY.has(error.code)) ||
    CONNECTION_BROKEN.test(error.message)
  if (!isTemporary) return error
  const Temporary = DROPPED.test(error.message) ? SubscriptionDropped : StoreUnavailable
  return new Temporary(inPlainWords(error.message), { cause: error })
}

/** Converts an error for operators: advice for a failed connection; otherwise gRPC's message without its codes. */
function inPlainWords(message: string): string {
  const [, code, host] = /\bconnect (E[A-Z]+) (\S+:\d+)/.exec(message) ?? []
  if (code !== undefined && host !== undefined) {
    return `EventStoreDB does not answer: ${connectionAdvice(host, code)}`
  }
  return `EventStoreDB: ${message.replace(/^\d+ [A-Z_]+: /, '').replace(/\s*Resolution note:.*$/s, '')}`
}
