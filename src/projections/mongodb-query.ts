/** Filters as MongoDB's queries over stored documents `{_id, position, body}`. */
import type { Filter as MongoFilter } from 'mongodb'
import type { Position } from '../events/event-store.ts'
import { type Bound, type Condition, checkName } from './filter.ts'

export interface StoredDocument {
  _id: string
  position: Position
  body: object
  [field: `body.${string}`]: unknown
}

/** The path of a document's field. @throws TypeError when the name has other characters than letters and underscores */
export const bodyField = (field: string): `body.${string}` => `body.${checkName('field', field)}`

/** The query for the documents that meet all conditions. */
export function toMongoFilter(conditions: readonly Condition[]): MongoFilter<StoredDocument> {
  return allOf(conditions.map(toCondition))
}

function allOf(conditions: MongoFilter<StoredDocument>[]): MongoFilter<StoredDocument> {
  return conditions.length === 0 ? {} : { $and: conditions }
}

function toCondition(condition: Condition): MongoFilter<StoredDocument> {
  const field = bodyField(condition.field)
  switch (condition.kind) {
    case 'equals':
      return { [field]: { $eq: condition.value } }
    case 'oneOf':
    case 'containsAny':
      return { [field]: { $in: condition.values } }
    case 'range':
      return { [field]: Object.fromEntries(condition.bounds.map((b) => [RANGE[b.operator], b.value])) }
    case 'containsAll':
      // In MongoDB an empty `$all` matches nothing. Here an empty list demands nothing.
      return condition.values.length === 0 ? {} : { [field]: { $all: condition.values } }
    case 'containsWords':
      return allOf(condition.words.map((word) => ({ [field]: { $regex: `^${literal(word)}` } })))
  }
}

const RANGE = { '>': '$gt', '>=': '$gte', '<': '$lt', '<=': '$lte' } satisfies Record<
  Bound['operator'],
  string
>

/** Escapes the text for a pattern. MongoDB refuses a NUL character in a pattern, but accepts its escape. */
function literal(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&').replaceAll('\0', '\\x00')
}
