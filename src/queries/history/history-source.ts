/** The interface of histories for pages, JSON lines and live streams; and the history of one stream. */

import { historyJson } from '../../api/history/history.ts'
import { nextSlice } from '../../concurrency/event-loop.ts'
import type { RecordedEvent } from '../../events/store/event-store.ts'
import type { Page } from '../../http/requests/paging.ts'
import type { LiveEvent, Topic } from '../../projections/live/live-events.ts'
import type { EventFacts } from '../../services/history/history-caches.ts'
import type { HistoryServices } from '../../services/services.ts'
import { eventMatchesFilter, factsOf, type HistoryFilter, matchesFilter } from './history-filter.ts'

export interface History {
  /** The increasing field of events, which is their id in server-sent events. */
  readonly id: 'revision' | 'position'
  readonly topic: Topic
  has(live: LiveEvent): boolean
  /** Returns a page of matching events, oldest first; `total` counts all. The signal stops the count. */
  page(
    filter: HistoryFilter,
    slice: Pick<Page, 'skip' | 'limit'>,
    signal: AbortSignal,
  ): Promise<{ events: RecordedEvent[]; total: number }>
  /** Reads the matching events with ids from `after` (exclusive) to `upTo` (inclusive), oldest first. */
  read(filter: HistoryFilter, after: number, upTo?: number): AsyncIterable<RecordedEvent>
  /** Returns the id of the last event; -1 without one. */
  last(): Promise<number>
}

/** Before the first id. */
export const BEGINNING = -1

/** Number of events read per iteration of the event loop, in one or two milliseconds. */
const EVENTS_PER_SLICE = 250

/** The history of an issue or pull request: all events of its own stream. */
export function streamHistory(services: HistoryServices, stream: string): History {
  const { events } = services

  async function last(): Promise<number> {
    for await (const { revision } of events.readStream(stream, { direction: 'backwards', maxCount: 1 })) {
      return revision
    }
    return BEGINNING
  }

  async function* read(filter: HistoryFilter, after: number, upTo = Number.MAX_SAFE_INTEGER) {
    for await (const event of events.readStream(stream, { from: after + 1 })) {
      if (event.revision > upTo) return
      if (eventMatchesFilter(filter, event)) yield event
      if (event.revision % EVENTS_PER_SLICE === 0) await nextSlice()
    }
  }

  return {
    id: 'revision',
    topic: `stream ${stream}`,
    has: ({ event }) => event.stream === stream,
    last,
    read,
    async page(filter, { skip, limit }, signal) {
      // The embedded log (without `problems`) has no other writers, so its revisions count the events.
      if (Object.keys(filter).length === 0 && events.problems === undefined) {
        const total = (await last()) + 1
        const wanted = { from: skip, maxCount: limit }
        const page = skip < total ? await Array.fromAsync(events.readStream(stream, wanted)) : []
        return { events: page, total }
      }
      const matching = (await streamFacts(services, stream, signal)).filter((facts) =>
        matchesFilter(filter, facts),
      )
      const positions = matching.slice(skip, skip + limit).map(({ position }) => position)
      return { events: await Array.fromAsync(events.readPositions(positions)), total: matching.length }
    },
  }
}

/** The facts of all events of a stream; only of the first events when the signal aborts the reading. */
async function streamFacts(
  { events, historyCaches }: HistoryServices,
  stream: string,
  signal: AbortSignal,
): Promise<readonly EventFacts[]> {
  const cache = historyCaches.facts
  const before = cache.get(stream) ?? []
  const facts: EventFacts[] = [...before]
  // With other writers, a stream may have more revisions than events.
  for await (const event of events.readStream(stream, { from: (before.at(-1)?.revision ?? -1) + 1 })) {
    facts.push({ position: event.position, revision: event.revision, ...factsOf(event) })
    if (facts.length % EVENTS_PER_SLICE !== 0) continue
    if (signal.aborted) return facts
    await nextSlice()
  }
  // Another request may have read further in the meantime.
  if (facts.length > (cache.get(stream)?.length ?? 0)) cache.set(stream, facts, { size: facts.length })
  return facts
}

/** An event with its serialized JSON. */
export type Delivery = Pick<LiveEvent, 'event' | 'json'>

/** Size of a batch, in characters: the approximate memory of a streamed answer. */
const BATCH_CHARACTERS = 64 * 1024

/** Collects events into non-empty batches of about `BATCH_CHARACTERS`. */
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
