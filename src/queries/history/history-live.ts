/** A live history: past events, then new ones as they arrive, each event once. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../../config/address-ranges.ts'
import { type Position, StoreUnavailable } from '../../events/store/event-store.ts'
import {
  type Beginning,
  requireExistingBeginning,
  type StreamedEvent,
  sendEventStream,
} from '../../http/answers/event-stream.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import type { Subscriber } from '../../projections/live/live-events.ts'
import type { Services } from '../../services/services.ts'
import { type HistoryRequest, visibleOf } from './history-permissions.ts'
import { BEGINNING, type Delivery, type History, inBatches } from './history-source.ts'

interface SubscriptionRequest extends HistoryRequest {
  history: History
  beginning: Beginning
  subscriber: Subscriber
}

/**
 * Answers with a history and then with new events, until the client disconnects.
 * @throws Refused when the event to begin after does not exist (unprocessable), when the client has too many
 * subscriptions already (tooManyRequests), or all clients together have (unavailable)
 */
export async function sendLive(
  { live, projector }: Pick<Services, 'live' | 'projector'>,
  request: FastifyRequest,
  reply: FastifyReply,
  requested: Pick<SubscriptionRequest, 'history' | 'filter' | 'permissions' | 'beginning'>,
): Promise<void> {
  const signal = disconnectSignal(reply)
  await requireExistingBeginning(request, requested.beginning, requested.history.last)
  const { requester, ip } = request
  const subscriber = await live.subscribe(
    requester === null ? `address ${networkOf(ip)}` : `account ${requester.id}`,
  )
  if (signal.aborted) subscriber.leave()
  else reply.raw.once('close', () => subscriber.leave())
  const subscription = { ...requested, subscriber, projector, signal }
  sendEventStream(request, reply, () => untilUnavailable(subscription), live.ending)
}

/** Ends instead of failing when a store is unavailable: the client then reconnects and continues. */
async function* untilUnavailable(request: SubscriptionRequest): AsyncGenerator<StreamedEvent[]> {
  try {
    yield* followHistory(request)
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error
  }
}

/**
 * Yields batches for an event stream; an empty batch means a pause without events. Ends when the requester loses the
 * permission. Recent events come from the subscriber's buffer, older ones from the stores. Deduplicates them by id.
 * @throws StoreUnavailable
 */
export async function* followHistory(request: SubscriptionRequest): AsyncGenerator<StreamedEvent[]> {
  const { history, filter, beginning, subscriber, signal } = request
  /** Position up to which the subscriber's buffer was sent; undefined: read the stores first. */
  let joined: Position | undefined = beginning === 'now' ? subscriber.position() : undefined
  /** Id of the last event that was sent or filtered out. */
  let last = beginning === 'first' ? BEGINNING : beginning === 'now' ? await history.last() : beginning
  let woken = false

  async function shown(batch: readonly Delivery[]) {
    const visible = await visibleOf(batch, request)
    return visible?.map(({ event, json }) => ({ id: event[history.id], data: json }))
  }

  while (!signal.aborted) {
    const recent = joined === undefined ? undefined : subscriber.since(joined)
    const now = subscriber.position()
    if (recent === undefined) {
      for await (const batch of inBatches(history.read(filter, last))) {
        const events = await shown(batch)
        if (events === undefined) return
        last = batch.at(-1)?.event[history.id] ?? last
        if (events.length > 0) yield events
        if (signal.aborted) return
      }
    } else {
      const own = recent.filter((live) => history.has(live) && live.event[history.id] > last)
      if (own.length > 0 || woken) {
        const events = await shown(own)
        if (events === undefined) return
        last = own.at(-1)?.event[history.id] ?? last
        if (events.length > 0 || own.length === 0) yield events
        woken = false
      } else {
        const missed = await subscriber.next(history.topic, signal)
        if (missed === undefined) return
        joined = missed
        woken = true
        continue
      }
    }
    joined = now
    if (history.id === 'position') last = Math.max(last, now)
  }
}
