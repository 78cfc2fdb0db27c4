/**
 * Queues requests with large JSON bodies: one at a time per client. Hashing, storing and indexing a large text takes up
 * to 250 ms and delays other writes. So a pause follows each one while other clients are active.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createSemaphore, pauseAfter } from '../../concurrency/semaphore.ts'
import { mediaTypeOf } from '../answers/media-type.ts'
import { disconnectSignal } from '../requests/client-disconnect.ts'

/** Size above which a body is large, in bytes. */
export const LARGE_BODY_BYTES = 16 * 1024

/** Slots and places in the queue: each waiting request holds its body. */
const LIMITS = { name: 'long_bodies', size: 4, share: 1, waiting: 256, waitingShare: 32 } as const

/** Time without requests of other clients after which a client is alone, in milliseconds. */
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
    if (!isLarge(request)) return done()
    const gone = disconnectSignal(reply)
    slots.take(client, gone).then((release) => {
      const began = now()
      working.set(request, () => {
        if (isAlone(client)) release()
        else later(release, pauseAfter(now() - began))
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
  /** Time of the last request of another client than the last one. */
  let otherAt = Number.NEGATIVE_INFINITY
  return {
    seen(client: string): void {
      if (client !== last.client) otherAt = last.at
      last = { client, at: now() }
    },
    isAlone: (client: string) => now() - (client === last.client ? otherAt : last.at) > ALONE_MS,
  }
}

function isLarge({ headers, body }: FastifyRequest): boolean {
  if (body === undefined || body === null || mediaTypeOf(headers['content-type']) !== 'application/json')
    return false
  // Without a length, the size is unknown before the body is read.
  if (headers['content-encoding'] !== undefined) return true
  return Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) > LARGE_BODY_BYTES
}
