/** Deadlines: a day, whatever time of it was given. */

import { Refused, refuse } from '../../refusal.ts'
import { instantOf, ZERO_TIME } from '../../times.ts'

/**
 * The end of the day that an RFC 3339 date-time names, in the zone in which it was given: only the date
 * counts. Null for the zero value and for null, which remove a deadline.
 *
 * @throws Refused (unprocessable) when it is no date-time, or names a day that no calendar has
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
