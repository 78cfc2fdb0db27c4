/** Filters, sorts and projections of the query language. */
import { BSON } from 'mongodb'
import { badValue, unsupported } from './failure.ts'
import {
  type BsonDocument,
  compare,
  elementsAt,
  equal,
  isDocument,
  keyOf,
  numberOf,
  sameType,
  valuesAt,
} from './values.ts'

export type Matcher = (document: BsonDocument) => boolean

/** @throws CommandFailure for operators that are not supported */
export function matcher(filter: BsonDocument): Matcher {
  const tests = Object.entries(filter).map(([name, operand]): Matcher => {
    if (name === '$and') return all(filters(name, operand))
    if (name === '$or') {
      const some = filters(name, operand)
      return (document) => some.some((test) => test(document))
    }
    if (name === '$comment') return () => true
    if (name.startsWith('$')) throw unsupported(`the operator ${name}`)
    return onField(name, operand)
  })
  return all(tests)
}

function all(tests: Matcher[]): Matcher {
  return (document) => tests.every((test) => test(document))
}

function filters(name: string, operand: unknown): Matcher[] {
  if (!Array.isArray(operand) || operand.length === 0 || !operand.every(isDocument)) {
    throw badValue(`${name} must be a nonempty array of filters`)
  }
  return operand.map(matcher)
}

/** Whether the demand consists of operators. Otherwise it is a value that the field must equal. */
export function isOperators(demand: unknown): demand is BsonDocument {
  return isDocument(demand) && (Object.keys(demand)[0] ?? '').startsWith('$')
}

function onField(field: string, demand: unknown): Matcher {
  const pattern = regexOf(demand)
  if (pattern !== undefined) return anyValue(field, (value) => matches(pattern, value))
  if (!isOperators(demand)) return anyValue(field, (value) => equal(value, demand))
  return all(
    Object.entries(demand).map(([operator, operand]) => onOperator(field, operator, operand, demand)),
  )
}

function onOperator(field: string, operator: string, operand: unknown, demand: BsonDocument): Matcher {
  switch (operator) {
    case '$eq':
      return anyValue(field, (value) => equal(value, operand))
    case '$ne': {
      const same = anyValue(field, (value) => equal(value, operand))
      return (document) => !same(document)
    }
    case '$gt':
      return anyValue(field, (value) => sameType(value, operand) && compare(value, operand) > 0)
    case '$gte':
      return anyValue(field, (value) => sameType(value, operand) && compare(value, operand) >= 0)
    case '$lt':
      return anyValue(field, (value) => sameType(value, operand) && compare(value, operand) < 0)
    case '$lte':
      return anyValue(field, (value) => sameType(value, operand) && compare(value, operand) <= 0)
    case '$in': {
      const wanted = list(operator, operand)
      const keys = new Set(wanted.map(keyOf))
      const patterns = wanted.map(regexOf).filter((pattern) => pattern !== undefined)
      return anyValue(
        field,
        (value) => keys.has(keyOf(value)) || patterns.some((pattern) => matches(pattern, value)),
      )
    }
    case '$exists': {
      const wanted = operand !== false && numberOf(operand) !== 0
      return (document) => valuesAt(document, field.split('.')).length > 0 === wanted
    }
    case '$regex': {
      const pattern = regexOf(operand) ?? toRegExp(operand, demand.$options)
      return anyValue(field, (value) => matches(pattern, value))
    }
    case '$options':
      return () => true
    default:
      throw unsupported(`the operator ${operator}`)
  }
}

/** A field with an array meets a demand as a whole array, or by one of its elements. */
function anyValue(field: string, test: (value: unknown) => boolean): Matcher {
  const path = field.split('.')
  return (document) => {
    const values = valuesAt(document, path)
    if (values.length === 0) return test(null)
    return values.some((value) => test(value) || (Array.isArray(value) && value.some(test)))
  }
}

function list(operator: string, operand: unknown): unknown[] {
  if (!Array.isArray(operand)) throw badValue(`${operator} needs an array`)
  return operand
}

