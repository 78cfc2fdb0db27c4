/** A history, whatever it is of: what a page, lines and a live stream are made from. And that of one stream. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { EventStore, RecordedEvent } from '../events/event-store.ts'
import type { LiveEvent, Topic } from '../projections/live-events.ts'
import { historyJson } from '../wire/history.ts'
import { type HistoryFilter, isAskedFor, isEventAskedFor } from './history-filter.ts'
import { factsOf } from './stream-facts.ts'

export interface Slice {
  skip: number
  limit: number
}

export interface History {
  /** What grows from event to event, and is their id on an event stream. */
  readonly id: 'revision' | 'position'
  readonly topic: Topic
  has(live: LiveEvent): boolean
  /** Oldest first; `total`: of all that are asked for. Ends early when the signal says so. */
  page(
    filter: HistoryFilter,
    slice: Slice,
    signal: AbortSignal,
  ): Promise<{ events: RecordedEvent[]; total: number }>
  /** All that are asked for and have a larger id, oldest first; none with a larger one than `upTo`. */
  read(filter: HistoryFilter, after: number, upTo?: number): AsyncIterable<RecordedEvent>
  /** The id of the last event; -1 when there is none. */
  last(): Promise<number>
}

/** Before the first id. */
export const BEGINNING = -1

/** So many events are looked at in one turn: a millisecond's work or two. */
const EVENTS_PER_TURN = 250

/** The history of an issue or pull request: its own stream, every event of which tells something. */
export function streamHistory(events: EventStore, stream: string): History {
  async function last(): Promise<number> {
    for await (const { revision } of events.readStream(stream, { direction: 'backwards', maxCount: 1 })) {
      return revision
    }
    return BEGINNING
  }

  async function* read(
    filter: HistoryFilter,
    after: number,
    upTo = Number.MAX_SAFE_INTEGER,
  ): AsyncGenerator<RecordedEvent> {
    for await (const event of events.readStream(stream, { from: after + 1 })) {
      if (event.revision > upTo) return
      if (isEventAskedFor(filter, event)) yield event
      if (event.revision % EVENTS_PER_TURN === 0) await nextTurn()
    }
  }

  return {
    id: 'revision',
    topic: `stream ${stream}`,
    has: ({ event }) => event.stream === stream,
    last,
    read,
    async page(filter, { skip, limit }, signal) {
      const page: RecordedEvent[] = []
      if (Object.keys(filter).length === 0) {
        const total = (await last()) + 1
        const wanted = { from: skip, maxCount: limit }
        if (skip < total) for await (const event of events.readStream(stream, wanted)) page.push(event)
        return { events: page, total }
      }
      const asked = (await factsOf(events, stream, signal)).filter((facts) => isAskedFor(filter, facts))
      const positions = asked.slice(skip, skip + limit).map(({ position }) => position)
      for await (const event of events.readPositions(positions)) page.push(event)
      return { events: page, total: asked.length }
    },
  }
}

/** An event as it is sent: with its form on the wire. */
export type Delivery = Pick<LiveEvent, 'event' | 'json'>

/** A part of a streamed answer: no more than this is held at once, in characters. */
const BATCH_CHARACTERS = 64 * 1024

/** Events in non-empty batches that are worth sending. */
export async function* inBatches(events: AsyncIterable<RecordedEvent>): AsyncGenerator<Delivery[]> {
  let batch: Delivery[] = []
  let characters = 0
  for await (const event of events) {
    const json = historyJson(event)
    batch.push({ event, json })
    characters += json.length
    if (characters < BATCH_CHARACTERS) continue
    yield batch
    batch = []
    characters = 0
  }
  if (batch.length > 0) yield batch
}
