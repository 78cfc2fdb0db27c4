/** The filter of a history: `type`, `actor`, `since`, `before`. */
import { type Static, Type } from 'typebox'
import { exactTimeRange, TimeRangeQuery } from '../../api/time-range.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { isKnownType } from '../../events/codec.ts'
import type { RecordedEvent } from '../../events/store/event-store.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { namesIn, RepeatedText } from '../../http/requests/repeated-text.ts'
import {
  actorKey,
  actorOf,
  type HistoryDocument,
  hasIssueWords,
  isForAdminsOnly,
  isInHistory,
} from '../../projections/models/history/history.fold.ts'

export const HistoryFilterQuery = Type.Object({
  type: RepeatedText('Types of events, separated by commas'),
  actor: OptionalText('Login of the account that caused the event'),
  ...TimeRangeQuery,
})

/** All conditions must hold. A missing field is not a condition. */
export interface HistoryFilter {
  types?: ReadonlySet<string>
  /** Login in lower case. */
  actor?: string
  /** Both inclusive, in milliseconds since 1970. */
  since?: number
  before?: number
  /** False excludes events that only admins of the repository may see. */
  adminsOnly?: false
  /** False excludes events of issues, comments, labels and milestones. */
  issueWords?: false
}

/** Returns the filter in a query. @throws Refused (unprocessable) for an invalid date-time or type */
export function historyFilter(query: Static<typeof HistoryFilterQuery>): HistoryFilter {
  const types = namesIn(query.type)
  const unknown = types.filter((type) => !isKnownType(type) || !isInHistory({ type }))
  if (unknown.length > 0) {
    const reasons = unknown.map((type) => `type: ${type} is not a type of event in a history`)
    throw new Refused(refuse.unprocessable(reasons.join('; '), reasons))
  }
  return {
    ...(types.length > 0 && { types: new Set(types) }),
    ...(query.actor && { actor: actorKey(query.actor) }),
    ...exactTimeRange(query),
  }
}

/** Whether the event of the document matches the filter. */
export function matchesFilter(
  filter: HistoryFilter,
  {
    type,
    actor,
    at,
    adminsOnly,
    issueWords,
  }: Pick<HistoryDocument, 'type' | 'actor' | 'at' | 'adminsOnly' | 'issueWords'>,
): boolean {
  return (
    (filter.types === undefined || filter.types.has(type)) &&
    (filter.adminsOnly === undefined || !adminsOnly) &&
    (filter.issueWords === undefined || !issueWords) &&
    (filter.actor === undefined || filter.actor === actor) &&
    (filter.since === undefined || at >= filter.since) &&
    (filter.before === undefined || at <= filter.before)
  )
}

/** Whether the event matches the filter. */
export function eventMatchesFilter(filter: HistoryFilter, event: RecordedEvent): boolean {
  return matchesFilter(filter, factsOf(event))
}

/** Returns the facts of an event that filters test. */
export function factsOf(event: RecordedEvent) {
  const { type, metadata } = event
  return {
    type,
    actor: actorOf(metadata),
    at: Date.parse(metadata.at),
    adminsOnly: isForAdminsOnly(event),
    issueWords: hasIssueWords(event),
  }
}
