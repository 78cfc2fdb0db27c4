/**
 * Sends deliveries. Memory has only the webhooks with deliveries and their next times; the store has the deliveries. A
 * suspended node that has lost its lease sends nothing more, and does not overwrite the records of the new node.
 */
import { createWorker, type Work } from '../../concurrency/worker.ts'
import { limitReached } from '../../errors/limits.ts'
import { StoreUnavailable } from '../../events/store/event-store.ts'
import { GitTookTooLong, GitUnavailable } from '../../git/process/errors.ts'
import type { OutboundHttp } from '../../http/outbound/outbound-http.ts'
import type { WebhookDelivery } from '../../projections/models/webhooks/webhook-deliveries.fold.ts'
import { LeaseLost } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { isDiskFull } from '../../storage/disk-full.ts'
import { hostFailureOf } from '../../storage/host-failure.ts'
import type { Lease } from '../process-manager.ts'
import { attempt, type Outcome } from './attempt.ts'
import { deliveryAfter, withoutRest } from './delivery-chain.ts'
import { createPayloads } from './payloads.ts'
import { dueAt, waitAfter } from './retries.ts'

/** Maximum number of concurrent deliveries: in total, of all slow accounts, and per account. */
const MAX_CONCURRENT = 16
const MAX_CONCURRENT_OF_SLOW = 12
const MAX_CONCURRENT_OF_OWNER = 4
/** Recent delivery time from which an account counts as slow, in milliseconds: a single hanging delivery exceeds it. */
const SLOW_MS = 5000
/** Maximum number of events in the queue of a webhook. */
const MAX_WAITING = 10_000
/** Pause after a failure of a store or git, in milliseconds. */
const AFTER_FAILURE_MS = 2000
/** Number of consecutive permanent failures after which a delivery is given up. */
const MAX_FAILURES = 3

/** Half-life of an account's delivery time, in milliseconds. */
const HALF_LIFE_MS = 60_000

/** Whether the error of the host, a store or git may pass. */
const mayPass = (error: unknown) =>
  isDiskFull(error) ||
  hostFailureOf(error) !== undefined ||
  error instanceof StoreUnavailable ||
  (error instanceof GitUnavailable && !(error instanceof GitTookTooLong))

/** A webhook with deliveries in its queue. */
interface Head extends Work {
  hookId: number
}

const headOf = ({ hookId, ownerId }: WebhookDelivery): Head => ({
  id: `${hookId}`,
  account: `${ownerId}`,
  hookId,
})

const untilDue = (notBefore: number): number => {
  const now = Date.now()
  return Math.max(0, dueAt(notBefore, now) - now)
}

