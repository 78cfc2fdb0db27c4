/**
 * Sends what webhooks have to send. In memory is only which webhooks have something and when each is next; what it is, is
 * in the store. A node that stood still may find that another one has gone on: then it sends nothing more, and what it
 * learns of what it has sent is not recorded over what the other one knows.
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
import { alone, deliveryAfter } from './delivery-chain.ts'
import { createPayloads } from './payloads.ts'
import { dueAt, waitAfter } from './retries.ts'

/** The most deliveries at the same time; the most of them for all slow accounts together, and for one account. */
const AT_ONCE = 16
const AT_ONCE_OF_SLOW = 12
const AT_ONCE_OF_OWNER = 4
/** Slow is an account whose deliveries have taken more than this lately, in milliseconds: a single one that hangs does. */
const SLOW_MS = 5000
/** The most events that wait for one webhook. */
const MAX_WAITING = 10_000
/** After a failure of our own (a store, git) it is tried again after this time. */
const AFTER_FAILURE_MS = 2000
/** After so many failures, one after the other, of which nothing says that they will pass, a delivery is given up. */
const MAX_FAILURES = 3

/** After this time, in milliseconds, what the deliveries of an account have taken counts half. */
const HALF_LIFE_MS = 60_000

/** Whether the machine, a store or git may be able to do it later. */
const mayPass = (error: unknown) =>
  isDiskFull(error) ||
  hostFailureOf(error) !== undefined ||
  error instanceof StoreUnavailable ||
  (error instanceof GitUnavailable && !(error instanceof GitTookTooLong))

/** A webhook that has something to send. */
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
  /** How many wait for a webhook; unknown until one is added. */
  const waiting = new Map<number, number>()
  /** By webhook the delivery that we fail to make, and how often. */
  const failing = new Map<number, { id: string; times: number }>()
  /** Webhooks that were deleted while they sent something. */
  const gone = new Set<number>()
  let lease: Lease = () => undefined

  /** Makes what throws LeaseLost when another node may have done this work since now. */
  function currentLease(): () => void {
    const held = lease()
    return () => {
      if (held === undefined || lease() !== held) throw new LeaseLost(['webhooks'])
    }
  }

  /** Notes what is to be sent. Of a webhook that has too much waiting, it is recorded as failed. */
  async function add(wanted: readonly WebhookDelivery[]): Promise<void> {
    const requireLease = currentLease()
    const noted: WebhookDelivery[] = []
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
      noted.push(isFull ? { ...alone(delivery), state: 'failed', problem } : delivery)
    }
    for (const delivery of await deliveries.add(noted, requireLease)) {
      const head = headOf(delivery)
      if (delivery.state === 'waiting' && worker.waiting(head.id) === undefined) void worker.add(head)
    }
    // A receiver that is away ends none, so nothing else would remove those.
    for (const hookId of full) await deliveries.prune(hookId)
  }

  /** Records what came of an attempt. Resolves to when the webhook is next. */
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
    const done: WebhookDelivery = { ...alone(tried), state: result }
    const next = deliveryAfter(delivery)
    // What follows comes first: a store that writes one after the other may die between the two.
    await deliveries.put(...(next === undefined ? [] : [next]), done)
    const count = waiting.get(delivery.hookId)
    if (count !== undefined && next === undefined) waiting.set(delivery.hookId, count - 1)
    await deliveries.prune(delivery.hookId)
    return 0
  }

  /** The outcome of a delivery that we fail to make again and again: what comes after it waits. @throws the error before */
  function unmade({ id, hookId }: WebhookDelivery, error: unknown): Outcome {
    if (signal.aborted || error instanceof LeaseLost || mayPass(error)) throw error
    const before = failing.get(hookId)
    const times = before?.id === id ? before.times + 1 : 1
    failing.set(hookId, { id, times })
    if (times < MAX_FAILURES) throw error
    log.error(
      { err: error, hookId, delivery: id },
      'what a webhook is to be told cannot be made: it is not told',
    )
    return { result: 'failed', statusCode: 0, problem: 'the server could not make what was to be sent' }
  }

  /** Sends the next delivery of a webhook, if its time has come. Resolves to after how many milliseconds the next one is. */
  async function sendNext(hookId: number): Promise<number | undefined> {
    const requireLease = currentLease()
    const delivery = await deliveries.next(hookId)
    if (delivery === undefined) {
      waiting.delete(hookId)
      return undefined
    }
    const left = untilDue(delivery.notBefore)
    if (left > 0) return left
    // Documents must not be older than the event: another node may have noted it.
    if (!(await projector.waitFor(delivery.position, AFTER_FAILURE_MS))) return 0
    const begun = Date.now()
    const outcome = await attempt(services, { outbound, payloads }, delivery, signal, requireLease).catch(
      (error: unknown) => unmade(delivery, error),
    )
    failing.delete(hookId)
    if (outcome !== undefined && !gone.has(hookId))
      return untilDue(await record(delivery, begun, outcome, requireLease))
    await deliveries.removeAll(hookId)
    return undefined
  }

  const worker = createWorker<Head>(
    {
      places: AT_ONCE,
      placesOfAccount: AT_ONCE_OF_OWNER,
      slow: { ms: SLOW_MS, places: AT_ONCE_OF_SLOW },
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
        // When another node has the work, it is not tried here.
        if (!(error instanceof LeaseLost))
          log.warn({ err: error, hookId: one?.hookId }, `${what}; it will be tried again`)
      },
    },
    signal,
  )

  return {
    add,
    /** Forgets a webhook that was deleted. What is being sent to it ends by itself. */
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
