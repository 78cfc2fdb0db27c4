/** Dates in requests. Pure. */

const DATE_TIME = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i

/** Go's zero time on the wire: a time that never was; how clients say "none" where null means "leave it". */
export const ZERO_TIME = '0001-01-01T00:00:00Z'

/** Milliseconds since 1970 of an RFC 3339 date-time; undefined when the text is none. */
export function instantOf(text: string): number | undefined {
  const day = DATE_TIME.exec(text)?.[1]
  const instant = Date.parse(text.toUpperCase())
  if (day === undefined || Number.isNaN(instant)) return undefined
  // JavaScript takes February 30 for March 2.
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day) ? instant : undefined
}

/** An hour to the end of year 9999: later instants have another form, that sorts before all others. */
const LATEST = Date.UTC(9999, 11, 31, 23)

/**
 * The instant, in milliseconds since 1970, as events have their times, to compare with them as text: ISO 8601 in
 * UTC with milliseconds. Instants after year 9999 give its end.
 */
export function comparableTime(instant: number): string {
  return new Date(Math.min(instant, LATEST)).toISOString()
}
