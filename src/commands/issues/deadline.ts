/** Deadlines. A deadline is a day; a time of day has no effect. */
import { Refused, refuse } from '../../refusal.ts'
import { instantOf, ZERO_TIME } from '../../times.ts'

/**
 * The end of the day of an RFC 3339 date-time, in the time zone of that date-time. Null for null, for an empty text
 * and for Go's zero time: these remove a deadline. `field`: what the refusal names.
 *
 * @throws Refused (unprocessable) when the text is not a date-time, or its day does not exist
 */
export function deadlineOf(field: string, text: string | null): string | null {
  if (text === null || text === '') return null
  const instant = instantOf(text)
  if (instant === instantOf(ZERO_TIME)) return null
  if (instant === undefined) {
    throw new Refused(refuse.unprocessable(`${field}: must be a date-time like 2026-12-31T23:59:59+01:00`))
  }
  const [zone = 'Z'] = /(Z|[+-]\d\d:\d\d)$/i.exec(text) ?? []
  return `${text.slice(0, 10)}T23:59:59${zone.toUpperCase()}`
}
