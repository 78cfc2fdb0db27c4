/** Limits the requests of each client behind a trusted proxy: the proxy's own connections have no limit. */
import type { FastifyInstance } from 'fastify'
import { type BudgetLimits, createBudget } from '../../concurrency/budget.ts'
import { networkOf } from '../../config/address-ranges.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'

/**
 * Limits requests without a complete answer, for a client behind a proxy as connections for another client. Answers a
 * further one with 429, or with 503 when all clients together have too many. Counts the requests of all routes that are
 * registered after this call.
 */
export function limitProxiedRequests(
  app: FastifyInstance,
  limits: BudgetLimits,
  isProxy: (address: string) => boolean,
): void {
  const shares = createBudget(limits)
  app.addHook('onRequest', (request, reply, done) => {
    const { ip, socket } = request
    // A proxy's own request, such as a health check, has no other client.
    if (!isProxy(socket.remoteAddress ?? '') || isProxy(ip)) return done()
    const network = networkOf(ip)
    const lacking = shares.lacking(network, 1)
    if (lacking !== undefined) {
      limitReached('proxied_requests')
      const kind = lacking === 'network' ? 'tooManyRequests' : 'unavailable'
      return done(new Refused(refuse[kind]('too many requests are being answered; try again')))
    }
    reply.raw.once('close', shares.take(network, 1))
    done()
  })
}
