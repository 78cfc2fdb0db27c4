/** Parses the filter language into conditions. Both adapters translate these conditions for their database. */
import type { AnyCollection } from './read-store.ts'

export type FilterValue = string | number | boolean | null
export type Element = string | number
export type Bound = { operator: '>' | '>=' | '<' | '<='; value: string | number | boolean }

/** One condition on one field. Null also equals a missing field. */
export type Condition =
  | { kind: 'equals'; field: string; value: FilterValue }
  | { kind: 'oneOf'; field: string; values: FilterValue[] }
  /** A range matches only values of the same type as its bounds. */
  | { kind: 'range'; field: string; bounds: Bound[] }
  | { kind: 'contains'; field: string; value: Element }
  | { kind: 'containsAny'; field: string; values: Element[] }
  /** With `parts`, the words are in that collection: its documents are parts of the document. */
  | { kind: 'containsWords'; field: string; words: string[]; parts?: AnyCollection }

/** Whether a condition allows a field exactly one value. */
export const isOfOneValue = (condition: Condition): boolean =>
  condition.kind === 'equals' || (condition.kind === 'oneOf' && condition.values.length === 1)

/** A page of a sorted list, with defaults. `limit` is null without a limit. */
export interface Page {
  sort: (readonly [field: string, direction: 1 | -1])[]
  skip: number
  limit: number | null
}

const NAME = /^[A-Za-z_]{1,64}$/
const OPERATORS = { $gt: '>', $gte: '>=', $lt: '<', $lte: '<=' } as const

/**
 * Checks the name of a collection or field. Names become part of SQL and of paths, so only letters and underscores are
 * allowed.
 * @throws TypeError when the name has other characters or is longer than 64
 */
export function checkName(what: 'collection' | 'field', name: string): string {
  if (!NAME.test(name)) throw new TypeError(`${what} ${JSON.stringify(name)}: only letters and underscores`)
  return name
}

/**
 * Parses a filter into conditions, all of which must hold.
 * @throws TypeError when the filter is not in the language
 */
export function readFilter(collection: AnyCollection, filter: object): Condition[] {
  return Object.entries(filter).flatMap(([field, demand]: [string, unknown]) => {
    checkName('field', field)
    const parts = collection.wordsIn?.[field]
    if (parts !== undefined) return onArray(field, demand).map((condition) => inParts(condition, parts))
    return collection.arrays.includes(field) ? onArray(field, demand) : onScalar(field, demand)
  })
}

/** Parses the options of `find`. @throws TypeError when they are not in the language */
export function readPage(options: {
  sort?: readonly (readonly [string, 1 | -1])[]
  skip?: number
  limit?: number
}): Page {
  const { sort = [], skip = 0, limit = null } = options
  for (const [field, direction] of sort) {
    checkName('field', field)
    if (direction !== 1 && direction !== -1) throw new TypeError(`sort by ${field}: the direction is 1 or -1`)
  }
  for (const [name, count] of Object.entries({ skip, limit })) {
    if (count !== null && !(Number.isSafeInteger(count) && count >= 0)) {
      throw new TypeError(`${name}: must be a whole number from 0, not ${count}`)
    }
  }
  return { sort: [...sort], skip, limit }
}

function onScalar(field: string, demand: unknown): Condition[] {
  if (isFilterValue(demand)) return [{ kind: 'equals', field, value: demand }]
  const operators = operatorsOf(field, demand)
  const bounds: Bound[] = []
  const conditions: Condition[] = []
  for (const [operator, operand] of operators) {
    if (operator === '$in') {
      conditions.push({ kind: 'oneOf', field, values: listOf(field, operand, isFilterValue) })
    } else if (isRangeOperator(operator) && operand === null) {
      // Null compares only with itself: `>=` and `<=` match null, `>` and `<` match nothing.
      const values = operator === '$gte' || operator === '$lte' ? [null] : []
      conditions.push({ kind: 'oneOf', field, values })
    } else if (isRangeOperator(operator) && isFilterValue(operand) && operand !== null) {
      bounds.push({ operator: OPERATORS[operator], value: operand })
    } else {
      throw refused(field, operator)
    }
  }
  if (bounds.length > 0) conditions.push({ kind: 'range', field, bounds })
  return conditions
}

function onArray(field: string, demand: unknown): Condition[] {
  if (isElement(demand)) return [{ kind: 'contains', field, value: demand }]
  return operatorsOf(field, demand).map(([operator, operand]): Condition => {
    switch (operator) {
      case '$in':
        return { kind: 'containsAny', field, values: listOf(field, operand, isElement) }
      case '$words':
        return { kind: 'containsWords', field, words: listOf(field, operand, (w) => typeof w === 'string') }
      default:
        throw refused(field, operator)
    }
  })
}

function inParts(condition: Condition, parts: AnyCollection): Condition {
  if (condition.kind !== 'containsWords') throw refused(condition.field, condition.kind)
  return { ...condition, parts }
}

function operatorsOf(field: string, demand: unknown): [string, unknown][] {
  const operators = typeof demand === 'object' && demand !== null ? Object.entries(demand) : []
  if (operators.length === 0) throw new TypeError(`filter on ${field}: neither a value nor an operator`)
  return operators
}

function listOf<V>(field: string, operand: unknown, isMember: (value: unknown) => value is V): V[] {
  if (!Array.isArray(operand) || !operand.every(isMember)) {
    throw new TypeError(`filter on ${field}: needs a list of plain values`)
  }
  return [...new Set(operand)]
}

function refused(field: string, operator: string): TypeError {
  return new TypeError(`filter on ${field}: ${operator} can't be used with this field or value`)
}

function isRangeOperator(operator: string): operator is keyof typeof OPERATORS {
  return Object.hasOwn(OPERATORS, operator)
}

export function isElement(value: unknown): value is Element {
  return typeof value === 'string' || Number.isFinite(value)
}

function isFilterValue(value: unknown): value is FilterValue {
  return value === null || typeof value === 'boolean' || isElement(value)
}
