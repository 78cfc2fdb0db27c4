/** The tables of the embedded read store. Their names are checked, because they become part of SQL. */
import { type Sqlite, selectColumn } from '../../../storage/sqlite/sqlite.ts'
import { checkName } from '../filter.ts'
import type { AnyCollection, Index } from '../read-store.ts'

const checked = (collection: AnyCollection) => checkName('collection', collection.name)

/** The table of a collection's documents: `(id, position, body)`. */
export const documentTable = (collection: AnyCollection) => `doc_${checked(collection)}`
/** The table of a collection's array fields: `(field, id, value)`, with one row per element. Parts have other tables. */
export const arrayTable = (collection: AnyCollection) => `arr_${checked(collection)}`

/**
 * The table of a collection's parts: `(seq, id, owner, words)`. `owner` is the id of the whole document, `seq` the row in
 * the index of words. `words` is a text with a space before each word; null when that is long.
 */
export const partTable = (collection: AnyCollection) => `part_${checked(collection)}`
/** The full text index of the words of parts. */
export const wordIndex = (collection: AnyCollection) => `words_${checked(collection)}`
/** The words of parts with long texts: `(part, value)`, with one row per word. */
export const longTexts = (collection: AnyCollection) => `long_${checked(collection)}`

/** The SQL expression of a field. Indexes are built on it, so conditions must use the same text. */
export const fieldOf = (field: string) => `json_extract(body, '$.${checkName('field', field)}')`

/** The columns of a declared index. Each index ends with the id, because the id breaks the ties of every sort. */
export const indexColumns = (index: Index): string =>
  [
    ...Object.entries(index).map(([field, direction]) => fieldOf(field) + (direction === 1 ? '' : ' DESC')),
    'id',
  ].join(', ')
/** The name of a declared index. */
export const indexName = (collection: AnyCollection, index: Index): string =>
  [
    documentTable(collection),
    ...Object.entries(index).map(([field, direction]) => `${field}${direction === 1 ? '' : '_desc'}`),
  ].join('__')

/** Whether there is a table or an index with this name. */
export const exists = (db: Sqlite, name: string): boolean =>
  selectColumn<[string], number>(db, 'SELECT count(*) FROM sqlite_schema WHERE name = ?').get(name) === 1