function matches(pattern: RegExp, value: unknown): boolean {
  return typeof value === 'string' && pattern.test(value)
}

function regexOf(value: unknown): RegExp | undefined {
  return value instanceof BSON.BSONRegExp ? toRegExp(value.pattern, value.options) : undefined
}

function toRegExp(pattern: unknown, options: unknown = ''): RegExp {
  if (typeof pattern !== 'string' || typeof options !== 'string') throw badValue('$regex has to be a string')
  if (pattern.includes('\0')) throw badValue('Regular expression cannot contain an embedded null byte')
  if (/[^imsu]/.test(options)) throw unsupported(`one of the $options ${options}`)
  try {
    return new RegExp(pattern, options.includes('u') ? options : `${options}u`)
  } catch (error) {
    throw badValue(`Regular expression is invalid: ${error instanceof Error ? error.message : error}`)
  }
}

/** Compares two documents by a sort. An array sorts by its smallest element, or by its largest when descending. */
export function sorter(sort: BsonDocument): (a: BsonDocument, b: BsonDocument) => number {
  const fields = Object.entries(sort).map(([field, direction]) => {
    const sign = numberOf(direction)
    if (sign !== 1 && sign !== -1) throw unsupported(`a sort of ${field} by anything but 1 or -1`)
    return { field, sign }
  })
  const extreme = (document: BsonDocument, field: string, sign: number) =>
    elementsAt(document, field).reduce((a, b) => (compare(a, b) * sign <= 0 ? a : b))
  return (a, b) => {
    for (const { field, sign } of fields) {
      const order = compare(extreme(a, field, sign), extreme(b, field, sign)) * sign
      if (order !== 0) return order
    }
    return 0
  }
}

/** Applies a projection: keeps or removes fields. `_id` is kept unless the projection removes it. */
export function projector(projection: BsonDocument): (document: BsonDocument) => BsonDocument {
  const { _id: id = 1, ...rest } = projection
  const fields = Object.entries(rest).map(([field, how]) => {
    if (isDocument(how) || typeof how === 'string') throw unsupported(`the projection of ${field}`)
    return { path: field.split('.'), keep: how !== false && numberOf(how) !== 0 }
  })
  const withId = id !== false && numberOf(id) !== 0
  const keeping = fields.length > 0 ? fields.some(({ keep }) => keep) : withId && '_id' in projection
  if (fields.some(({ keep }) => keep !== keeping)) throw badValue('a projection either keeps or leaves out')
  return (document) => {
    const { _id, ...body } = document
    const kept = keeping
      ? fields.reduce((into: BsonDocument, { path }) => copyPath(body, into, path), {})
      : fields.reduce((from: BsonDocument, { path }) => withoutPath(from, path), body)
    return withId && _id !== undefined ? { _id, ...kept } : kept
  }
}

function copyPath(from: unknown, into: BsonDocument, path: readonly string[]): BsonDocument {
  const [name, ...rest] = path
  if (name === undefined || !isDocument(from) || !Object.hasOwn(from, name)) return into
  if (rest.length === 0) return { ...into, [name]: from[name] }
  const value = from[name]
  const before = into[name]
  if (Array.isArray(value)) {
    const elements = value.filter(isDocument).map((element, i) => {
      const known: unknown = Array.isArray(before) ? before[i] : undefined
      return copyPath(element, isDocument(known) ? known : {}, rest)
    })
    return { ...into, [name]: elements }
  }
  return isDocument(value)
    ? { ...into, [name]: copyPath(value, isDocument(before) ? before : {}, rest) }
    : into
}

function withoutPath(from: BsonDocument, path: readonly string[]): BsonDocument {
  const [name, ...rest] = path
  if (name === undefined || !Object.hasOwn(from, name)) return from
  const { [name]: value, ...others } = from
  if (rest.length === 0) return others
  if (Array.isArray(value)) {
    return { ...from, [name]: value.map((v: unknown) => (isDocument(v) ? withoutPath(v, rest) : v)) }
  }
  return isDocument(value) ? { ...from, [name]: withoutPath(value, rest) } : from
}
