/**
 * Sends what webhooks have to send. In memory is only which webhooks have something and when each is next; what it is, is
 * in the store. A node that stood still may find that another one has gone on: then it sends nothing more, and what it
 * learns of what it has sent is not recorded over what the other one knows.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { isDiskFull } from '../../disk-full.ts'
import { StoreUnavailable } from '../../events/event-store.ts'
import { GitTookTooLong, GitUnavailable } from '../../git/errors.ts'
import type { Outside } from '../../http/outside-request.ts'
import { limitReached } from '../../limits.ts'
import { machineTroubleOf } from '../../machine-trouble.ts'
import { createPauses } from '../../pauses.ts'
import { LostHold } from '../../projections/read-store.ts'
import type { WebhookDelivery } from '../../projections/webhook-deliveries.ts'
import { createRecentUse } from '../../recent-use.ts'
import type { Services } from '../../services.ts'
import type { Hold } from '../process-manager.ts'
import { attempt, type Outcome } from './attempt.ts'
import { alone, deliveryAfter } from './parts.ts'
import { createPayloads } from './payloads.ts'
import { dueAt, waitAfter } from './retries.ts'
import { isSlow, type Ready, whoseTurn } from './whose-turn.ts'

/** The most deliveries at the same time; the most of them for all slow accounts together, and for one account. */
const AT_ONCE = 16
const AT_ONCE_OF_SLOW = 12
const AT_ONCE_OF_OWNER = 4
/** The most events that wait for one webhook. */
const MAX_WAITING = 10_000
/** How often a node that does not run the process looks whether it does. */
const LOOK_MS = 500
/** After a failure of our own (a store, git) it is tried again after this time. */
const AFTER_FAILURE_MS = 2000
/** After so many failures, one after the other, of which nothing says that they will pass, a delivery is given up. */
const MAX_FAILURES = 3

/** After this time, in milliseconds, what the deliveries of an account have taken counts half. */
const HALF_LIFE_MS = 60_000

/** Whether the machine, a store or git may be able to do it later. */
const mayPass = (error: unknown) =>
  isDiskFull(error) ||
  machineTroubleOf(error) !== undefined ||
  error instanceof StoreUnavailable ||
  (error instanceof GitUnavailable && !(error instanceof GitTookTooLong))

/** A webhook that has something to send. */
interface Head {
  ownerId: number
  notBefore: number
}

