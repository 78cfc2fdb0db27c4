/**
 * Requests with long JSON bodies: those of one client are worked on one after the other. To hash, store and index a long
 * text takes milliseconds each, and what others write waits behind it.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createFairSlots } from '../fair-slots.ts'
import { clientGone } from './client-gone.ts'

/** A body of more bytes is long. */
export const LONG_BODY = 16 * 1024

/** How many are worked on at one time, and how many may wait: each holds its body. */
const LIMITS = { name: 'long_bodies', size: 4, share: 1, waiting: 256, waitingShare: 32 } as const

/** Limits the routes that are registered after this call. `clientOf`: whose request it is. */
export function takeTurnsWithLongBodies(
  app: FastifyInstance,
  clientOf: (request: FastifyRequest) => string,
): void {
  const slots = createFairSlots(LIMITS)
  app.addHook('preHandler', (request, reply, done) => {
    if (!isLong(request)) return done()
    slots.take(clientOf(request), clientGone(reply)).then((give) => {
      if (reply.raw.closed) give()
      else reply.raw.once('close', give)
      done()
    }, done)
  })
}

function isLong({ headers, body }: FastifyRequest): boolean {
  if (body === undefined || body === null || !headers['content-type']?.startsWith('application/json'))
    return false
  // Without a length, nobody knows before the body has been read.
  if (headers['content-encoding'] !== undefined) return true
  return Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) > LONG_BODY
}
