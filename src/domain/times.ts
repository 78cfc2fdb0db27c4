/** Parses dates of requests, and formats times for answers. */

/** Hour 24 is not allowed: JavaScript would take it for the next day. */
const DATE_TIME = /^(\d{4}-\d\d-\d\d)T(?!24)\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-](?!24)\d\d:\d\d)$/i

/** Go's zero time. Clients send it for "no time", because null means "don't change it". */
export const ZERO_TIME = '0001-01-01T00:00:00Z'

/** Parses an RFC 3339 date-time as milliseconds since 1970; undefined for other texts. */
export function instantOf(text: string): number | undefined {
  const day = DATE_TIME.exec(text)?.[1]
  const instant = Date.parse(text.toUpperCase())
  if (day === undefined || Number.isNaN(instant)) return undefined
  // JavaScript reads February 30 as March 2.
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day) ? instant : undefined
}

/**
 * Returns the last instant of a time: without a fraction it means the whole second, as in answers. So a change at a time
 * from an answer is included.
 */
export function lastInstantOf(text: string): number | undefined {
  const instant = instantOf(text)
  return instant === undefined || /\.\d/.test(text) ? instant : instant + 999
}

/** Returns the last instant of a day in UTC (`2026-11-26`) or of a time. */
export const lastInstantOfDay = (text: string): number | undefined =>
  lastInstantOf(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T23:59:59Z` : text)

/** One hour before the end of year 9999. Later instants have a different text form, which sorts first. */
const LATEST = Date.UTC(9999, 11, 31, 23)

/**
 * Formats an instant (milliseconds since 1970) like the times of events, so that both compare as text: ISO 8601 in UTC with
 * milliseconds. After the year 9999, the end of that year.
 */
export function comparableTime(instant: number): string {
  return new Date(Math.min(instant, LATEST)).toISOString()
}

/**
 * Formats a time for answers: without a fraction of a second, as Gitea's. Go clients parse both forms, but compare a
 * received time with a stored one. Null stays null.
 */
export function wholeSeconds(time: string): string
export function wholeSeconds(time: string | null): string | null
export function wholeSeconds(time: string | null): string | null {
  // All times of events have the same form: 2026-11-21T23:05:40.123Z.
  if (time === null || time[19] !== '.') return time
  return time.length === 24 ? `${time.slice(0, 19)}Z` : time.replace(/\.\d+/, '')
}
