/** Reading many documents of the embedded read store at once, on whichever connection. */
import { isUtf8 } from 'node:buffer'
import type { Position } from '../events/event-store.ts'
import { BrokenFile, type Bytes, bufferOf, readable, type Sqlite, selectTuples, textOf } from '../sqlite.ts'
import type { AnyCollection, IdRange, RangeDocument, Stored } from './read-store.ts'
import { documentTable } from './sqlite-query.ts'

/** JSON texts of rows as one array, null when there is none. The order is that of the rows. */
export const listOf = (json: string) => `CAST('[' || group_concat(${json}, ',') || ']' AS BLOB)`

/** What the JSON says, which only the caller can know. @throws BrokenFile for bytes that were not written here */
export function parsed<T>(bytes: Bytes, file: string, { name }: AnyCollection): T {
  const text = textOf(bytes)
  if (text === undefined) throw new BrokenFile(file, `a document of ${name} is no UTF-8`)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new BrokenFile(file, `a document of ${name} is no JSON`, { cause: error })
  }
}

/** The documents with these ids, in no order. `ask` runs the SQL with its one parameter. */
export function selectMany<D extends object>(
  file: string,
  collection: AnyCollection,
  ids: readonly string[],
  ask: (sql: string, parameter: string) => Bytes | null | undefined,
): Stored<D>[] {
  const distinct = [...new Set(ids)]
  const bytes = ask(
    `SELECT ${listOf(`'[' || wanted.key || ',' || position || ',' || body || ']'`)}
     FROM json_each(?) AS wanted CROSS JOIN ${documentTable(collection)} AS d ON d.id = wanted.value`,
    JSON.stringify(distinct),
  )
  const rows = bytes ? parsed<[place: number, position: Position, body: D][]>(bytes, file, collection) : []
  return rows.map(([place, position, body]) => ({ id: distinct[place] ?? '', position, body }))
}

/** Documents that come as one piece of bytes, which SQLite lets have 1 GB. */
const PIECE = 100

/** A piece of documents: how long each is, and the bytes of all of them. `rows` have an id, a position and a body. */
const pieceOf = (rows: string) => `
  SELECT '[' || group_concat('[' || CAST(position AS INTEGER) || ',' || ifnull(octet_length(id), 0) || ',' ||
      ifnull(octet_length(body), 0) || ']') || ']',
    CAST(group_concat(concat(id, body), '') AS BLOB)
  FROM (${rows})`
type Piece = [lengths: string | null, texts: Bytes | null]

/** The documents of an id range of `file`, on this connection. */
export function selectRange(
  db: Sqlite,
  file: string,
  collection: AnyCollection,
  { after = '', limit }: IdRange,
): RangeDocument[] {
  const rows = `SELECT id, position, body FROM ${documentTable(collection)} WHERE id > ? ORDER BY id LIMIT ?`
  const piece = selectTuples<[string, number], Piece>(db, pieceOf(rows))
  const documents: RangeDocument[] = []
  while (documents.length < limit) {
    const wanted = Math.min(PIECE, limit - documents.length)
    const found = documentsOf(piece.get(documents.at(-1)?.id ?? after, wanted), file, collection)
    documents.push(...found)
    if (found.length < wanted) break
  }
  return documents
}

/** The same for documents with these ids, in no order. */
export function selectTexts<D extends object>(
  db: Sqlite,
  file: string,
  collection: AnyCollection,
  ids: readonly string[],
): RangeDocument<D>[] {
  const rows = `SELECT d.id AS id, position, body
    FROM json_each(?) AS wanted CROSS JOIN ${documentTable(collection)} AS d ON d.id = wanted.value`
  const piece = selectTuples<[string], Piece>(db, pieceOf(rows))
  const documents: RangeDocument<D>[] = []
  for (let start = 0; start < ids.length; start += PIECE) {
    const wanted = JSON.stringify(ids.slice(start, start + PIECE))
    documents.push(...documentsOf<D>(piece.get(wanted), file, collection))
  }
  return documents
}

/** Of each document: its position, and how many bytes its id and its body have. */
type Lengths = [position: Position, id: number, body: number]

/**
 * Documents from their bytes, one after the other: to ask SQLite for them one by one would take four times as long.
 */
function documentsOf<D extends object>(
  [lengths, texts]: Piece = [null, null],
  file: string,
  collection: AnyCollection,
): RangeDocument<D>[] {
  if (lengths === null || texts === null) return []
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
    const document = lazily<D>(
      { id, position, text: buffer.toString(encoding, middle, end) },
      file,
      collection,
    )
    start = end
    return document
  })
}

/**
 * Parsed when somebody looks: whoever compares two of them seldom needs more than the texts. Looking at one that
 * is no JSON throws BrokenFile.
 */
function lazily<D extends object>(
  { id, position, text }: { id: string; position: Position; text: string },
  file: string,
  { name }: AnyCollection,
): RangeDocument<D> {
  return {
    id,
    position,
    text,
    get body(): D {
      try {
        return JSON.parse(text)
      } catch (error) {
        throw new BrokenFile(file, `document ${id} of ${name} is no JSON`, { cause: error })
      }
    },
  }
}
