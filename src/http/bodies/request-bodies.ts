/** Bounds the bodies of requests while they arrive: in time, and in bytes that are held in memory. */
import { finished } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type BudgetLimits, createBudget } from '../../concurrency/budget.ts'
import { networkOf } from '../../config/address-ranges.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { mediaTypeOf } from '../answers/media-type.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the body is written to disk as it comes. */
    streamsBody?: true
    /** Whether the route limits the time and memory of its body itself. */
    limitsBody?: true
  }
}

export interface BodyLimits extends BudgetLimits {
  /** How long a body may take that is held in memory, in milliseconds. */
  timeoutMs: number
}

/** A body that is written to disk as it comes may take as long as it needs, at no less than this many bytes a second. */
const MIN_RATE = 4096

/** Bodies that are being received. */
export interface Arriving {
  bodies: number
  /** Bytes that they may take in memory. */
  bytes: number
}

/** The time is counted in this many checks: when the event loop was held up, no body could arrive. */
const CHECKS = 4

/**
 * Limits the bodies of all routes that are registered after this call. Bodies of git have their own limits: git may
 * pause for minutes while it packs. Returns a function that returns the bodies being received.
 */
export function limitBodies(app: FastifyInstance, { timeoutMs, ...limits }: BodyLimits): () => Arriving {
  const shares = createBudget(limits)
  let bodies = 0

  app.addHook('preParsing', (request, reply, payload, done) => {
    const { headers, raw } = request
    if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) {
      return done(null, payload)
    }
    // A short body arrived with the head and is read at once.
    if (raw.complete && headers['content-encoding'] === undefined) return done(null, payload)
    const type = mediaTypeOf(headers['content-type'])
    const { limitsBody, streamsBody } = request.routeOptions.config
    // A body of another type is not read by the route.
    if (limitsBody && type.startsWith('application/x-git-')) return done(null, payload)
    const isHeld = !type.startsWith('multipart/') && !streamsBody
    const network = networkOf(request.ip)
    const bytes = isHeld ? lengthOf(request) : 0
    const lacking = shares.lacking(network, bytes)
    if (lacking !== undefined) {
      limitReached('arriving_bytes')
      reply.header('Connection', 'close')
      const reason = 'too many requests are on their way; try again'
      return done(new Refused(refuse[lacking === 'network' ? 'tooManyRequests' : 'unavailable'](reason)))
    }
    const give = shares.take(network, bytes)
    bodies += 1
    const { socket } = raw
    let received = socket.bytesRead
    let checks = 0
    const timer = setInterval(() => {
      checks += 1
      if (checks % CHECKS !== 0) return
      const isSlow = socket.bytesRead - received < (MIN_RATE * timeoutMs) / 1000
      received = socket.bytesRead
      if (raw.complete || !(isHeld || isSlow)) return
      const error = Object.assign(new Error('the request takes too long'), {
        code: 'ERR_HTTP_REQUEST_TIMEOUT',
      })
      // As node itself ends such a request: with 408, and the connection is closed.
      app.server.emit('clientError', error, socket)
    }, timeoutMs / CHECKS).unref()
    const end = () => {
      unwatch()
      socket.off('close', end)
      clearInterval(timer)
      bodies -= 1
      give()
    }
    const unwatch = finished(raw, end)
    // After the last answer of a connection, node closes it, and a request that still comes gets no event.
    socket.once('close', end)
    done(null, payload)
  })
  return () => ({ bodies, bytes: shares.held() })
}

/** The length that the body has, or the largest that it may have. One that is compressed may become that large. */
function lengthOf(request: FastifyRequest): number {
  const most = request.routeOptions.bodyLimit ?? 0
  const { 'content-length': length, 'content-encoding': encoding } = request.headers
  return length === undefined || encoding !== undefined ? most : Math.min(Number(length), most)
}
