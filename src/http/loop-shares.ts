/** Whose share of the event loop a request takes: that of its network, and of its account as soon as it is known. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { networkOf } from '../address-ranges.ts'
import { workInTurn } from '../long-work.ts'

const accounts = new WeakMap<FastifyRequest, string>()

/** The key of its work, for `workInTurn` and `nextPiece`. */
export const shareOf = (request: FastifyRequest): string => accounts.get(request) ?? networkOf(request.ip)

/**
 * From here on, what the routes do that are registered after this call counts for the account, so that those behind one
 * address do not wait for who has much to do there. `accountOf`: its key; null for a request without one.
 */
export function shareLoopByAccount(
  app: FastifyInstance,
  accountOf: (request: FastifyRequest) => string | null,
): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const account = accountOf(request)
    if (account === null) return done()
    accounts.set(request, account)
    workInTurn(account, done)
  })
}
