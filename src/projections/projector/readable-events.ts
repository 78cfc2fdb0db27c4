/** Selects the events of a batch for a read model. An unreadable event stops only the models that it may concern. */
import { decode, isKnownType } from '../../events/codec.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import type { Position, RecordedEvent } from '../../events/store/event-store.ts'
import type { Poison, ReadModel } from './read-model.ts'

/** A batch of the log, read once for all read models. */
export interface ReadBatch {
  events: Recorded<DomainEvent>[]
  /** The types of these events. */
  types: ReadonlySet<string>
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
  return { events, types: new Set(events.map(({ type }) => type)), unreadable }
}

/** Whether an unreadable event may concern a reader. An unknown type concerns all of them. */
function mayConcern({ handles }: Pick<ReadModel, 'handles'>, event: { type: string }): boolean {
  return !isKnownType(event.type) || handles(event)
}

/** Returns the events after one position and up to another that a model handles, before the first unreadable one. */
export function eventsFor(
  model: Pick<ReadModel, 'handles'>,
  { events, types, unreadable }: ReadBatch,
  after: Position,
  upTo: Position = Number.MAX_SAFE_INTEGER - 1,
): { events: readonly Recorded<DomainEvent>[]; poison?: Poison } {
  const poison = unreadable.find(
    ({ event }) => event.position > after && event.position <= upTo && mayConcern(model, event),
  )
  // Tested once per type, because most events concern few models.
  const handled = new Set([...types].filter((type) => model.handles({ type })))
  const before = Math.min(upTo + 1, poison?.event.position ?? Number.MAX_SAFE_INTEGER)
  const own =
    handled.size === 0
      ? []
      : events.filter(({ type, position }) => position > after && position < before && handled.has(type))
  return poison === undefined ? { events: own } : { events: own, poison }
}
