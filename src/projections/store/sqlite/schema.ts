/** The tables of the embedded read store, and their updates when a collection's declaration changes. */
import { type Sqlite, select } from '../../../storage/sqlite/sqlite.ts'
import { checkName } from '../filter.ts'
import type { AnyCollection } from '../read-store.ts'
import { prepareParts, tablesOfParts } from './full-text.ts'
import { arrayTable, documentTable, indexColumns, indexName } from './tables.ts'

/**
 * `array_fields` records the fields in the array tables. `parts` records the collections of parts, with their fields
 * for words and for the id of the whole document.
 */
export const SCHEMA = `
  CREATE TABLE IF NOT EXISTS checkpoints (
    name TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    version INTEGER NOT NULL,
    event TEXT
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS array_fields (
    collection TEXT,
    field TEXT,
    PRIMARY KEY (collection, field)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS parts (
    collection TEXT PRIMARY KEY,
    field TEXT NOT NULL,
    owner TEXT NOT NULL
  ) WITHOUT ROWID;
`

/** Creates the tables of every store. */
export const prepareStore = (db: Sqlite): void => db.exec(SCHEMA)

/** Creates missing tables and indexes, and drops undeclared ones. Runs in the caller's transaction. */
export function prepareCollection(db: Sqlite, collection: AnyCollection): void {
  const documents = documentTable(collection)
  db.exec(`CREATE TABLE IF NOT EXISTS ${documents} (
    id TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    body TEXT NOT NULL
  )`)
  prepareIndexes(db, collection, documents)
  if (collection.partOf === undefined) prepareArrays(db, collection)
  else prepareParts(db, collection, collection.partOf)
}

function prepareIndexes(db: Sqlite, collection: AnyCollection, documents: string): void {
  const declared = new Map(
    collection.indexes.map((index) => [indexName(collection, index), indexColumns(index)]),
  )
  const existing = select<[string], { name: string }>(
    db,
    `SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL`,
  ).all(documents)
  for (const { name } of existing) if (!declared.has(name)) db.exec(`DROP INDEX ${name}`)
  for (const [name, columns] of declared) {
    db.exec(`CREATE INDEX IF NOT EXISTS ${name} ON ${documents} (${columns})`)
  }
}

/** All tables of a collection. */
export const tablesOf = (collection: AnyCollection): string[] => [
  documentTable(collection),
  ...(collection.partOf === undefined ? [arrayTable(collection)] : tablesOfParts(collection)),
]

/** The statements that remove the tables of a collection. */
export const dropStatements = (collection: AnyCollection): string[] => [
  ...tablesOf(collection).map((table) => `DROP TABLE IF EXISTS ${table}`),
  ...['array_fields', 'parts'].map(
    (table) => `DELETE FROM ${table} WHERE collection = '${checkName('collection', collection.name)}'`,
  ),
]

function prepareArrays(db: Sqlite, collection: AnyCollection): void {
  const arrays = arrayTable(collection)
  // The primary key is for testing one document, the index by value for finding documents.
  db.exec(`CREATE TABLE IF NOT EXISTS ${arrays} (
    field TEXT,
    id TEXT,
    value,
    PRIMARY KEY (field, id, value)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS ${arrays}__value ON ${arrays} (field, value, id)`)
  const held = select<[string], { field: string }>(
    db,
    'SELECT field FROM array_fields WHERE collection = ?',
  ).all(collection.name)
  for (const { field } of held) {
    if (collection.arrays.includes(field)) continue
    db.prepare(`DELETE FROM ${arrays} WHERE field = ?`).run(field)
    db.prepare('DELETE FROM array_fields WHERE collection = ? AND field = ?').run(collection.name, field)
  }
  for (const field of collection.arrays) {
    if (held.some((row) => row.field === field)) continue
    db.exec(`INSERT OR IGNORE INTO ${arrays} (field, id, value) ${elementsSql(collection, field)}`)
    db.prepare('INSERT INTO array_fields (collection, field) VALUES (?, ?)').run(collection.name, field)
  }
}

/** Selects the elements of a field of all documents: field, id, value, with repetitions. */
export const elementsSql = (collection: AnyCollection, field: string) => `
  SELECT '${checkName('field', field)}' AS field, d.id AS id, element.value AS value
  FROM ${documentTable(collection)} AS d, json_each(body, '$.${checkName('field', field)}') AS element
  WHERE json_type(body, '$.${field}') = 'array' AND element.type IN ('text', 'integer', 'real')`
