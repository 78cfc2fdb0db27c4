/** A cache of the facts that history filters check: reading a long stream is slow, and its past never changes. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { EventStore } from '../events/event-store.ts'
import { perStore } from '../per-store.ts'
import { actorOf, type HistoryDocument } from '../projections/history.ts'

/** The facts of one event. Its index in the array is its revision. */
type EventFacts = Pick<HistoryDocument, 'position' | 'type' | 'actor' | 'at'>

/** Events of all streams together, about 100 bytes each. A longer stream is read each time. */
const MAX_EVENTS = 200_000
/** Events that are read in one turn of the event loop: one or two milliseconds of work. */
const EVENTS_PER_TURN = 250

const cachedFacts = perStore(
  (): LRUCache<string, readonly EventFacts[]> => new LRUCache({ maxSize: MAX_EVENTS }),
)

/** The facts of all events of a stream; only of the first events when the signal aborts the reading. */
export async function factsOf(
  events: EventStore,
  stream: string,
  signal: AbortSignal,
): Promise<readonly EventFacts[]> {
  const ofStore = cachedFacts(events)
  const before = ofStore.get(stream) ?? []
  const facts: EventFacts[] = [...before]
  for await (const { position, type, metadata } of events.readStream(stream, { from: before.length })) {
    facts.push({ position, type, actor: actorOf(metadata), at: Date.parse(metadata.at) })
    if (facts.length % EVENTS_PER_TURN !== 0) continue
    if (signal.aborted) return facts
    await nextTurn()
  }
  // Another request may have read further in the meantime.
  if (facts.length > (ofStore.get(stream)?.length ?? 0)) ofStore.set(stream, facts, { size: facts.length })
  return facts
}
