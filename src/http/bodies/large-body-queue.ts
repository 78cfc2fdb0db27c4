/**
 * Requests with long JSON bodies: those of one client are worked on one after the other. To hash, store and index a long
 * text takes up to a quarter of a second, and what others write waits behind it. So each is followed by a rest, as long
 * as somebody else uses the server.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createSemaphore, pauseAfter } from '../../concurrency/semaphore.ts'
import { mediaTypeOf } from '../answers/media-type.ts'
import { disconnectSignal } from '../requests/client-disconnect.ts'

/** A body of more bytes is long. */
export const LARGE_BODY_BYTES = 16 * 1024

/** How many are worked on at one time, and how many may wait: each holds its body. */
const LIMITS = { name: 'long_bodies', size: 4, share: 1, waiting: 256, waitingShare: 32 } as const

/** A client is alone when nobody else has sent a request for so long, in milliseconds. */
const ALONE_MS = 1000

/**
 * Limits the routes that are registered after this call. `clientOf`: whose request it is. `now`: milliseconds. `later`
 * calls what it gets after some milliseconds.
 */
export function queueLargeBodies(
  app: FastifyInstance,
  clientOf: (request: FastifyRequest) => string,
  now: () => number = () => performance.now(),
  later: (next: () => void, ms: number) => void = (next, ms) => void setTimeout(next, ms).unref(),
): void {
  const slots = createSemaphore(LIMITS)
  const { seen, isAlone } = watchClients(now)
  /** What to do when the work on a request is done. */
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
  // Also for a client that is gone: its work goes on until there is something to send.
  app.addHook('onSend', (request, _reply, _payload, done) => {
    working.get(request)?.()
    working.delete(request)
    done()
  })
}

/** Knows whether a client is the only one that has sent requests lately. */
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
  // Without a length, nobody knows before the body has been read.
  if (headers['content-encoding'] !== undefined) return true
  return Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) > LARGE_BODY_BYTES
}
