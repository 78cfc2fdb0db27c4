/** A history that goes on: what was, then what comes, each event once. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Position, StoreUnavailable } from '../events/event-store.ts'
import { clientGone } from '../http/client-gone.ts'
import {
  type Beginning,
  requireExistingBeginning,
  type StreamedEvent,
  sendEventStream,
} from '../http/event-stream.ts'
import type { Subscriber } from '../projections/live-events.ts'
import type { Services } from '../services.ts'
import { type HistoryRequest, seenOf } from './history-rights.ts'
import { BEGINNING, type Delivery, type History, inBatches } from './history-source.ts'

export interface SubscriptionRequest extends HistoryRequest {
  history: History
  beginning: Beginning
  subscriber: Subscriber
}

/**
 * Answers with a history and what comes after it, for ever.
 * @throws Refused when it is to begin behind an event that there is not (unprocessable), when the client follows too
 *   much already (tooManyRequests), or all clients together do (unavailable)
 */
export async function sendLive(
  { live, projector }: Pick<Services, 'live' | 'projector'>,
  request: FastifyRequest,
  reply: FastifyReply,
  requested: Pick<SubscriptionRequest, 'history' | 'filter' | 'rights' | 'beginning'>,
): Promise<void> {
  const signal = clientGone(reply)
  await requireExistingBeginning(request, requested.beginning, requested.history.last)
  const { requester, ip } = request
  const subscriber = await live.subscribe(requester === null ? `address ${ip}` : `account ${requester.id}`)
  if (signal.aborted) subscriber.leave()
  else reply.raw.once('close', () => subscriber.leave())
  const subscription = { ...requested, subscriber, projector, signal }
  sendEventStream(request, reply, () => untilLost(subscription), live.ending)
}

/** Ends, instead of failing, when a store is lost: the client connects again, and goes on where it was. */
async function* untilLost(request: SubscriptionRequest): AsyncGenerator<StreamedEvent[]> {
  try {
    yield* followHistory(request)
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error
  }
}

/**
 * Batches for an event stream; an empty one says that nothing has come for a while. Ends when the rights end,
 * and when the log is lost: the client then connects again.
 *
 * Recent events come from the subscriber's memory; older ones are read from the stores, up to where the memory begins.
 * Both go by the events' ids, so an event that is in both comes once.
 */
export async function* followHistory(request: SubscriptionRequest): AsyncGenerator<StreamedEvent[]> {
  const { history, filter, beginning, subscriber, signal } = request
  /** Everything in the subscriber's memory up to here is done; undefined: the stores come first. */
  let joined = beginning === 'now' ? subscriber.position() : undefined
  /** Id of the last event that has been dealt with. */
  let last = await firstId(beginning, history)
  let woken = false

  async function shown(batch: readonly Delivery[]): Promise<StreamedEvent[] | undefined> {
    const seen = await seenOf(batch, request)
    return seen?.map(({ event, json }) => ({ id: event[history.id], data: json }))
  }

  while (!signal.aborted) {
    const from: Position | undefined = joined
    const recent = from === undefined ? undefined : subscriber.since(from)
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

function firstId(beginning: Beginning, history: History): Promise<number> | number {
  if (beginning === 'first') return BEGINNING
  return beginning === 'now' ? history.last() : beginning
}
