/** The changes of an edit. Pure. */

/** Returns the fields of `wanted` whose values differ from those in `before`. Undefined fields are ignored. */
export function changedFields<T extends object>(before: T, wanted: Partial<T>): Partial<T> {
  const changes: Partial<T> = {}
  for (const key in wanted) {
    const value = wanted[key]
    if (value !== undefined && JSON.stringify(value) !== JSON.stringify(before[key])) changes[key] = value
  }
  return changes
}
