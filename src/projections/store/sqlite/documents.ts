/** Reads many documents of the embedded read store in one step, on any connection. */
import { isUtf8 } from 'node:buffer'
import type { Position } from '../../../events/store/event-store.ts'
import {
  BrokenFile,
  type Bytes,
  bufferOf,
  ROWS,
  readable,
  type Sqlite,
  select,
  selectTuples,
  textOf,
} from '../../../storage/sqlite/sqlite.ts'
import type { AnyCollection, Checkpoint, IdRange, RangeDocument, Stored, StoredRow } from '../read-store.ts'
import { documentTable } from './tables.ts'

/** SQL for the JSON texts of all rows as one JSON array, in order; null without rows. */
export const listOf = (json: string) => `CAST('[' || group_concat(${json}, ',') || ']' AS BLOB)`

/** Reads the checkpoint with a name. */
export function selectCheckpoint(db: Sqlite): (name: string) => Checkpoint | undefined {
  const sql = 'SELECT position, version, event FROM checkpoints WHERE name = ?'
  const checkpoint = select<[string], Omit<Checkpoint, 'event'> & { event: string | null }>(db, sql)
  return (name) => {
    const row = checkpoint.get(name)
    if (row === undefined) return undefined
    const { position, version, event } = row
    return { position, version, ...(event !== null && { event }) }
  }
}

/** Parses stored JSON, whose type the caller knows. @throws BrokenFile when the bytes are damaged */
export function parsed<T>(bytes: Bytes, file: string, { name }: AnyCollection): T {
  const text = textOf(bytes)
  if (text === undefined) throw new BrokenFile(file, `a document of ${name} is not UTF-8`)
  return parsedText(text, file, `a document of ${name}`)
}

export function parsedText<T>(text: string, file: string, what: string): T {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new BrokenFile(file, `${what} is not JSON`, { cause: error })
  }
}

/** Returns the documents with these ids, in no order. `run` runs the SQL with its one parameter. */
export function selectMany<D extends object>(
  file: string,
  collection: AnyCollection,
  ids: readonly string[],
  run: (sql: string, parameter: string) => Bytes | null | undefined,
): Stored<D>[] {
  const distinct = [...new Set(ids)]
  const bytes = run(
    `SELECT ${listOf(`'[' || wanted.key || ',' || position || ',' || body || ']'`)}
     FROM json_each(?) AS wanted CROSS JOIN ${documentTable(collection)} AS d ON d.id = wanted.value`,
    JSON.stringify(distinct),
  )
  const rows = bytes ? parsed<[place: number, position: Position, body: D][]>(bytes, file, collection) : []
  return rows.map(([place, position, body]) => ({ id: distinct[place] ?? '', position, body }))
}

/** SQL for the texts of all rows as one BLOB: a line with their lengths in bytes, then the texts; null without rows. */
export const textsOf = (column: string) =>
  `CAST('[' || group_concat(octet_length(${column}), ',') || ']' || char(10) || group_concat(${column}, '') AS BLOB)`

const LINE_END = '\n'.charCodeAt(0)

/** Returns the rows in a BLOB of `textsOf`: documents, or ids as JSON. @throws BrokenFile for a damaged BLOB */
export function rowsIn<D extends object>(
  bytes: Bytes,
  file: string,
  collection: AnyCollection,
  parse: (text: string) => D,
): StoredRow<D>[] {
  const found = readable(bytes)
  if (found === undefined) throw new BrokenFile(file, `a document of ${collection.name} is not UTF-8`)
  const { buffer, encoding } = found
  let end = buffer.indexOf(LINE_END) + 1
  const lengths: number[] = JSON.parse(buffer.toString('latin1', 0, end))
  return lengths.map((length) => {
    const start = end
    end += length
    const text = buffer.toString(encoding, start, end)
    if (!text.startsWith('"')) return { text, parse }
    return { id: parsedText<string>(text, file, `an id of ${collection.name}`) }
  })
}

/** Number of documents read as one BLOB. SQLite limits a BLOB to 1 GB. */
const BLOB_DOCUMENTS = 100

/** SQL for documents as one row: the lengths of each, and all texts. `rows` selects id, position, body. */
const blobOf = (rows: string) => `
  SELECT '[' || group_concat('[' || CAST(position AS INTEGER) || ',' || ifnull(octet_length(id), 0) || ',' ||
      ifnull(octet_length(body), 0) || ']') || ']',
    CAST(group_concat(concat(id, body), '') AS BLOB)
  FROM (${rows})`
type BlobRow = [lengths: string | null, texts: Bytes | null]

/** Reads the documents of an id range. `file` is the name for error messages. */
export function selectRange(
  db: Sqlite,
  file: string,
  collection: AnyCollection,
  { after = '', limit }: IdRange,
): RangeDocument[] {
  const rows = `SELECT id, position, body FROM ${documentTable(collection)} WHERE id > ? ORDER BY id LIMIT ${ROWS}`
  const blob = selectTuples<[string, number], BlobRow>(db, blobOf(rows))
  const documents: RangeDocument[] = []
  while (documents.length < limit) {
    const wanted = Math.min(BLOB_DOCUMENTS, limit - documents.length)
    const found = documentsOf(blob.get(documents.at(-1)?.id ?? after, wanted), file, collection)
    documents.push(...found)
    if (found.length < wanted) break
  }
  return documents
}

/** Reads the documents with these ids, with their JSON texts, in no order. */
export function selectTexts<D extends object>(
  db: Sqlite,
  file: string,
  collection: AnyCollection,
  ids: readonly string[],
): RangeDocument<D>[] {
  const rows = `SELECT d.id AS id, position, body
    FROM json_each(?) AS wanted CROSS JOIN ${documentTable(collection)} AS d ON d.id = wanted.value`
  const blob = selectTuples<[string], BlobRow>(db, blobOf(rows))
  const documents: RangeDocument<D>[] = []
  for (let start = 0; start < ids.length; start += BLOB_DOCUMENTS) {
    const wanted = JSON.stringify(ids.slice(start, start + BLOB_DOCUMENTS))
    documents.push(...documentsOf<D>(blob.get(wanted), file, collection))
  }
  return documents
}

/**
 * Splits a BLOB into documents: reading them one by one takes four times as long. The getter `body` throws BrokenFile
 * for invalid JSON.
 */
function documentsOf<D extends object>(
  [lengths, texts]: BlobRow = [null, null],
  file: string,
  collection: AnyCollection,
): RangeDocument<D>[] {
  if (lengths === null || texts === null) return []
  const sound = readable(texts)
  const { buffer, encoding } = sound ?? { buffer: bufferOf(texts), encoding: 'utf8' }
  // The lengths are in bytes.
  const rows: [position: Position, idLength: number, bodyLength: number][] = JSON.parse(lengths)
  let start = 0
  return rows.map(([position, idLength, bodyLength]) => {
    const middle = start + idLength
    const end = middle + bodyLength
    const id = buffer.toString(encoding, start, middle)
    if (sound === undefined && !isUtf8(buffer.subarray(start, end))) {
      throw new BrokenFile(file, `document ${id} of ${collection.name} is not UTF-8`)
    }
    const text = buffer.toString(encoding, middle, end)
    start = end
    return {
      id,
      position,
      text,
      // Parsed on demand: comparing two documents usually needs only their texts.
      get body(): D {
        return parsedText(text, file, `document ${id} of ${collection.name}`)
      },
    }
  })
}
