/** The embedded read store as it stood in one moment, however long it is read and whoever writes meanwhile. */

import { isUtf8 } from 'node:buffer'
import type { Position } from '../events/event-store.ts'
import {
  BrokenFile,
  type Bytes,
  bufferOf,
  integrityProblem,
  isBroken,
  lossyText,
  openSqlite,
  orClosed,
  readable,
  type Sqlite,
  select,
  selectColumn,
  selectTuples,
} from '../sqlite.ts'
import type { AnyCollection, Checkpoint, IdRange, RangeDocument, ReadSnapshot } from './read-store.ts'
import { arrayTable, documentTable } from './sqlite-query.ts'

/** One read transaction on a connection of its own. The file's write-ahead log grows until it is closed. */
export function openSqliteSnapshot(file: string): ReadSnapshot {
  const db = openSqlite(file, 'NORMAL')
  const checkpoint = orClosed(file, [db], () =>
    select<[string], Checkpoint>(db, 'SELECT position, version FROM checkpoints WHERE name = ?'),
  )
  db.exec('BEGIN')
  // The first read is what decides on the moment.
  checkpoint.get('')
  return {
    isIsolated: true,
    async checkpoint(name) {
      const row = checkpoint.get(name)
      return row && { position: row.position, version: row.version }
    },
    async range(collection, range) {
      try {
        return selectRange(db, file, collection, range)
      } catch (error) {
        if (!isBroken(error)) throw error
        const after = range.after === undefined ? '' : ` after ${range.after}`
        throw new BrokenFile(file, `${error.message} (documents of ${collection.name}${after})`, {
          cause: error,
        })
      }
    },
    async close() {
      db.exec('ROLLBACK')
      db.close()
    },
  }
}

/** What SQLite finds damaged in the file; undefined when nothing. Takes as long as reading all of it. */
export function checkSqliteViews(file: string): string | undefined {
  const db = openSqlite(file, 'NORMAL')
  try {
    db.exec('BEGIN')
    const damage = integrityProblem(db) ?? wrongElements(db)
    return damage === undefined ? undefined : `${file} is damaged: ${damage}`
  } finally {
    // A statement that found something holds its read lock beyond the close.
    if (db.inTransaction) db.exec('ROLLBACK')
    db.close()
  }
}

/** Where the array tables, by which documents are found, are not what the documents give. */
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
    const counts = select<[], { given: number; found: number | null; stored: number }>(
      db,
      `SELECT count(*) AS given, (SELECT count(*) FROM ${arrayTable(collection)}) AS stored,
         sum(EXISTS (SELECT 1 FROM ${arrayTable(collection)} AS s
           WHERE s.field = g.field AND s.id = g.id AND s.value = g.value)) AS found
       FROM (${given}) AS g`,
    ).get()
    // The quick way; the other names what differs, and knows an element that a document has twice.
    if (counts !== undefined && counts.given === counts.stored && (counts.found ?? 0) === counts.given)
      continue
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

/** So many documents come as one piece of bytes, which SQLite lets have 1 GB. */
const PIECE = 100

/** The documents of an id range of `file`, on this connection. */
export function selectRange(
  db: Sqlite,
  file: string,
  collection: AnyCollection,
  { after = '', limit }: IdRange,
): RangeDocument[] {
  const piece = selectTuples<[string, number], [lengths: string | null, texts: Bytes | null]>(
    db,
    `SELECT '[' || group_concat('[' || CAST(position AS INTEGER) || ',' || ifnull(octet_length(id), 0) || ',' ||
         ifnull(octet_length(body), 0) || ']') || ']',
       CAST(group_concat(concat(id, body), '') AS BLOB)
     FROM (SELECT id, position, body FROM ${documentTable(collection)} WHERE id > ? ORDER BY id LIMIT ?)`,
  )
  const documents: RangeDocument[] = []
  while (documents.length < limit) {
    const wanted = Math.min(PIECE, limit - documents.length)
    const [[lengths, texts] = [null, null]] = piece.iterate(documents.at(-1)?.id ?? after, wanted)
    if (lengths === null || texts === null) break
    const found = documentsOf(lengths, texts, file, collection)
    documents.push(...found)
    if (found.length < wanted) break
  }
  return documents
}

/** Of each document: its position, and how many bytes its id and its body have. */
type Lengths = [position: Position, id: number, body: number]

/**
 * Documents from their bytes, one after the other: to ask SQLite for them one by one would take four times as long.
 */
function documentsOf(
  lengths: string,
  texts: Bytes,
  file: string,
  collection: AnyCollection,
): RangeDocument[] {
  const sound = readable(texts)
  const { buffer, encoding } = sound ?? { buffer: bufferOf(texts), encoding: 'utf8' }
  const rows: Lengths[] = JSON.parse(lengths)
  let start = 0
  return rows.map(([position, idLength, bodyLength]) => {
    const middle = start + idLength
    const end = middle + bodyLength
    const id = buffer.toString(encoding, start, middle)
    if (sound === undefined && !isUtf8(buffer.subarray(start, end))) {
      throw new BrokenFile(file, `document ${id} of ${collection.name} is no UTF-8`)
    }
    const document = lazily({ id, position, text: buffer.toString(encoding, middle, end) }, file, collection)
    start = end
    return document
  })
}

/**
 * Parsed when somebody looks: whoever compares two of them seldom needs more than the texts. Looking at one that
 * is no JSON throws BrokenFile.
 */
function lazily(
  { id, position, text }: { id: string; position: Position; text: string },
  file: string,
  { name }: AnyCollection,
): RangeDocument {
  return {
    id,
    position,
    text,
    get body(): object {
      try {
        return JSON.parse(text)
      } catch (error) {
        throw new BrokenFile(file, `document ${id} of ${name} is no JSON`, { cause: error })
      }
    },
  }
}
