/** Limits bodies while they arrive: their time, and their bytes in memory. */
import { finished } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type BudgetLimits, createBudget } from '../../concurrency/budget.ts'
import { networkOf } from '../../config/address-ranges.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { mediaTypeOf } from '../answers/media-type.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the body is written to disk as it arrives. */
    streamsBody?: true
    /** Whether the route limits the time and memory of its body itself. */
    limitsBody?: true
  }
}

export interface BodyLimits extends BudgetLimits {
  /** Time limit of a body held in memory, in milliseconds. */
  timeoutMs: number
}

/** Minimum speed of a body that is written to disk as it arrives, in bytes per second. It has no time limit. */
const MIN_RATE = 4096

/** The bodies being received. */
export interface Received {
  bodies: number
  /** Maximum memory of these bodies, in bytes. */
  bytes: number
}

/** Checks per time limit. Counts checks, because no body can arrive while the event loop is blocked. */
const CHECKS = 4

/**
 * Limits the bodies of all routes that are registered after this call. Bodies of git have their own limits: git may
 * pause for minutes while it packs. Returns a function that returns the bodies being received.
 */
export function limitBodies(app: FastifyInstance, { timeoutMs, ...limits }: BodyLimits): () => Received {
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
    // The route reads only this type itself.
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
    const release = shares.take(network, bytes)
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
      // Ends the request as Node does: answers 408 and closes the connection.
      app.server.emit('clientError', error, socket)
    }, timeoutMs / CHECKS).unref()
    const end = () => {
      unwatch()
      socket.off('close', end)
      clearInterval(timer)
      bodies -= 1
      release()
    }
    const unwatch = finished(raw, end)
    // Node closes a connection after its last answer. A request that arrives later gets no event.
    socket.once('close', end)
    done(null, payload)
  })
  return () => ({ bodies, bytes: shares.held() })
}

/** Returns the length of a body; for an unknown length or a compressed body, the maximum. */
function lengthOf(request: FastifyRequest): number {
  const most = request.routeOptions.bodyLimit ?? 0
  const { 'content-length': length, 'content-encoding': encoding } = request.headers
  return length === undefined || encoding !== undefined ? most : Math.min(Number(length), most)
}
