/** What filters ask of the events of a stream, remembered: its past never changes, and to read it takes long. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { EventStore } from '../events/event-store.ts'
import { perStore } from '../per-store.ts'
import { actorOf, type HistoryDocument } from '../projections/history.ts'

/** Of one event; its place in the array is its revision. */
export type EventFacts = Pick<HistoryDocument, 'position' | 'type' | 'actor' | 'at'>

/** Events of all streams together, some 100 bytes each. A longer stream is read each time. */
const MAX_EVENTS = 200_000
/** So many events are read in one turn: a millisecond's work or two. */
const EVENTS_PER_TURN = 250

const factsBefore = perStore(
  (): LRUCache<string, readonly EventFacts[]> => new LRUCache({ maxSize: MAX_EVENTS }),
)

/** The facts of all events of a stream; of the first ones only when the signal ends the reading. */
export async function factsOf(
  events: EventStore,
  stream: string,
  signal: AbortSignal,
): Promise<readonly EventFacts[]> {
  const ofStore = factsBefore(events)
  const before = ofStore.get(stream) ?? []
  const facts: EventFacts[] = [...before]
  for await (const { position, type, metadata } of events.readStream(stream, { from: before.length })) {
    facts.push({ position, type, actor: actorOf(metadata), at: Date.parse(metadata.at) })
    if (facts.length % EVENTS_PER_TURN !== 0) continue
    if (signal.aborted) return facts
    await nextTurn()
  }
  // Somebody else may have read further meanwhile.
  if (facts.length > (ofStore.get(stream)?.length ?? 0)) ofStore.set(stream, facts, { size: facts.length })
  return facts
}
