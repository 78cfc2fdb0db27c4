/** A history that goes on: what was, then what comes, each event once. */

import { LOG_START, type Position } from '../events/event-store.ts'
import type { Beginning, StreamedEvent } from '../http/event-stream.ts'
import type { Projector } from '../projections/projector.ts'
import { type HistoryFilter, isEventAskedFor } from './history-filter.ts'
import type { Rights } from './history-rights.ts'
import { BEGINNING, type History, inBatches, type Told } from './history-source.ts'
import type { Listener } from './live-events.ts'

export interface Follower {
  history: History
  filter: HistoryFilter
  rights: Rights
  beginning: Beginning
  listener: Listener
  projector: Pick<Projector, 'waitFor'>
  /** The client is gone, or the server stops. */
  signal: AbortSignal
}

/**
 * Batches for an event stream; an empty one says that nothing has come for a while. Ends when the rights end,
 * and when the log is lost: the client then connects again.
 *
 * What is in the listener's memory is taken from there; what is older is read from the stores, up to where the
 * memory begins. Both go by the events' ids, so what is in both comes once.
 */
export async function* followHistory(follower: Follower): AsyncGenerator<StreamedEvent[]> {
  const { history, filter, rights, beginning, listener, projector, signal } = follower
  /** All that the listener remembers up to here has been dealt with; undefined: the stores come first. */
  let joined = beginning === 'now' ? listener.position() : undefined
  /** Id of the last event that has been dealt with. */
  let last = await firstId(beginning, history)
  let woken = false

  /** What the requester may see of a batch by the rights that all of its events left. */
  async function shown(batch: readonly Told[]): Promise<StreamedEvent[] | undefined> {
    const position = batch.at(-1)?.event.position ?? LOG_START
    while (!(await projector.waitFor(position, 1000)) && !signal.aborted);
    const hidden = await rights()
    if (hidden === undefined || signal.aborted) return undefined
    const asked = { ...filter, hidden }
    return batch
      .filter(({ event }) => isEventAskedFor(asked, event))
      .map(({ event, json }) => ({ id: event[history.id], data: json }))
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
