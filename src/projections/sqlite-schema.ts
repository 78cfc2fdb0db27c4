/** The tables of the embedded read store, and how to update them when a collection's declaration changes. */
import { type Sqlite, select } from '../sqlite.ts'
import { checkName } from './filter.ts'
import type { AnyCollection } from './read-store.ts'
import { arrayTable, documentTable, fieldOf } from './sqlite-query.ts'

/** `array_fields` records which fields are in the array tables. */
export const SCHEMA = `
  CREATE TABLE IF NOT EXISTS checkpoints (
    name TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    version INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS array_fields (
    collection TEXT,
    field TEXT,
    PRIMARY KEY (collection, field)
  ) WITHOUT ROWID;
`

/** Creates missing tables and indexes, and drops undeclared ones. Runs in the caller's transaction. */
export function prepareCollection(db: Sqlite, collection: AnyCollection): void {
  const documents = documentTable(collection)
  db.exec(`CREATE TABLE IF NOT EXISTS ${documents} (
    id TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    body TEXT NOT NULL
  )`)
  prepareIndexes(db, collection, documents)
  prepareArrays(db, collection, documents)
}

function prepareIndexes(db: Sqlite, collection: AnyCollection, documents: string): void {
  const declared = new Map(
    collection.indexes.map((index) => {
      const fields = Object.entries(index)
      const name = fields.map(([field, direction]) => `${field}${direction === 1 ? '' : '_desc'}`).join('__')
      const columns = fields.map(([field, direction]) => `${fieldOf(field)}${direction === 1 ? '' : ' DESC'}`)
      // Every index ends with the id, because the id breaks the ties of every sort.
      return [`${documents}__${name}`, [...columns, 'id'].join(', ')]
    }),
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

/** The statements that remove the tables of a collection. */
export const dropStatements = (collection: AnyCollection): string[] => [
  `DROP TABLE IF EXISTS ${documentTable(collection)}`,
  `DROP TABLE IF EXISTS ${arrayTable(collection)}`,
  `DELETE FROM array_fields WHERE collection = '${checkName('collection', collection.name)}'`,
]

function prepareArrays(db: Sqlite, collection: AnyCollection, documents: string): void {
  const arrays = arrayTable(collection)
  const { partOf } = collection
  // The primary key serves to test one document, the index by value to find documents.
  if (partOf === undefined) {
    db.exec(`CREATE TABLE IF NOT EXISTS ${arrays} (
      field TEXT,
      id TEXT,
      value,
      PRIMARY KEY (field, id, value)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS ${arrays}__value ON ${arrays} (field, value, id)`)
  } else {
    const columns = select<[string], { name: string }>(db, 'SELECT name FROM pragma_table_info(?)').all(
      arrays,
    )
    if (columns.length > 0 && !columns.some(({ name }) => name === 'owner')) {
      // An earlier version made it. Its rows are made again below.
      db.exec(`DROP TABLE ${arrays}`)
      db.prepare('DELETE FROM array_fields WHERE collection = ?').run(collection.name)
    }
    // To test one document, its parts are read as one: by their common document, and then by value.
    db.exec(`CREATE TABLE IF NOT EXISTS ${arrays} (
      field TEXT,
      owner TEXT,
      value,
      id TEXT,
      PRIMARY KEY (field, owner, value, id)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS ${arrays}__value ON ${arrays} (field, value, owner, id)`)
  }
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
    const owner = partOf === undefined ? ['', ''] : [', owner', `, coalesce(${fieldOf(partOf)}, '')`]
    db.exec(`INSERT OR IGNORE INTO ${arrays} (field, id, value${owner[0]})
      SELECT '${checkName('field', field)}', d.id, element.value${owner[1]}
      FROM ${documents} AS d, json_each(body, '$.${field}') AS element
      WHERE json_type(body, '$.${field}') = 'array' AND element.type IN ('text', 'integer', 'real')`)
    db.prepare('INSERT INTO array_fields (collection, field) VALUES (?, ?)').run(collection.name, field)
  }
}
