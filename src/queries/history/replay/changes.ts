/** The differences between two versions of a JSON object. Pure. */
import { isDeepStrictEqual } from 'node:util'

export interface Change {
  /** Path of the field, outermost name first: `head.sha`. */
  field: string
  before: unknown
  after: unknown
}

/**
 * Returns the differing fields, in the order of the objects, at any depth. Arrays are compared whole, and so are nested
 * objects with different ids.
 */
export function changesBetween(before: object, after: object): Change[] {
  const from = new Map(Object.entries(before))
  const to = new Map(Object.entries(after))
  return [...new Set([...from.keys(), ...to.keys()])].flatMap((field) =>
    changesOf(field, from.get(field) ?? null, to.get(field) ?? null),
  )
}

function changesOf(field: string, before: unknown, after: unknown): Change[] {
  if (isDeepStrictEqual(before, after)) return []
  if (!isPlain(before) || !isPlain(after) || idOf(before) !== idOf(after)) return [{ field, before, after }]
  return changesBetween(before, after).map((change) => ({ ...change, field: `${field}.${change.field}` }))
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const idOf = (value: object): unknown => ('id' in value ? value.id : undefined)
