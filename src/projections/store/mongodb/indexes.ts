/** The indexes of the read models in MongoDB. */
import type { IndexDescription, Collection as MongoCollection } from 'mongodb'
import type { AnyCollection } from '../read-store.ts'
import { INDEX_NOT_FOUND, NAMESPACE_NOT_FOUND, unless } from './errors.ts'
import { bodyField, type StoredDocument } from './query.ts'

/** Name prefix of our indexes. Others belong to the operator and stay. */
const OWN_INDEX = 'mergelog_'

/** Creates the declared indexes, and drops obsolete ones that an earlier version of this server created. */
export async function prepareIndexes(
  stored: MongoCollection<StoredDocument>,
  collection: AnyCollection,
): Promise<void> {
  const declared = indexesOf(collection)
  const existing = await stored.indexes().catch(unless(NAMESPACE_NOT_FOUND, []))
  // MongoDB refuses a second index with the same fields.
  const missing = declared.filter(({ key }) => !existing.some((one) => sameFields(one.key, key)))
  if (missing.length > 0) await stored.createIndexes(missing)
  for (const { name = '', key } of existing) {
    if (!name.startsWith(OWN_INDEX) || declared.some((index) => sameFields(key, index.key))) continue
    await stored.dropIndex(name).catch(unless(INDEX_NOT_FOUND, {}))
  }
}

function indexesOf(collection: AnyCollection): IndexDescription[] {
  // Every index ends with the id, because the id breaks the ties of every sort.
  const ofSorts = collection.indexes.map((index): [string, 1 | -1][] => [
    ...Object.entries(index).map(([field, direction = 1]): [string, 1 | -1] => [bodyField(field), direction]),
    ['_id', 1],
  ])
  const { partOf } = collection
  const ofArrays = collection.arrays.flatMap((field): [string, 1 | -1][][] =>
    partOf === undefined
      ? [[[bodyField(field), 1]]]
      : [
          [
            [bodyField(field), 1],
            [bodyField(partOf), 1],
          ],
          [
            [bodyField(partOf), 1],
            [bodyField(field), 1],
          ],
        ],
  )
  return [...ofSorts, ...ofArrays].map((fields) => ({
    key: new Map(fields),
    name: OWN_INDEX + fields.map(([field, direction]) => `${field}_${direction}`).join('_'),
  }))
}

function sameFields(key: unknown, declared: IndexDescription['key']): boolean {
  const fields = declared instanceof Map ? [...declared] : Object.entries(declared)
  return (
    typeof key === 'object' && key !== null && JSON.stringify(Object.entries(key)) === JSON.stringify(fields)
  )
}
