/** The filters `since` and `before` of a list. They compare the time of the last change or of the event. */

import { comparableTime, instantOf, lastInstantOf } from '../domain/times.ts'
import { Refused, refuse } from '../errors/refusal.ts'
import { OptionalText } from '../http/requests/optional-text.ts'

export const TimeRangeQuery = {
  since: OptionalText('Only entries of this time (RFC 3339) or later, by their last change'),
  before: OptionalText('Only entries of this time (RFC 3339) or earlier, by their last change'),
}

/** Both ends are inclusive. The times are ISO 8601 in UTC with milliseconds, as in events and documents. */
export interface TimeRange {
  since?: string
  before?: string
}

/**
 * Reads the range in a query. As in Gitea, an empty text and times up to 1970 (such as Go's zero time) mean no
 * limit.
 *
 * @throws Refused (unprocessable) when a text is not a date-time
 */
export function timeRange(query: { since?: string; before?: string }): TimeRange {
  const { since, before } = exactTimeRange(query)
  return {
    ...(since !== undefined && since > 0 && { since: comparableTime(since) }),
    ...(before !== undefined && before > 0 && { before: comparableTime(before) }),
  }
}

/**
 * Reads the range in a query, in milliseconds since 1970. Unlike in `timeRange`, times up to 1970 are limits too.
 * An empty text means no limit.
 *
 * @throws Refused (unprocessable) when a text is not a date-time
 */
export function exactTimeRange(query: { since?: string; before?: string }): {
  since?: number
  before?: number
} {
  const since = instantIn('since', query.since, instantOf)
  const before = instantIn('before', query.before, lastInstantOf)
  return { ...(since !== undefined && { since }), ...(before !== undefined && { before }) }
}

function instantIn(field: string, text: string | undefined, read: typeof instantOf): number | undefined {
  if (text === undefined || text === '') return undefined
  const instant = read(text)
  if (instant === undefined) {
    throw new Refused(refuse.unprocessable(`${field}: must be a date-time as in RFC 3339`))
  }
  return instant
}

export function isInTimeRange({ since, before }: TimeRange, at: string): boolean {
  return (since === undefined || at >= since) && (before === undefined || at <= before)
}