export function createSender(services: Services, outbound: OutboundHttp, signal: AbortSignal) {
  const { webhookDeliveries: deliveries, projector, log } = services
  const payloads = createPayloads(services)
  /** Queue length by webhook; unknown until a delivery is added. */
  const waiting = new Map<number, number>()
  /** By webhook, the delivery that this server fails to create, and the number of failures. */
  const failing = new Map<number, { id: string; times: number }>()
  /** Webhooks that were deleted during a delivery. */
  const gone = new Set<number>()
  let lease: Lease = () => undefined

  /** Returns a check that throws LeaseLost when another node may have done this work since now. */
  function currentLease(): () => void {
    const held = lease()
    return () => {
      if (held === undefined || lease() !== held) throw new LeaseLost(['webhooks'])
    }
  }

  /** Stores deliveries. Deliveries for a full queue are recorded as failed. */
  async function add(wanted: readonly WebhookDelivery[]): Promise<void> {
    const requireLease = currentLease()
    const stored: WebhookDelivery[] = []
    const full = new Set<number>()
    for (const delivery of wanted) {
      const { hookId } = delivery
      const count = waiting.get(hookId) ?? (await deliveries.waiting(hookId))
      const isFull = count >= MAX_WAITING
      if (isFull) {
        limitReached('webhook_deliveries')
        full.add(hookId)
      }
      waiting.set(hookId, isFull ? count : count + 1)
      const problem = 'too many deliveries wait for this webhook'
      stored.push(isFull ? { ...withoutRest(delivery), state: 'failed', problem } : delivery)
    }
    for (const delivery of await deliveries.add(stored, requireLease)) {
      const head = headOf(delivery)
      if (delivery.state === 'waiting' && worker.waiting(head.id) === undefined) void worker.add(head)
    }
    // An unreachable receiver finishes no delivery, so nothing else would remove these.
    for (const hookId of full) await deliveries.prune(hookId)
  }

  /** Records the outcome of an attempt. Resolves to the time of the webhook's next delivery. */
  async function record(
    delivery: WebhookDelivery,
    begun: number,
    outcome: Outcome,
    requireLease: () => void,
  ): Promise<number> {
    requireLease()
    const now = Date.now()
    const { result, statusCode, problem } = outcome
    const tried: WebhookDelivery = {
      ...delivery,
      attempts: delivery.attempts + 1,
      triedAt: now,
      durationMs: now - begun,
      statusCode,
      problem,
    }
    if (result === 'again') {
      const notBefore = now + waitAfter(tried.attempts, Math.random())
      await deliveries.put({ ...tried, notBefore })
      return notBefore
    }
    const done: WebhookDelivery = { ...withoutRest(tried), state: result }
    const next = deliveryAfter(delivery)
    // The next delivery first: a store without transactions may fail between the two writes.
    await deliveries.put(...(next === undefined ? [] : [next]), done)
    const count = waiting.get(delivery.hookId)
    if (count !== undefined && next === undefined) waiting.set(delivery.hookId, count - 1)
    await deliveries.prune(delivery.hookId)
    return 0
  }

  /**
   * Returns the outcome of a delivery that repeatedly cannot be created and blocks later ones.
   * @throws the error of earlier failures
   */
  function giveUpOrThrow({ id, hookId }: WebhookDelivery, error: unknown): Outcome {
    if (signal.aborted || error instanceof LeaseLost || mayPass(error)) throw error
    const before = failing.get(hookId)
    const times = before?.id === id ? before.times + 1 : 1
    failing.set(hookId, { id, times })
    if (times < MAX_FAILURES) throw error
    log.error(
      { err: error, hookId, delivery: id },
      'the payload of a delivery cannot be created: the delivery is given up',
    )
    return { result: 'failed', statusCode: 0, problem: 'the server could not create the payload' }
  }

  /** Sends the next delivery of a webhook if it is due. Resolves to the milliseconds until the next one. */
  async function sendNext(hookId: number): Promise<number | undefined> {
    const requireLease = currentLease()
    const delivery = await deliveries.next(hookId)
    if (delivery === undefined) {
      waiting.delete(hookId)
      return undefined
    }
    const left = untilDue(delivery.notBefore)
    if (left > 0) return left
    // Documents must not be older than the event: another node may have stored the delivery.
    if (!(await projector.waitFor(delivery.position, AFTER_FAILURE_MS))) return 0
    const begun = Date.now()
    const outcome = await attempt(services, { outbound, payloads }, delivery, signal, requireLease).catch(
      (error: unknown) => giveUpOrThrow(delivery, error),
    )
    failing.delete(hookId)
    if (outcome !== undefined && !gone.has(hookId))
      return untilDue(await record(delivery, begun, outcome, requireLease))
    await deliveries.removeAll(hookId)
    return undefined
  }

  const worker = createWorker<Head>(
    {
      places: MAX_CONCURRENT,
      placesOfAccount: MAX_CONCURRENT_OF_OWNER,
      slow: { ms: SLOW_MS, places: MAX_CONCURRENT_OF_SLOW },
      halfLifeMs: HALF_LIFE_MS,
      pauseMs: AFTER_FAILURE_MS,
      longestPauseMs: AFTER_FAILURE_MS,
      async load() {
        waiting.clear()
        failing.clear()
        for (const head of await deliveries.heads()) {
          if (worker.waiting(`${head.hookId}`) === undefined)
            void worker.add(headOf(head), untilDue(head.notBefore))
        }
      },
      work: ({ hookId }) => sendNext(hookId).finally(() => gone.delete(hookId)),
      failed(error, one) {
        const what =
          one === undefined
            ? 'the deliveries of webhooks could not be read'
            : 'a delivery of a webhook failed'
        // If another node has the work, it is not retried here.
        if (!(error instanceof LeaseLost))
          log.warn({ err: error, hookId: one?.hookId }, `${what}; it will be tried again`)
      },
    },
    signal,
  )

  return {
    add,
    /** Forgets a deleted webhook. A running delivery ends by itself. */
    async forget(hookId: number): Promise<void> {
      waiting.delete(hookId)
      failing.delete(hookId)
      if (worker.remove(`${hookId}`)) gone.add(hookId)
      await deliveries.removeAll(hookId)
    },
    start(own: Lease): void {
      lease = own
      worker.start(own)
    },
    stopped: worker.stopped,
  }
}