export function createWorker(services: Services, outside: Outside, signal: AbortSignal) {
  const { webhookDeliveries: deliveries, projector, log } = services
  const payloads = createPayloads(services)
  const heads = new Map<number, Head>()
  const busy = new Map<number, Promise<void>>()
  const ofOwner = new Map<number, number>()
  /** How long the deliveries of each account have taken lately. */
  const used = createRecentUse(HALF_LIFE_MS, () => performance.now())
  /** How many wait for a webhook; unknown until one is added. */
  const waiting = new Map<number, number>()
  /** By webhook the delivery that we fail to make, and how often. */
  const failing = new Map<number, { id: string; times: number }>()
  /** Webhooks that were deleted while they sent something. */
  const gone = new Set<number>()
  let working: Promise<void> = Promise.resolve()
  const { pause, wake } = createPauses(signal)
  let hold: Hold = () => undefined
  /** The incarnation for which the heads were read. */
  let loadedFor: string | undefined

  /** Makes what throws LostHold when another node may have done this work since now. */
  function holdOfNow(): () => void {
    const held = hold()
    return () => {
      if (held === undefined || hold() !== held) throw new LostHold(['webhooks'])
    }
  }

  /** Notes what is to be sent. Of a webhook that has too much waiting, it is recorded as failed. */
  async function add(wanted: readonly WebhookDelivery[]): Promise<void> {
    const requireHold = holdOfNow()
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
    for (const { hookId, ownerId, state } of await deliveries.add(noted, requireHold)) {
      if (state === 'waiting' && !heads.has(hookId)) heads.set(hookId, { ownerId, notBefore: 0 })
    }
    // A receiver that is away ends none, so nothing else would remove those.
    for (const hookId of full) await deliveries.prune(hookId)
    wake()
  }

  /** Records what came of an attempt. Resolves to when the webhook is next. */
  async function record(
    delivery: WebhookDelivery,
    begun: number,
    outcome: Outcome,
    requireHold: () => void,
  ): Promise<number> {
    requireHold()
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
    if (signal.aborted || error instanceof LostHold || mayPass(error)) throw error
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

  /** Sends the next delivery of a webhook, if its time has come. */
  async function sendNext(hookId: number): Promise<void> {
    const requireHold = holdOfNow()
    // Before the look: what is added from now on makes a new head.
    heads.delete(hookId)
    const delivery = await deliveries.next(hookId)
    if (delivery === undefined) return void waiting.delete(hookId)
    const { ownerId } = delivery
    let notBefore = dueAt(delivery.notBefore, Date.now())
    if (notBefore <= Date.now()) {
      // Documents must not be older than the event: another node may have noted it.
      if (!(await projector.waitFor(delivery.position, AFTER_FAILURE_MS))) notBefore = Date.now()
      else {
        const begun = Date.now()
        const outcome = await attempt(services, { outside, payloads }, delivery, signal, requireHold).catch(
          (error: unknown) => unmade(delivery, error),
        )
        failing.delete(hookId)
        if (outcome === undefined || gone.has(hookId)) return await deliveries.removeAll(hookId)
        notBefore = await record(delivery, begun, outcome, requireHold)
      }
    }
    heads.set(hookId, { ownerId, notBefore })
  }

  function begin(hookId: number, ownerId: number): void {
    const begun = performance.now()
    ofOwner.set(ownerId, (ofOwner.get(ownerId) ?? 0) + 1)
    const one = sendNext(hookId)
      .catch((error: unknown) => {
        if (signal.aborted) return
        if (error instanceof LostHold) {
          // When this node has the work again, it begins with what is stored then.
          loadedFor = undefined
          return
        }
        log.warn({ err: error, hookId }, 'a delivery of a webhook failed; it will be tried again')
        heads.set(hookId, { ownerId, notBefore: Date.now() + AFTER_FAILURE_MS })
      })
      .finally(() => {
        busy.delete(hookId)
        gone.delete(hookId)
        used.add(`${ownerId}`, performance.now() - begun)
        const left = (ofOwner.get(ownerId) ?? 1) - 1
        if (left === 0) ofOwner.delete(ownerId)
        else ofOwner.set(ownerId, left)
        wake()
      })
    busy.set(hookId, one)
  }

  /** Begins what may begin. Resolves to when the next one may, in milliseconds since 1970. */
  function beginAll(): number {
    let next = Number.POSITIVE_INFINITY
    // Whoever ends wakes us.
    if (busy.size >= AT_ONCE) return next
    const now = Date.now()
    const ready: Ready[] = []
    for (const [hookId, { ownerId, notBefore }] of heads) {
      if (busy.has(hookId)) continue
      const at = dueAt(notBefore, now)
      if (at > now) next = Math.min(next, at)
      else ready.push({ hookId, ownerId, at })
    }
    let slow = 0
    for (const [ownerId, count] of ofOwner) if (isSlow(ownerId, used)) slow += count
    const freeForSlow = AT_ONCE_OF_SLOW - slow
    const freeFor = (ownerId: number) => AT_ONCE_OF_OWNER - (ofOwner.get(ownerId) ?? 0)
    for (const one of whoseTurn(ready, { free: AT_ONCE - busy.size, freeForSlow, freeFor, used })) {
      begin(one.hookId, one.ownerId)
    }
    return next
  }

  async function load(): Promise<void> {
    for (const { hookId, ownerId, notBefore } of await deliveries.heads()) {
      if (!heads.has(hookId)) heads.set(hookId, { ownerId, notBefore })
    }
  }

  async function work(): Promise<void> {
    while (!signal.aborted) {
      try {
        const held = hold()
        if (held === undefined || held !== loadedFor) {
          loadedFor = undefined
          heads.clear()
          waiting.clear()
          failing.clear()
          if (held !== undefined) await load()
          loadedFor = held
        }
        if (held === undefined) {
          await pause(LOOK_MS)
          continue
        }
        await pause(Math.min(beginAll() - Date.now(), LOOK_MS))
      } catch (error) {
        if (signal.aborted) break
        log.warn({ err: error }, 'the deliveries of webhooks could not be read; it will be tried again')
        await delay(AFTER_FAILURE_MS, undefined, { signal }).catch(() => {})
      }
    }
    await Promise.all(busy.values())
  }

  return {
    add,
    /** Forgets a webhook that was deleted. What is being sent to it ends by itself. */
    async forget(hookId: number): Promise<void> {
      heads.delete(hookId)
      waiting.delete(hookId)
      failing.delete(hookId)
      if (busy.has(hookId)) gone.add(hookId)
      await deliveries.removeAll(hookId)
    },
    start(own: Hold): void {
      hold = own
      working = work()
    },
    stopped: () => working,
  }
}
