/** The scheduling key of a request: its network, and its account once that is known. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { continueAs } from '../../concurrency/event-loop.ts'
import { networkOf } from '../../config/address-ranges.ts'
import { disconnectSignal } from '../requests/client-disconnect.ts'

const accounts = new WeakMap<FastifyRequest, string>()

/** The key of its work, for `continueAs` and `nextSlice`. */
export const schedulingKey = (request: FastifyRequest): string =>
  accounts.get(request) ?? networkOf(request.ip)

/** A read is aborted when its client disconnects. A command finishes what it has begun. */
const READS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

/**
 * From here on, the work of routes that are registered after this call counts for the account, so that clients behind
 * one address do not wait for a busy one. `accountOf` returns the key; null without an account. Long reads abort when
 * the client disconnects.
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
