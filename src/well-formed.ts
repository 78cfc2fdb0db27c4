/**
 * The value of JSON with whole characters only: half of a surrogate pair becomes U+FFFD, as wherever it becomes UTF-8. The
 * value must not be nested deeply.
 */
export function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (Array.isArray(value)) return value.map(wellFormed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [name.toWellFormed(), wellFormed(part)]),
  )
}
