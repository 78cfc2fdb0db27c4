/** Checks the file of the embedded read models: damage, and tables for filters that differ from the documents. */
import {
  type Bytes,
  checkFile,
  integrityProblem,
  lossyText,
  type Sqlite,
  select,
  selectColumn,
  selectTuples,
} from '../../../storage/sqlite/sqlite.ts'
import type { AnyCollection } from '../read-store.ts'
import { ownerSql, tablesOfParts, textSql } from './full-text.ts'
import { elementsSql } from './schema.ts'
import { arrayTable, documentTable, fieldOf } from './tables.ts'

/**
 * Checks the whole file and returns the first problem; undefined without one. Takes as long as reading the file, and
 * blocks the event loop.
 */
export function checkSqliteViews(file: string): string | undefined {
  const damage = checkFile(file, (db) => integrityProblem(db) ?? wrongElements(db))
  return damage && `${file} is damaged: ${damage}`
}

/** Returns the first difference between the documents and the tables for filters. */
function wrongElements(db: Sqlite): string | undefined {
  const fields = selectTuples<[], [collection: Bytes, field: Bytes]>(
    db,
    `SELECT CAST(collection AS BLOB), CAST(field AS BLOB) FROM array_fields`,
  )
  for (const [name, field] of fields.all()) {
    const problem = wrongField(db, collectionOf(lossyText(name), lossyText(field)), lossyText(field))
    if (problem !== undefined) return problem
  }
  const parts = selectTuples<[], [collection: Bytes, field: Bytes, owner: Bytes]>(
    db,
    'SELECT CAST(collection AS BLOB), CAST(field AS BLOB), CAST(owner AS BLOB) FROM parts',
  )
  for (const [name, field, owner] of parts.all()) {
    const problem = wrongParts(
      db,
      collectionOf(lossyText(name), lossyText(field)),
      lossyText(field),
      lossyText(owner),
    )
    if (problem !== undefined) return problem
  }
  return undefined
}

const collectionOf = (name: string, field: string): AnyCollection => ({ name, indexes: [], arrays: [field] })

/** Returns a problem with the rows of a field. */
function wrongField(db: Sqlite, collection: AnyCollection, field: string): string | undefined {
  const table = arrayTable(collection)
  const given = elementsSql(collection, field)
  const stored = `SELECT field, id, value FROM ${table} WHERE field = '${field}'`
  // The fast check. The slow one below names the difference, and accepts repeated elements.
  if (areEqual(db, table, given, stored)) return undefined
  for (const [one, other, problem] of [
    [given, stored, 'lacks an element'],
    [stored, given, 'has an element too many'],
  ]) {
    const found = selectColumn<[], Bytes>(
      db,
      `SELECT CAST(id AS BLOB) FROM (SELECT * FROM (${one}) EXCEPT SELECT * FROM (${other})) LIMIT 1`,
    ).get()
    if (found === undefined) continue
    return `the filter index of ${collection.name} ${problem}: ${field} of document ${lossyText(found)}`
  }
  return undefined
}

/**
 * Returns a problem with the tables of parts. Each document must have a part with its owner and words, and the index
 * exactly the words of each part.
 */
function wrongParts(
  db: Sqlite,
  collection: AnyCollection,
  field: string,
  partOf: string,
): string | undefined {
  const { name } = collection
  const documents = documentTable(collection)
  const [parts, index, long] = tablesOfParts(collection)
  const entries = `temp.${index}_entries`
  const words = `json_each(${fieldOf(field)}) AS word`
  const wrong = selectColumn<[], Bytes>(
    db,
    `SELECT CAST(d.id AS BLOB) FROM ${documents} AS d LEFT JOIN ${parts} AS p ON p.id = d.id
     WHERE p.seq IS NULL OR p.owner <> ${ownerSql(partOf)} OR iif(p.words IS NOT NULL, p.words <> ${textSql(field)},
       (SELECT count(*) FROM ${long} WHERE part = p.seq) <> (SELECT count(*) FROM ${words})
       OR EXISTS (SELECT 1 FROM ${words} WHERE NOT EXISTS (SELECT 1 FROM ${long} AS l WHERE l.part = p.seq AND l.value = word.value)))
     LIMIT 1`,
  ).get()
  if (wrong !== undefined) return `the word index of ${name} differs from document ${lossyText(wrong)}`
  db.exec(`CREATE VIRTUAL TABLE ${entries} USING fts5vocab(main, ${index}, instance)`)
  const counts = select<[], { parts: number; entries: number; right: number | null; words: number }>(
    db,
    `SELECT (SELECT count(*) FROM ${parts}) - (SELECT count(*) FROM ${documents}) AS parts,
       (SELECT count(*) FROM ${documents}, ${words}) AS words, count(*) AS entries,
       sum(iif(p.words IS NULL, EXISTS (SELECT 1 FROM ${long} WHERE part = doc AND value = term),
         instr(p.words || ' ', ' ' || term || ' ') > 0)) AS right
     FROM ${entries} LEFT JOIN ${parts} AS p ON p.seq = doc`,
  ).get()
  db.exec(`DROP TABLE ${entries}`)
  if (counts === undefined) return undefined
  if (counts.parts > 0) return `${counts.parts} parts of ${name} have no document`
  if (counts.entries !== (counts.right ?? 0)) return `the index of words of ${name} has wrong entries`
  return counts.entries === counts.words ? undefined : `the index of words of ${name} lacks entries`
}

/** Whether the array table has exactly the given elements, looked up by primary key. */
function areEqual(db: Sqlite, table: string, given: string, stored: string): boolean {
  const counts = select<[], { given: number; found: number | null; stored: number }>(
    db,
    `SELECT count(*) AS given, (SELECT count(*) FROM (${stored})) AS stored,
       sum(EXISTS (SELECT 1 FROM ${table} AS s WHERE s.field = g.field AND s.id = g.id AND s.value = g.value)) AS found
     FROM (${given}) AS g`,
  ).get()
  return counts !== undefined && counts.given === counts.stored && (counts.found ?? 0) === counts.given
}
