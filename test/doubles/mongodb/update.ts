/** Applies updates to documents. */
import { BSON } from 'mongodb'
import { badValue, CommandFailure, unsupported } from './failure.ts'
import { isOperators } from './match.ts'
import { type BsonDocument, equal, isDocument, numberOf, valuesAt } from './values.ts'

/** Returns the next version of a document; for undefined, the document that an upsert inserts. */
export type Update = (document: BsonDocument | undefined) => BsonDocument

/** @throws CommandFailure for operators that are not supported */
export function updateOf(update: unknown, filter: BsonDocument): Update {
  if (Array.isArray(update)) throw unsupported('an update by a pipeline')
  if (!isDocument(update)) throw badValue('an update is a document')
  const change = Object.keys(update).some((name) => name.startsWith('$'))
    ? modify(update)
    : (document: BsonDocument) => replace(document, update)
  return (document) => {
    if (document !== undefined) return keepingId(document, change(document, false))
    const made = change(equalities(filter), true)
    const { _id = new BSON.ObjectId(), ...rest } = made
    return { _id, ...rest }
  }
}

/** Whether the update is a whole new document. Such an update can replace only one document. */
export function isReplacement(update: unknown): boolean {
  return isDocument(update) && !Object.keys(update).some((name) => name.startsWith('$'))
}

function keepingId(before: BsonDocument, after: BsonDocument): BsonDocument {
  if (equal(before._id, after._id)) return after
  throw new CommandFailure(
    66,
    'ImmutableField',
    "Performing an update on the path '_id' would modify the immutable field '_id'",
  )
}

function replace(document: BsonDocument, replacement: BsonDocument): BsonDocument {
  const { _id } = document
  return _id === undefined || '_id' in replacement ? replacement : { _id, ...replacement }
}

function modify(update: BsonDocument): (document: BsonDocument, inserting: boolean) => BsonDocument {
  const steps = Object.entries(update).flatMap(([operator, fields]) => {
    if (!isDocument(fields)) throw badValue(`${operator} needs a document of fields`)
    return Object.entries(fields).map(([field, operand]) => {
      const path = field.split('.')
      if (path.some((name) => name === '' || name.startsWith('$'))) throw unsupported(`an update of ${field}`)
      return step(operator, path, operand)
    })
  })
  return (document, inserting) => steps.reduce((into, change) => change(into, inserting), document)
}

function step(operator: string, path: string[], operand: unknown) {
  return (document: BsonDocument, inserting: boolean): BsonDocument => {
    switch (operator) {
      case '$set':
        return put(document, path, operand)
      case '$unset':
        return without(document, path)
      case '$setOnInsert':
        return inserting ? put(document, path, operand) : document
      case '$inc':
        return put(document, path, sum(valuesAt(document, path)[0], operand))
      default:
        throw unsupported(`the update operator ${operator}`)
    }
  }
}

function put(document: BsonDocument, path: readonly string[], value: unknown): BsonDocument {
  const [name, ...rest] = path
  if (name === undefined) return document
  if (rest.length === 0) return { ...document, [name]: value }
  const inner = Object.hasOwn(document, name) ? document[name] : {}
  if (Array.isArray(inner)) throw unsupported(`an update inside the array ${name}`)
  if (!isDocument(inner)) {
    throw new CommandFailure(28, 'PathNotViable', `Cannot create field '${rest[0]}' in element {${name}}`)
  }
  return { ...document, [name]: put(inner, rest, value) }
}

function without(document: BsonDocument, [name, ...rest]: readonly string[]): BsonDocument {
  if (rest.length > 0) throw unsupported('an $unset inside of a field')
  return Object.fromEntries(Object.entries(document).filter(([field]) => field !== name))
}

function sum(before: unknown, increment: unknown): unknown {
  const [a, b] = [numberOf(before ?? 0), numberOf(increment)]
  if (a === undefined || b === undefined) {
    throw new CommandFailure(14, 'TypeMismatch', 'Cannot apply $inc to a value of non-numeric type')
  }
  const whole = [before ?? 0, increment].every(
    (n) => !(n instanceof BSON.Double) && Number.isInteger(numberOf(n)),
  )
  if (!whole) return new BSON.Double(a + b)
  const wide = [before, increment].some((n) => n instanceof BSON.Long)
  if (!wide && Math.abs(a + b) < 2 ** 31) return new BSON.Int32(a + b)
  return BSON.Long.fromBigInt(BigInt(a) + BigInt(b))
}

/** The fields that a filter compares for equality. An upsert begins with them. */
function equalities(filter: BsonDocument): BsonDocument {
  return demandsOf(filter).reduce((into: BsonDocument, [field, demand]) => {
    if (demand instanceof BSON.BSONRegExp) return into
    if (!isOperators(demand)) return put(into, field.split('.'), demand)
    return '$eq' in demand ? put(into, field.split('.'), demand.$eq) : into
  }, {})
}

/** The demands on fields, including those inside `$and`. */
function demandsOf(filter: BsonDocument): [field: string, demand: unknown][] {
  return Object.entries(filter).flatMap(([field, demand]) => {
    if (field === '$and' && Array.isArray(demand)) return demand.filter(isDocument).flatMap(demandsOf)
    return field.startsWith('$') ? [] : [[field, demand] satisfies [string, unknown]]
  })
}
