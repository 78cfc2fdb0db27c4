/** BSON values with MongoDB's rules: one order of all types, equality of different number types, dotted paths. */
import { BSON } from 'mongodb'

/** A stored document. Numbers keep their BSON type (`Int32`, `Double`, `Long`). */
export type BsonDocument = { [field: string]: unknown }

/** Numbers keep their types, so that a client reads back what it wrote. */
export function decode(bytes: Uint8Array): BsonDocument {
  return BSON.deserialize(bytes, { promoteValues: false, bsonRegExp: true })
}

export function encode(document: BsonDocument): Uint8Array {
  return BSON.serialize(document, { ignoreUndefined: true })
}

export function isDocument(value: unknown): value is BsonDocument {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** The value of a BSON or JavaScript number; undefined for any other value. */
export function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value
  // In the library a timestamp is a subclass of Long.
  if (value instanceof BSON.Timestamp) return undefined
  if (value instanceof BSON.Int32 || value instanceof BSON.Double) return value.value
  if (value instanceof BSON.Long) return value.toNumber()
  if (value instanceof BSON.Decimal128) return Number(value.toString())
  return typeof value === 'bigint' ? Number(value) : undefined
}

/** MongoDB's order of types. */
function rank(value: unknown): number {
  if (value instanceof BSON.MinKey) return 0
  if (value === null || value === undefined) return 1
  if (numberOf(value) !== undefined) return 2
  if (typeof value === 'string') return 3
  if (isDocument(value)) return 4
  if (Array.isArray(value)) return 5
  if (value instanceof BSON.Binary) return 6
  if (value instanceof BSON.ObjectId) return 7
  if (typeof value === 'boolean') return 8
  if (value instanceof Date) return 9
  if (value instanceof BSON.Timestamp) return 10
  if (value instanceof BSON.BSONRegExp || value instanceof RegExp) return 11
  return value instanceof BSON.MaxKey ? 13 : 12
}

export function sameType(a: unknown, b: unknown): boolean {
  return rank(a) === rank(b)
}

/** Returns a negative number, zero or a positive number, as for `Array.prototype.sort`. A missing value equals null. */
export function compare(a: unknown, b: unknown): number {
  const byType = rank(a) - rank(b)
  if (byType !== 0) return byType
  if (typeof a === 'string' && typeof b === 'string') return compareText(a, b)
  if (Array.isArray(a) && Array.isArray(b)) return compareLists(a, b)
  if (isDocument(a) && isDocument(b)) return compareLists(Object.entries(a).flat(), Object.entries(b).flat())
  if (a instanceof BSON.Long && b instanceof BSON.Long) return a.compare(b)
  const [x, y] = [scalar(a), scalar(b)]
  return x < y ? -1 : x > y ? 1 : 0
}

/** Compares by code points, which is the order of UTF-8 bytes. JavaScript compares UTF-16 units. */
function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  let i = 0
  while (i < length && a.charCodeAt(i) === b.charCodeAt(i)) i += 1
  return i < length ? codePointOrder(a.charCodeAt(i)) - codePointOrder(b.charCodeAt(i)) : a.length - b.length
}

/** Surrogates are less than U+E000, but their code points are above all others. */
function codePointOrder(unit: number): number {
  return unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit
}

function compareLists(a: readonly unknown[], b: readonly unknown[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const byElement = compare(a[i], b[i])
    if (byElement !== 0) return byElement
  }
  return a.length - b.length
}

function scalar(value: unknown): number | string {
  if (value === null || value === undefined) return 0
  if (typeof value === 'boolean') return Number(value)
  if (value instanceof Date) return value.getTime()
  return numberOf(value) ?? BSON.EJSON.stringify([value], { relaxed: false })
}

export function equal(a: unknown, b: unknown): boolean {
  return typeof a === 'string' && typeof b === 'string' ? a === b : compare(a, b) === 0
}

/** A string that is equal for equal values: the key of documents and of unique indexes. */
export function keyOf(value: unknown): string {
  const number = numberOf(value)
  if (number !== undefined && value instanceof BSON.Long) return `2:${value.toString()}`
  if (number !== undefined) return `2:${Object.is(number, -0) ? 0 : number}`
  if (typeof value === 'string') return `3:${value}`
  if (Array.isArray(value)) return `5:${JSON.stringify(value.map(keyOf))}`
  if (isDocument(value)) {
    return `4:${JSON.stringify(Object.entries(value).map(([name, of]) => [name, keyOf(of)]))}`
  }
  return `${rank(value)}:${scalar(value)}`
}

/**
 * All values at a dotted path. If an array is on the way, the path continues in each of its documents. Empty when the
 * path does not exist.
 */
export function valuesAt(value: unknown, path: readonly string[]): unknown[] {
  const [name, ...rest] = path
  if (name === undefined) return [value]
  if (Array.isArray(value)) {
    const byIndex =
      /^\d+$/.test(name) && Number(name) < value.length ? valuesAt(value[Number(name)], rest) : []
    return [...byIndex, ...value.filter(isDocument).flatMap((element) => valuesAt(element, path))]
  }
  return isDocument(value) && Object.hasOwn(value, name) ? valuesAt(value[name], rest) : []
}

/** The values at a path for an index or a comparison: each element of an array, or null when the path is missing. */
export function elementsAt(document: BsonDocument, path: string): unknown[] {
  const values = valuesAt(document, path.split('.')).flatMap((value) =>
    Array.isArray(value) ? value : [value],
  )
  return values.length === 0 ? [null] : values
}
