/** Keeps the array tables of the embedded read store like the arrays of the documents. */
import type { Run } from '../sqlite-thread.ts'
import { type Element, isElement } from './filter.ts'
import type { AnyCollection } from './read-store.ts'
import { arrayTable } from './sqlite-query.ts'

/**
 * The most elements of an array that one statement writes, in their order: neighbours in the tables are written together.
 * The words of a text of 65,000 Chinese characters take half of the time that they took in their own order.
 */
const CHUNK_SIZE = 100_000

/** A document whose arrays may have changed. It has no `before` when it is new, and no `after` when it is deleted. */
export interface ArrayChange {
  id: string
  before: object | undefined
  after: object | undefined
}

/** Sends the statements for the difference of the arrays: a long list often changes by one or two elements. */
export function writeArrays(run: Run, collection: AnyCollection, changes: readonly ArrayChange[]): void {
  const { partOf, arrays } = collection
  const sql = partOf === undefined ? ofDocuments(arrayTable(collection)) : ofParts(arrayTable(collection))
  for (const { id, before = {}, after = {} } of changes) {
    const [oldKey, key] = partOf === undefined ? [id, id] : [ownerIn(before, partOf), ownerIn(after, partOf)]
    for (const field of arrays) {
      const [old, now] = [elementsOf(before, field), elementsOf(after, field)]
      // A part of another document than before has nothing in common with itself.
      const isSame = oldKey === key
      for (const chunk of chunksOf(isSame ? without(old, now) : [...old])) {
        for (const remove of sql.remove) run(remove, field, oldKey, chunk)
      }
      for (const chunk of chunksOf(isSame ? without(now, old) : [...now])) run(sql.add, field, key, chunk)
    }
  }
}

const LIST = '(SELECT value FROM json_each(?))'

const ofDocuments = (table: string) => ({
  add: `INSERT OR IGNORE INTO ${table} (field, id, value) SELECT ?, ?, value FROM json_each(?) ORDER BY value`,
  remove: [`DELETE FROM ${table} WHERE field = ? AND id = ? AND value IN ${LIST}`],
})

const ofParts = (table: string) => ({
  add: `INSERT INTO ${table} (field, owner, value, n) SELECT ?, ?, value, 1 FROM json_each(?) WHERE true
    ORDER BY value ON CONFLICT DO UPDATE SET n = n + 1`,
  remove: [
    `UPDATE ${table} SET n = n - 1 WHERE field = ? AND owner = ? AND value IN ${LIST}`,
    `DELETE FROM ${table} WHERE field = ? AND owner = ? AND value IN ${LIST} AND n <= 0`,
  ],
})

function* chunksOf(values: readonly Element[]): Generator<string> {
  for (let i = 0; i < values.length; i += CHUNK_SIZE) yield JSON.stringify(values.slice(i, i + CHUNK_SIZE))
}

/** The id of the document that a part belongs to. A part without one is found by no query. */
function ownerIn(body: object, partOf: string): string {
  const owner: unknown = Reflect.get(body, partOf)
  return typeof owner === 'string' ? owner : ''
}

const NO_ELEMENTS: ReadonlySet<Element> = new Set()

function elementsOf(body: object, field: string): ReadonlySet<Element> {
  const value: unknown = Reflect.get(body, field)
  return Array.isArray(value) && value.length > 0 ? new Set(value.filter(isElement)) : NO_ELEMENTS
}

function without(these: ReadonlySet<Element>, those: ReadonlySet<Element>): Element[] {
  if (those.size === 0) return [...these]
  return [...these].filter((value) => !those.has(value))
}
