/** `since` and `before` of a list: when what it shows was changed last. */
import { Type } from 'typebox'
import { instantOf } from '../commands/date-time.ts'
import { Refused, refuse } from '../commands/refusal.ts'

export const TimeRangeQuery = {
  since: Type.Optional(Type.String({ description: 'RFC 3339: what was changed then or later' })),
  before: Type.Optional(Type.String({ description: 'RFC 3339: what was changed then or earlier' })),
}

/** Both inclusive, ISO 8601 in UTC with milliseconds, as events and documents have their times. */
export interface TimeRange {
  since?: string
  before?: string
}

/** An hour to the end of year 9999: later instants have another form, that sorts before all others. */
const LATEST = Date.UTC(9999, 11, 31, 23)

/**
 * The range that a query asks for. An empty text and times up to 1970, as Go's zero time, are none, as in Gitea.
 * @throws Refused (unprocessable) for what is no date-time
 */
export function timeRange(query: { since?: string; before?: string }): TimeRange {
  const since = momentOf('since', query.since)
  const before = momentOf('before', query.before)
  return { ...(since !== undefined && { since }), ...(before !== undefined && { before }) }
}

function momentOf(field: string, text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined
  const instant = instantOf(text)
  if (instant === undefined) {
    throw new Refused(refuse.unprocessable(`${field}: must be a date-time as in RFC 3339`))
  }
  return instant <= 0 ? undefined : new Date(Math.min(instant, LATEST)).toISOString()
}

export function isWithin({ since, before }: TimeRange, at: string): boolean {
  return (since === undefined || at >= since) && (before === undefined || at <= before)
}
