/** Checks the file of the embedded read models: damage, and array tables that differ from the documents. */
import {
  type Bytes,
  checkFile,
  integrityProblem,
  lossyText,
  type Sqlite,
  select,
  selectColumn,
} from '../sqlite.ts'
import type { AnyCollection } from './read-store.ts'
import { arrayTable, documentTable } from './sqlite-query.ts'

/**
 * Checks the whole file and returns the first problem; undefined when there is none. It takes as long as reading the
 * file, and blocks the event loop.
 */
export function checkSqliteViews(file: string): string | undefined {
  const damage = checkFile(file, (db) => integrityProblem(db) ?? wrongElements(db))
  return damage && `${file} is damaged: ${damage}`
}

/** The first difference between the array tables, which filters use, and the array fields of the documents. */
function wrongElements(db: Sqlite): string | undefined {
  const names = selectColumn<[], Bytes>(
    db,
    `SELECT DISTINCT CAST(substr(name, 5) AS BLOB) FROM sqlite_schema WHERE type = 'table' AND name LIKE 'arr\\_%' ESCAPE '\\'`,
  )
  for (const bytes of names.all()) {
    const name = lossyText(bytes)
    const collection: AnyCollection = { name, indexes: [], arrays: [] }
    const stored = `SELECT field, id, value FROM ${arrayTable(collection)}`
    const given = `SELECT a.field AS field, d.id AS id, e.value AS value
      FROM ${documentTable(collection)} AS d JOIN array_fields AS a ON a.collection = '${name}',
        json_each(body, '$.' || a.field) AS e
      WHERE json_type(body, '$.' || a.field) = 'array' AND e.type IN ('text', 'integer', 'real')`
    // The fast check. The slow one below names the difference, and accepts an element that a document has twice.
    if (!hasOwners(db, collection) && areEqual(db, collection, given)) continue
    for (const [one, other, problem] of [
      [given, stored, 'lacks an element'],
      [stored, given, 'has an element too many'],
    ]) {
      const found = select<[], { field: Bytes; id: Bytes }>(
        db,
        `SELECT CAST(field AS BLOB) AS field, CAST(id AS BLOB) AS id FROM (${one} EXCEPT ${other}) LIMIT 1`,
      ).get()
      if (found === undefined) continue
      const [field, id] = [lossyText(found.field), lossyText(found.id)]
      return `what documents of ${name} are found by ${problem}: ${field} of document ${id}`
    }
  }
  return undefined
}

/** Whether the rows of an array table begin with the owner of a part: then no index finds them by the part's id. */
function hasOwners(db: Sqlite, collection: AnyCollection): boolean {
  const sql = `SELECT count(*) FROM pragma_table_info('${arrayTable(collection)}') WHERE name = 'owner'`
  return selectColumn<[], number>(db, sql).get() === 1
}

/** Whether the array table has each given element, and no other. Looks each one up by the primary key. */
function areEqual(db: Sqlite, collection: AnyCollection, given: string): boolean {
  const counts = select<[], { given: number; found: number | null; stored: number }>(
    db,
    `SELECT count(*) AS given, (SELECT count(*) FROM ${arrayTable(collection)}) AS stored,
       sum(EXISTS (SELECT 1 FROM ${arrayTable(collection)} AS s
         WHERE s.field = g.field AND s.id = g.id AND s.value = g.value)) AS found
     FROM (${given}) AS g`,
  ).get()
  return counts !== undefined && counts.given === counts.stored && (counts.found ?? 0) === counts.given
}
