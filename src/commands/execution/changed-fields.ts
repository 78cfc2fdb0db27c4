/** What an edit changes. Pure. */

/** The fields of `wanted` whose values differ from those in `before`. An undefined field is left as it is. */
export function changedFields<T extends object>(before: T, wanted: Partial<T>): Partial<T> {
  const changes: Partial<T> = {}
  for (const key in wanted) {
    const value = wanted[key]
    if (value !== undefined && JSON.stringify(value) !== JSON.stringify(before[key])) changes[key] = value
  }
  return changes
}
