/** Reads dates in requests, and writes times as answers show them. */

/** No hour is 24: JavaScript would take it for the next day. */
const DATE_TIME = /^(\d{4}-\d\d-\d\d)T(?!24)\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-](?!24)\d\d:\d\d)$/i

/** Go's zero time. Clients send it for "no time", because null means "don't change it". */
export const ZERO_TIME = '0001-01-01T00:00:00Z'

/** Milliseconds since 1970 of an RFC 3339 date-time; undefined when the text is not a date-time. */
export function instantOf(text: string): number | undefined {
  const day = DATE_TIME.exec(text)?.[1]
  const instant = Date.parse(text.toUpperCase())
  if (day === undefined || Number.isNaN(instant)) return undefined
  // JavaScript reads February 30 as March 2.
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day) ? instant : undefined
}

/**
 * The last instant that a time names: one without a fraction is the whole second, as answers show times. So what changed
 * at a time that an answer shows is included.
 */
export function lastInstantOf(text: string): number | undefined {
  const instant = instantOf(text)
  return instant === undefined || /\.\d/.test(text) ? instant : instant + 999
}

/** The last instant of a day in UTC (`2026-11-26`), or else that of a time. */
export const lastInstantOfDay = (text: string): number | undefined =>
  lastInstantOf(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T23:59:59Z` : text)

/** One hour before the end of year 9999. Later instants have a different text form, which sorts first. */
const LATEST = Date.UTC(9999, 11, 31, 23)

/**
 * Writes an instant (milliseconds since 1970) as events write their times, so that both compare as text: ISO 8601
 * in UTC with milliseconds. A later instant than year 9999 gives the end of that year.
 */
export function comparableTime(instant: number): string {
  return new Date(Math.min(instant, LATEST)).toISOString()
}

/**
 * A time as answers show it: without its fraction of a second, as Gitea's. Clients written in Go read both forms, but
 * compare what they were sent with what they kept. Null stays null.
 */
export function wholeSeconds(time: string): string
export function wholeSeconds(time: string | null): string | null
export function wholeSeconds(time: string | null): string | null {
  // All times of events have the same form: 2026-11-21T23:05:40.123Z.
  if (time === null || time[19] !== '.') return time
  return time.length === 24 ? `${time.slice(0, 19)}Z` : time.replace(/\.\d+/, '')
}
