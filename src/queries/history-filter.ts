/** Which events of a history are asked for: `type`, `actor`, `since`, `before`. */

import { type Static, Type } from 'typebox'
import { schemaOf } from '../events/codec.ts'
import type { DomainEvent } from '../events/domain-events.ts'
import type { RecordedEvent } from '../events/event-store.ts'
import { exactTimeRange, TimeRangeQuery } from '../http/time-range.ts'
import { actorKey, actorOf, type HistoryDocument, isForAdmins, isInHistory } from '../projections/history.ts'
import { Refused, refuse } from '../refusal.ts'
import { namesIn } from './issue-pages.ts'

export const HistoryFilterQuery = Type.Object({
  type: Type.Optional(Type.String({ description: 'types of events, separated by commas' })),
  actor: Type.Optional(Type.String({ description: 'login of who did it' })),
  ...TimeRangeQuery,
})

/** All conditions must hold; what is left out is none. */
export interface HistoryFilter {
  types?: ReadonlySet<string>
  /** Login in lower case. */
  actor?: string
  /** Both inclusive, in milliseconds since 1970. */
  since?: number
  before?: number
  /** False: without what only admins of the repository may see. */
  adminsOnly?: false
}

/** @throws Refused (unprocessable) for what is no date-time, and for types that no history has */
export function historyFilter(query: Static<typeof HistoryFilterQuery>): HistoryFilter {
  const types = namesIn(query.type)
  const unknown = types.filter((type) => !isEventType(type) || !isInHistory({ type }))
  if (unknown.length > 0) {
    const reasons = unknown.map((type) => `type: ${type} is no type of event that a history has`)
    throw new Refused(refuse.unprocessable(reasons.join('; '), reasons))
  }
  return {
    ...(types.length > 0 && { types: new Set(types) }),
    ...(query.actor && { actor: actorKey(query.actor) }),
    ...exactTimeRange(query),
  }
}

function isEventType(type: string): type is DomainEvent['type'] {
  return Object.hasOwn(schemaOf, type)
}

/** Whether the document's event is asked for. */
export function isAskedFor(
  filter: HistoryFilter,
  { type, actor, at }: Pick<HistoryDocument, 'type' | 'actor' | 'at'>,
): boolean {
  return (
    (filter.types === undefined || filter.types.has(type)) &&
    (filter.adminsOnly === undefined || !isForAdmins(type)) &&
    (filter.actor === undefined || filter.actor === actor) &&
    (filter.since === undefined || at >= filter.since) &&
    (filter.before === undefined || at <= filter.before)
  )
}

/** The same for the event itself. */
export function isEventAskedFor(filter: HistoryFilter, { type, metadata }: RecordedEvent): boolean {
  return isAskedFor(filter, { type, actor: actorOf(metadata), at: Date.parse(metadata.at) })
}
