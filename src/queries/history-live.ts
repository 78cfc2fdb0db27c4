/** A history that goes on: what was, then what comes, each event once. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Position, StoreUnavailable } from '../events/event-store.ts'
import { clientGone } from '../http/client-gone.ts'
import { type Beginning, checkBeginning, type StreamedEvent, sendEventStream } from '../http/event-stream.ts'
import type { Services } from '../services.ts'
import { type Asked, seenOf } from './history-rights.ts'
import { BEGINNING, type History, inBatches, type Told } from './history-source.ts'
import type { Listener } from './live-events.ts'

export interface Follower extends Asked {
  history: History
  beginning: Beginning
  listener: Listener
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
  followed: Pick<Follower, 'history' | 'filter' | 'rights' | 'beginning'>,
): Promise<void> {
  const signal = clientGone(reply)
  await checkBeginning(request, followed.beginning, followed.history.last)
  const { requester, ip } = request
  const listener = await live.join(requester === null ? `address ${ip}` : `account ${requester.id}`)
  if (signal.aborted) listener.leave()
  else reply.raw.once('close', () => listener.leave())
  const follower = { ...followed, listener, projector, signal }
  sendEventStream(request, reply, () => untilLost(follower), live.ending)
}

/** Ends, instead of failing, when a store is lost: the client connects again, and goes on where it was. */
async function* untilLost(follower: Follower): AsyncGenerator<StreamedEvent[]> {
  try {
    yield* followHistory(follower)
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error
  }
}

/**
 * Batches for an event stream; an empty one says that nothing has come for a while. Ends when the rights end,
 * and when the log is lost: the client then connects again.
 *
 * What is in the listener's memory is taken from there; what is older is read from the stores, up to where the
 * memory begins. Both go by the events' ids, so what is in both comes once.
 */
export async function* followHistory(follower: Follower): AsyncGenerator<StreamedEvent[]> {
  const { history, filter, beginning, listener, signal } = follower
  /** All that the listener remembers up to here has been dealt with; undefined: the stores come first. */
  let joined = beginning === 'now' ? listener.position() : undefined
  /** Id of the last event that has been dealt with. */
  let last = await firstId(beginning, history)
  let woken = false

  async function shown(batch: readonly Told[]): Promise<StreamedEvent[] | undefined> {
    const seen = await seenOf(batch, follower)
    return seen?.map(({ event, json }) => ({ id: event[history.id], data: json }))
  }

  while (!signal.aborted) {
    const from: Position | undefined = joined
    const recent = from === undefined ? undefined : listener.since(from)
    const now = listener.position()
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
        const missed = await listener.next(history.topic, signal)
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
