/** Whose share of the event loop a request takes: that of its network, and of its account as soon as it is known. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { continueAs } from '../../concurrency/event-loop.ts'
import { networkOf } from '../../config/address-ranges.ts'
import { disconnectSignal } from '../requests/client-disconnect.ts'

const accounts = new WeakMap<FastifyRequest, string>()

/** The key of its work, for `goOnAs` and `nextPiece`. */
export const schedulingKey = (request: FastifyRequest): string =>
  accounts.get(request) ?? networkOf(request.ip)

/** What only reads is not wanted any more when its client is gone. A command goes on: what it has begun, it finishes. */
const READS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

/**
 * From here on, what the routes do that are registered after this call counts for the account, so that those behind one
 * address do not wait for who has much to do there. `accountOf`: its key; null for a request without one. What takes long
 * ends when the client goes away.
 */
export function scheduleByAccount(
  app: FastifyInstance,
  accountOf: (request: FastifyRequest) => string | null,
): void {
  app.addHook('onRequest', (request, reply, done) => {
    const account = accountOf(request)
    if (account !== null) accounts.set(request, account)
    const gone = READS.has(request.method) ? () => disconnectSignal(reply) : undefined
    continueAs(schedulingKey(request), gone, done)
  })
}
