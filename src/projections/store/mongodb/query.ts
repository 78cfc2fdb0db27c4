/** Filters and pages as MongoDB's queries over stored documents `{_id, position, body}`. */
import type { Document, Filter as MongoFilter } from 'mongodb'
import type { Position } from '../../../events/store/event-store.ts'
import { type Bound, type Condition, checkName, type Page } from '../filter.ts'
import { type AnyCollection, LONG_DOCUMENT } from '../read-store.ts'

export interface StoredDocument {
  _id: string
  position: Position
  body: object
  [field: `body.${string}`]: unknown
}

/** The path of a document's field. @throws TypeError when the name has other characters than letters and underscores */
export const bodyField = (field: string): `body.${string}` => `body.${checkName('field', field)}`

/** A condition on a document: words that its parts must have. */
interface WordsInParts {
  parts: AnyCollection
  /** The field of the parts with the id of the document. */
  owner: `body.${string}`
  /** The condition on a part for each word. */
  words: MongoFilter<StoredDocument>[]
}

/** A filter for MongoDB: a query over the documents, and the words that their parts must have. */
export interface MongoQuery {
  own: MongoFilter<StoredDocument>
  inParts: WordsInParts[]
}

/** Returns the query for the documents that meet all conditions. */
export function toMongoQuery(conditions: readonly Condition[]): MongoQuery {
  const own: MongoFilter<StoredDocument>[] = []
  const inParts: WordsInParts[] = []
  for (const condition of conditions) {
    if (condition.kind === 'containsWords' && condition.parts !== undefined) {
      const { parts, field, words } = condition
      // Longer words are usually rarer, so they are looked up first.
      const byLength = [...words].sort((a, b) => b.length - a.length)
      inParts.push({
        parts,
        owner: ownerField(parts),
        words: byLength.map((w) => beginsWith(bodyField(field), w)),
      })
    } else own.push(toCondition(condition))
  }
  return { own: allOf(own), inParts: inParts.filter(({ words }) => words.length > 0) }
}

/** The field of a part with the id of its document. @throws TypeError when the collection has no parts */
function ownerField(parts: AnyCollection): `body.${string}` {
  if (parts.partOf === undefined) throw new TypeError(`the documents of ${parts.name} are not parts`)
  return bodyField(parts.partOf)
}

/** Maximum number of words of a query that are looked up to find a small set of documents. */
export const MAX_CANDIDATES = 5
/** Maximum number of parts in a small set, whose test is cheaper than an index scan. */
export const MAX_SMALL_SET = 200

/**
 * Returns an aggregation over the parts: rows `{owner, word}`, where `word` is an index into `words`. A word with more
 * than `MAX_SMALL_SET` rows is frequent.
 */
export function ownersOfWords(
  { owner, words }: WordsInParts,
  storedName: (collection: AnyCollection) => string,
  parts: AnyCollection,
): Document[] {
  const [first = [], ...others] = words
    .slice(0, MAX_CANDIDATES)
    .map((matches, word) => [
      { $match: matches },
      { $limit: MAX_SMALL_SET + 1 },
      { $project: { _id: 0, owner: `$${owner}`, word: { $literal: word } } },
    ])
  return [...first, ...others.map((pipeline) => ({ $unionWith: { coll: storedName(parts), pipeline } }))]
}

/** Returns the stages that match documents whose parts have all words. Each test reads one index entry. */
function testsOfParts(
  inParts: readonly WordsInParts[],
  storedName: (collection: AnyCollection) => string,
): Document[] {
  return inParts.flatMap(({ parts, owner, words }) =>
    words.flatMap((matches) => [
      {
        $lookup: {
          from: storedName(parts),
          localField: '_id',
          foreignField: owner,
          pipeline: [{ $match: matches }, { $limit: 1 }, { $project: { _id: 1 } }],
          as: 'parts',
        },
      },
      { $match: { 'parts.0': { $exists: true } } },
    ]),
  )
}

/** Returns the stages that find all matching documents, in the order of the page, without its limits. */
export function matchStages(
  { own, inParts }: MongoQuery,
  sort: Record<string, 1 | -1> | undefined,
  storedName: (collection: AnyCollection) => string,
): Document[] {
  return [{ $match: own }, ...(sort ? [{ $sort: sort }] : []), ...testsOfParts(inParts, storedName)]
}

/** The order of a page. Ties are broken by id. */
export const sortOf = ({ sort }: Page): Record<string, 1 | -1> =>
  Object.fromEntries([...sort.map(([field, direction]) => [`body.${field}`, direction] as const), ['_id', 1]])

/** Projection of a page's documents. */
const SHOWN = {
  bodies: { _id: 0, body: 1 },
  /** Ids, and the bodies of documents that are not long, which bounds the size of a page. */
  rows: {
    _id: 1,
    body: { $cond: [{ $gt: [{ $bsonSize: '$body' }, LONG_DOCUMENT] }, '$$REMOVE', '$body'] },
  },
}

/** The stages that cut the page. */
export const pageStages = ({ skip, limit }: Page, shown: keyof typeof SHOWN): Document[] => [
  ...(skip > 0 ? [{ $skip: skip }] : []),
  ...(limit === null ? [] : [{ $limit: limit }]),
  { $project: SHOWN[shown] },
]

function allOf(conditions: MongoFilter<StoredDocument>[]): MongoFilter<StoredDocument> {
  return conditions.length === 0 ? {} : { $and: conditions }
}

function toCondition(condition: Condition): MongoFilter<StoredDocument> {
  const field = bodyField(condition.field)
  switch (condition.kind) {
    case 'equals':
    case 'contains':
      return { [field]: { $eq: condition.value } }
    case 'oneOf':
    case 'containsAny':
      return { [field]: { $in: condition.values } }
    case 'range':
      return { [field]: Object.fromEntries(condition.bounds.map((b) => [RANGE[b.operator], b.value])) }
    case 'containsWords':
      return allOf(condition.words.map((word) => beginsWith(field, word)))
  }
}

const beginsWith = (field: `body.${string}`, word: string): MongoFilter<StoredDocument> => ({
  [field]: { $regex: `^${literal(word)}` },
})

const RANGE = { '>': '$gt', '>=': '$gte', '<': '$lt', '<=': '$lte' } satisfies Record<
  Bound['operator'],
  string
>

/** Escapes the text for a pattern. MongoDB refuses a NUL character in a pattern, but accepts its escape. */
function literal(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&').replaceAll('\0', '\\x00')
}
