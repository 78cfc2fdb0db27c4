/** Checks the file of the embedded read models: damage, and array tables that differ from the documents. */
import {
  type Bytes,
  checkFile,
  integrityProblem,
  lossyText,
  type Sqlite,
  select,
  selectColumn,
  selectTuples,
} from '../sqlite.ts'
import type { AnyCollection } from './read-store.ts'
import { arrayTable } from './sqlite-query.ts'
import { elementsSql, ownedElementsSql } from './sqlite-schema.ts'

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
  const fields = selectTuples<[], [collection: Bytes, field: Bytes, partOf: Bytes | null]>(
    db,
    `SELECT CAST(a.collection AS BLOB), CAST(a.field AS BLOB), ${hasOwners(db) ? 'CAST(p.field AS BLOB)' : 'NULL'}
     FROM array_fields AS a ${hasOwners(db) ? 'LEFT JOIN part_owners AS p ON p.collection = a.collection' : ''}`,
  )
  for (const [name, field, partOf] of fields.all()) {
    const problem = wrongField(db, lossyText(name), lossyText(field), partOf && lossyText(partOf))
    if (problem !== undefined) return problem
  }
  return undefined
}

/** A file of an older version lacks the table of owners. The next start of the server makes its words again. */
function hasOwners(db: Sqlite): boolean {
  const sql = `SELECT count(*) FROM sqlite_schema WHERE name = 'part_owners'`
  return selectColumn<[], number>(db, sql).get() === 1
}

/** What is wrong with the rows of a field. `partOf`: for parts of other documents, the field with the id of those. */
function wrongField(db: Sqlite, name: string, field: string, partOf: string | null): string | undefined {
  const collection: AnyCollection = { name, indexes: [], arrays: [field] }
  const table = arrayTable(collection)
  const [columns, given] =
    partOf === null
      ? [['field', 'id', 'value'], elementsSql(collection, field)]
      : [['field', 'owner', 'value', 'n'], ownedElementsSql(collection, field, partOf)]
  const stored = `SELECT ${columns.join(', ')} FROM ${table} WHERE field = '${field}'`
  // The fast check. The slow one below names the difference, and accepts an element that a document has twice.
  if (areEqual(db, table, columns, given, stored)) return undefined
  for (const [one, other, problem] of [
    [given, stored, 'lacks an element'],
    [stored, given, 'has an element too many'],
  ]) {
    const found = selectColumn<[], Bytes>(
      db,
      `SELECT CAST(${columns[1]} AS BLOB) FROM (SELECT * FROM (${one}) EXCEPT SELECT * FROM (${other})) LIMIT 1`,
    ).get()
    if (found === undefined) continue
    return `what documents of ${name} are found by ${problem}: ${field} of document ${lossyText(found)}`
  }
  return undefined
}

/** Whether the array table has each given element, and no other. Looks each one up by the primary key. */
function areEqual(
  db: Sqlite,
  table: string,
  columns: readonly string[],
  given: string,
  stored: string,
): boolean {
  const same = columns.map((column) => `s.${column} = g.${column}`).join(' AND ')
  const counts = select<[], { given: number; found: number | null; stored: number }>(
    db,
    `SELECT count(*) AS given, (SELECT count(*) FROM (${stored})) AS stored,
       sum(EXISTS (SELECT 1 FROM ${table} AS s WHERE ${same})) AS found
     FROM (${given}) AS g`,
  ).get()
  return counts !== undefined && counts.given === counts.stored && (counts.found ?? 0) === counts.given
}
