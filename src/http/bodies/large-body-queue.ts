/**
 * Queues requests with large JSON bodies: one at a time per client. Hashing, storing and indexing a large text takes up
 * to 250 ms and delays other writes. So a pause follows each one while other clients are active.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createSemaphore, pauseAfter } from '../../concurrency/semaphore.ts'
import { mediaTypeOf } from '../answers/media-type.ts'
import { disconnectSignal } from '../requests/client-disconnect.ts'

/** A body of more bytes is long. */
export const LARGE_BODY_BYTES = 16 * 1024

/** How many are worked on at one time, and how many may wait: each holds its body. */
const LIMITS = { name: 'long_bodies', size: 4, share: 1, waiting: 256, waitingShare: 32 } as const

/** A client is alone after this time without requests of other clients, in milliseconds. */
const ALONE_MS = 1000

/**
 * Limits the routes that are registered after this call. `clientOf` returns the client's key, `now` milliseconds;
 * `later` runs a function after some milliseconds.
 */
export function queueLargeBodies(
  app: FastifyInstance,
  clientOf: (request: FastifyRequest) => string,
  now: () => number = () => performance.now(),
  later: (next: () => void, ms: number) => void = (next, ms) => void setTimeout(next, ms).unref(),
): void {
  const slots = createSemaphore(LIMITS)
  const { seen, isAlone } = watchClients(now)
  /** Releases the slot when the work on a request is done. */
  const working = new WeakMap<FastifyRequest, () => void>()

  app.addHook('preHandler', (request, reply, done) => {
    const client = clientOf(request)
    seen(client)
    if (!isLong(request)) return done()
    const gone = disconnectSignal(reply)
    slots.take(client, gone).then((give) => {
      const began = now()
      working.set(request, () => {
        if (isAlone(client)) give()
        else later(give, pauseAfter(now() - began))
      })
      done(gone.aborted ? gone.reason : undefined)
    }, done)
  })
  // Also for a disconnected client: its work continues until there is an answer.
  app.addHook('onSend', (request, _reply, _payload, done) => {
    working.get(request)?.()
    working.delete(request)
    done()
  })
}

/** Tracks whether a client is the only active one. */
function watchClients(now: () => number) {
  let last = { client: '', at: Number.NEGATIVE_INFINITY }
  /** When another one than the last one was here. */
  let otherAt = Number.NEGATIVE_INFINITY
  return {
    seen(client: string): void {
      if (client !== last.client) otherAt = last.at
      last = { client, at: now() }
    },
    isAlone: (client: string) => now() - (client === last.client ? otherAt : last.at) > ALONE_MS,
  }
}

function isLong({ headers, body }: FastifyRequest): boolean {
  if (body === undefined || body === null || mediaTypeOf(headers['content-type']) !== 'application/json')
    return false
  // Without a length, the size is unknown before the body is read.
  if (headers['content-encoding'] !== undefined) return true
  return Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) > LARGE_BODY_BYTES
}
