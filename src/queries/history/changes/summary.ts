/** Short forms of resources, for comparing two versions of one. Pure. */
import type { Change } from '../replay/changes.ts'
import { changesBetween } from '../replay/changes.ts'

/** Fields that say nothing about a change of the resource itself: addresses, counters of other things, the permissions of the viewer. */
const LEFT_OUT = /^(?:updated_at|permissions|size|language|repository)$|(?:^|_)url$|_count(?:er)?$/

/**
 * Returns the resource without addresses and counters. Nested resources are given by name: accounts by login,
 * repositories by full name, labels by name, milestones by title.
 */
export function summaryOf(resource: object): object {
  return Object.fromEntries(
    Object.entries(resource)
      .filter(([field]) => !LEFT_OUT.test(field))
      .map(([field, value]: [string, unknown]) => [field, short(value)]),
  )
}

const NAMES = ['login', 'full_name', 'title', 'name'] as const

function short(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(short)
  if (typeof value !== 'object' || value === null) return value
  const fields = new Map<string, unknown>(Object.entries(value))
  const name = NAMES.find((field) => fields.has(field))
  return name === undefined ? summaryOf(value) : fields.get(name)
}

/** How a resource differs between two moments. */
export interface Difference {
  change: 'created' | 'changed' | 'deleted' | 'created_and_deleted'
  fields: Change[]
}

/** Compares two versions of a resource; undefined: it did not exist. A missing version is compared by the set fields. */
export function differenceOf(before: object | undefined, after: object | undefined): Difference {
  if (before === undefined && after === undefined) return { change: 'created_and_deleted', fields: [] }
  const fields = changesBetween(summaryOf(before ?? {}), summaryOf(after ?? {}))
  if (before === undefined) return { change: 'created', fields: fields.filter(({ after }) => isSet(after)) }
  if (after === undefined) return { change: 'deleted', fields: fields.filter(({ before }) => isSet(before)) }
  return { change: 'changed', fields }
}

const isSet = (value: unknown) =>
  value !== null &&
  value !== '' &&
  value !== false &&
  value !== 0 &&
  !(Array.isArray(value) && value.length === 0)
