/** The scheduling key of a request: its account, or its network while the account is unknown. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { continueAs } from '../../concurrency/event-loop.ts'
import { networkOf } from '../../config/address-ranges.ts'
import { disconnectSignal } from '../requests/client-disconnect.ts'

const accounts = new WeakMap<FastifyRequest, string>()

/** Returns the key for `continueAs` and `nextSlice`. */
export const schedulingKey = (request: FastifyRequest): string =>
  accounts.get(request) ?? networkOf(request.ip)

/** Methods whose work is aborted when the client disconnects. Commands finish. */
const READS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

/**
 * Counts the work of routes that are registered after this call for the account, so that a busy client does not delay
 * others behind its address. `accountOf` returns the key; null without an account. Long reads abort when the client
 * disconnects.
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
