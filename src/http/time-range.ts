/** `since` and `before` of a list: when what it shows was changed last, or happened. */
import { Type } from 'typebox'
import { Refused, refuse } from '../refusal.ts'
import { comparableTime, instantOf } from '../times.ts'

export const TimeRangeQuery = {
  since: Type.Optional(
    Type.String({ description: 'RFC 3339: what was changed, or happened, then or later' }),
  ),
  before: Type.Optional(
    Type.String({ description: 'RFC 3339: what was changed, or happened, then or earlier' }),
  ),
}

/** Both inclusive, ISO 8601 in UTC with milliseconds, as events and documents have their times. */
export interface TimeRange {
  since?: string
  before?: string
}

/**
 * The range that a query asks for. An empty text and times up to 1970, as Go's zero time, are none, as in Gitea.
 * @throws Refused (unprocessable) for what is no date-time
 */
export function timeRange(query: { since?: string; before?: string }): TimeRange {
  const { since, before } = exactTimeRange(query)
  return {
    ...(since !== undefined && since > 0 && { since: comparableTime(since) }),
    ...(before !== undefined && before > 0 && { before: comparableTime(before) }),
  }
}

/**
 * The same with every time taken at its word, in milliseconds since 1970: before 1970 there was nothing. An empty
 * text is none.
 * @throws Refused (unprocessable) for what is no date-time
 */
export function exactTimeRange(query: { since?: string; before?: string }): {
  since?: number
  before?: number
} {
  const since = instantIn('since', query.since)
  const before = instantIn('before', query.before)
  return { ...(since !== undefined && { since }), ...(before !== undefined && { before }) }
}

function instantIn(field: string, text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined
  const instant = instantOf(text)
  if (instant === undefined) {
    throw new Refused(refuse.unprocessable(`${field}: must be a date-time as in RFC 3339`))
  }
  return instant
}

export function isWithin({ since, before }: TimeRange, at: string): boolean {
  return (since === undefined || at >= since) && (before === undefined || at <= before)
}
