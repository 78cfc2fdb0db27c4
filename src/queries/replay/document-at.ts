/** What a document was: the fold of its read model over a part of its stream. Pure. */
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import type { Position, RecordedEvent } from '../../events/event-store.ts'
import type { Fold } from '../../projections/read-model.ts'

/** The document with that id after the events; `before`: as it was before them. */
export function documentAt<D extends object>(
  fold: Fold<D>,
  id: string,
  events: Iterable<Recorded<DomainEvent>>,
  before?: D,
): D | undefined {
  let document = before
  for (const event of events) {
    if (fold.touches(event).includes(id)) document = fold.evolve(document, event, id)
  }
  return document
}

/**
 * The last event of a stream that is replayed: up to a revision of it; up to a position in the log; at a time,
 * ISO 8601 in UTC with milliseconds, of the server that decided it. Clocks of servers differ a little: events
 * before the last one of that time are in, and so is all up to `position`, if given.
 */
export type Until = { revision: number } | { position: Position } | { at: string; position?: Position }

/** Where an event is in its stream, in the log and in time: the place where a replay ends. */
export interface StreamPoint {
  revision: number
  position: Position
  /** ISO 8601 in UTC with milliseconds. */
  at: string
}

export const pointOf = ({ revision, position, metadata }: RecordedEvent): StreamPoint => ({
  revision,
  position,
  at: metadata.at,
})

export function isUpTo({ revision, position, at }: StreamPoint, until: Until): boolean {
  if ('revision' in until) return revision <= until.revision
  if ('at' in until && at <= until.at) return true
  return until.position !== undefined && position <= until.position
}
