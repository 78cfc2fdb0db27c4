/** Keeps the array tables of the embedded read store like the arrays of the documents. */
import type { Run } from '../sqlite-thread.ts'
import { type Element, isElement } from './filter.ts'
import type { AnyCollection } from './read-store.ts'
import { arrayTable } from './sqlite-query.ts'

/** The most elements of an array that one statement writes. */
const CHUNK_SIZE = 1000

/** A document whose arrays may have changed. It has no `before` when it is new, and no `after` when it is deleted. */
export interface ArrayChange {
  id: string
  before: object | undefined
  after: object | undefined
}

/** Sends the statements for the difference of the arrays: a long list often changes by one or two elements. */
export function writeArrays(run: Run, collection: AnyCollection, changes: readonly ArrayChange[]): void {
  const table = arrayTable(collection)
  const { partOf } = collection
  const [and, column, ask] = partOf === undefined ? ['', '', ''] : [' AND owner = ?', ', owner', ', ?']
  const remove = `DELETE FROM ${table}
    WHERE field = ? AND id = ?${and} AND value IN (SELECT value FROM json_each(?))`
  const add = `INSERT OR IGNORE INTO ${table} (field, id${column}, value)
    SELECT ?, ?${ask}, value FROM json_each(?)`
  for (const { id, before = {}, after = {} } of changes) {
    for (const field of collection.arrays) {
      const [old, now] = [elementsOf(before, field), elementsOf(after, field)]
      const [removed, added] = [without(old, now), without(now, old)]
      for (const [sql, values, of] of [[remove, removed, before] as const, [add, added, after] as const]) {
        const owner = partOf === undefined ? [] : [ownerIn(of, partOf)]
        for (let i = 0; i < values.length; i += CHUNK_SIZE) {
          run(sql, field, id, ...owner, JSON.stringify(values.slice(i, i + CHUNK_SIZE)))
        }
      }
    }
  }
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
