/** What of a batch of recorded events a read model takes. An event that cannot be read stops only those it concerns. */
import { decode, isKnownType } from '../events/codec.ts'
import type { DomainEvent, Recorded } from '../events/domain-events.ts'
import type { Position, RecordedEvent } from '../events/event-store.ts'
import type { Poison, ReadModel } from './read-model.ts'

/** A batch of the log, read once for all read models. */
export interface ReadBatch {
  events: Recorded<DomainEvent>[]
  unreadable: Poison[]
}

/** Reads the events of a batch. */
export function readBatch(batch: readonly RecordedEvent[]): ReadBatch {
  const events: Recorded<DomainEvent>[] = []
  const unreadable: Poison[] = []
  for (const event of batch) {
    try {
      events.push(decode(event))
    } catch (error) {
      unreadable.push({ event, error })
    }
  }
  return { events, unreadable }
}

/**
 * Whether an event that cannot be read may concern a reader of events. Nobody knows whom an event of an unknown type
 * concerns, so it concerns all.
 */
export function mayConcern({ handles }: Pick<ReadModel, 'handles'>, event: { type: string }): boolean {
  return !isKnownType(event.type) || handles(event)
}

/** The events after one position and up to another that a model takes: those before the first that it cannot read. */
export function eventsFor(
  model: Pick<ReadModel, 'handles'>,
  { events, unreadable }: ReadBatch,
  after: Position,
  upTo: Position = Number.MAX_SAFE_INTEGER,
): { events: readonly Recorded<DomainEvent>[]; poison?: Poison } {
  const poison = unreadable.find(
    ({ event }) => event.position > after && event.position <= upTo && mayConcern(model, event),
  )
  const own = between(events, after, upTo)
  if (poison === undefined) return { events: own }
  return { events: own.filter(({ position }) => position < poison.event.position), poison }
}

/** The events after one position and up to another. Mostly these are all events, so it avoids a copy. */
function between(events: readonly Recorded<DomainEvent>[], after: Position, upTo: Position) {
  const [first, last] = [events[0], events.at(-1)]
  if (first === undefined || last === undefined) return events
  return first.position > after && last.position <= upTo
    ? events
    : events.filter(({ position }) => position > after && position <= upTo)
}
