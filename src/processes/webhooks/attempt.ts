/** Makes one attempt to deliver: creates the payload and sends it. */

import { webhookConfigsOf } from '../../auth/webhook-configs.ts'
import { releasableSignal } from '../../concurrency/releasable-signal.ts'
import { BadRedirect, InternalAddress, type OutboundHttp } from '../../http/outbound/outbound-http.ts'
import type { WebhookDelivery } from '../../projections/models/webhooks/webhook-deliveries.fold.ts'
import type { Services } from '../../services/services.ts'
import { deliveryRequest } from './delivery-request.ts'
import type { Payloads } from './payloads.ts'
import { GIVEN_UP_AFTER_MS, isDelivered, mayChange } from './retries.ts'

/** Time limit of an attempt on the network, in milliseconds. */
const TIMEOUT_MS = 10_000

/** Outcome of an attempt. `again` is a failure that may pass. */
export interface Outcome {
  result: 'delivered' | 'failed' | 'again'
  /** 0 without a response. */
  statusCode: number
  problem: string
}

const failed = (problem: string): Outcome => ({ result: 'failed', statusCode: 0, problem })

/** Returns a network failure as text, without resolved addresses, which may be internal. */
function problemOf(error: unknown): string {
  if (!(error instanceof Error)) return 'the connection failed'
  if (error.name === 'TimeoutError') return `no complete answer within ${TIMEOUT_MS / 1000} s`
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name
  return `the connection failed: ${code}`
}

/**
 * Gives up an old event only after one more attempt: it may be old because the clock was set forward or no server ran.
 */
function retryOrGiveUp({ at }: WebhookDelivery, statusCode: number, problem: string): Outcome {
  if (Date.now() - at <= GIVEN_UP_AFTER_MS) return { result: 'again', statusCode, problem }
  return { result: 'failed', statusCode, problem: `given up: ${problem}` }
}

/**
 * Sends a delivery; a failure of the receiver is an outcome, not an error. Resolves to undefined when the webhook is
 * deleted. `requireLease` is called right before sending, and throws when another node may send it.
 * @throws errors of stores and git, and an abort when the server stops
 */
export async function attempt(
  { views, secrets }: Pick<Services, 'views' | 'secrets'>,
  { outbound, payloads }: { outbound: OutboundHttp; payloads: Payloads },
  delivery: WebhookDelivery,
  stopping: AbortSignal,
  requireLease: () => void,
): Promise<Outcome | undefined> {
  const hook = await views.webhooks.get(`${delivery.hookId}`)
  if (hook === undefined) return undefined
  if (!hook.active) return failed('the webhook was switched off')
  const config = (await webhookConfigsOf(secrets, [hook.configId])).get(hook.configId)
  if (config === undefined) return failed('the configuration is lost: set the URL and the secret again')
  const payload = await payloads(delivery, hook.scope)
  if ('problem' in payload) return failed(payload.problem)
  const request = deliveryRequest(delivery, hook.contentType, config, payload.json)
  requireLease()
  const stopped = releasableSignal(stopping)
  const timeout = AbortSignal.timeout(TIMEOUT_MS)
  try {
    const statusCode = await outbound.post({ ...request, signal: AbortSignal.any([timeout, stopped.signal]) })
    if (isDelivered(statusCode)) return { result: 'delivered', statusCode, problem: '' }
    const problem = `the receiver answered with ${statusCode}`
    return mayChange(statusCode)
      ? retryOrGiveUp(delivery, statusCode, problem)
      : { result: 'failed', statusCode, problem }
  } catch (error) {
    if (stopping.aborted) throw error
    if (error instanceof InternalAddress || error instanceof BadRedirect) return failed(error.message)
    return retryOrGiveUp(delivery, 0, problemOf(error))
  } finally {
    stopped.release()
  }
}
