/**
 * Keeps the tables of a collection of parts, by whose words documents are found. SQLite's full text index (FTS5) finds
 * parts with a word, with a tenth of the write time and space of an index with a row per word. The words of all its
 * parts then show whether a document has every word of a search.
 */
import { asJson, type Sqlite, selectColumn } from '../../../storage/sqlite/sqlite.ts'
import type { Run } from '../../../storage/sqlite/writer.ts'
import type { Element } from '../filter.ts'
import type { AnyCollection } from '../read-store.ts'
import { type ArrayChange, elementsOf } from './arrays.ts'
import { exists, fieldOf, longTexts, partTable, wordIndex } from './tables.ts'

/**
 * Maximum length of a part whose words are stored as one text, in characters: scanning it is as fast as finding a row.
 * A longer part has a row per word.
 */
export const SHORT_TEXT = 2000

/** The tables of a collection of parts, besides its documents. */
export const tablesOfParts = (collection: AnyCollection) =>
  [partTable(collection), wordIndex(collection), longTexts(collection)] as const

/** Returns the field with the words of a part, the only array of its collection. @throws TypeError for more arrays */
function wordsField({ name, arrays }: AnyCollection): string {
  const [field, ...others] = arrays
  if (field === undefined || others.length > 0)
    throw new TypeError(`${name} has parts: their words are one array`)
  return field
}

/** Creates the tables when one is missing, and fills them. Runs in the caller's transaction. */
export function prepareParts(db: Sqlite, collection: AnyCollection, partOf: string): void {
  const { name } = collection
  const field = wordsField(collection)
  db.prepare('INSERT OR REPLACE INTO parts (collection, field, owner) VALUES (?, ?, ?)').run(
    name,
    field,
    partOf,
  )
  const [parts, index, long] = tablesOfParts(collection)
  if (exists(db, parts)) return
  // The index stores no texts: the parts have them. Its tokenizer treats all non-ASCII characters as letters.
  db.exec(`
    CREATE TABLE ${parts} (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, words TEXT);
    CREATE INDEX ${parts}__owner ON ${parts} (owner);
    CREATE VIRTUAL TABLE ${index} USING fts5(words, content = '', contentless_delete = 1, detail = none,
      prefix = '1 2 3', tokenize = 'ascii');
    CREATE TABLE ${long} (part INTEGER, value TEXT, PRIMARY KEY (part, value)) WITHOUT ROWID`)
}

/** The id of the document that a part belongs to; queries never find a part without one. */
export const ownerSql = (partOf: string) => `coalesce(${fieldOf(partOf)}, '')`
/** The words of a part as one text, each after a space. */
export const textSql = (field: string) =>
  `(SELECT coalesce(group_concat(' ' || value, ''), '') FROM json_each(${fieldOf(field)}))`

/** A part as the tables store it. */
interface Part {
  owner: string
  words: readonly Element[]
  /** See `textSql`. */
  text: string
}

/** Sends the statements that update the tables for changes of different parts. */
export function writeParts(run: Run, collection: AnyCollection, changes: readonly ArrayChange[]): void {
  const [parts, index, long] = tablesOfParts(collection)
  const old: string[] = []
  const gone: string[] = []
  const put: { id: string; part: Part }[] = []
  for (const { id, before, after } of changes) {
    const was = before && partIn(collection, before)
    const part = after && partIn(collection, after)
    if (was?.owner === part?.owner && was?.text === part?.text) continue
    if (was !== undefined) old.push(asJson(id))
    if (part === undefined) gone.push(asJson(id))
    else put.push({ id: asJson(id), part })
  }
  if (old.length > 0) {
    const rows = `(SELECT seq FROM ${parts} WHERE id IN ${LIST})`
    run(`DELETE FROM ${index} WHERE rowid IN ${rows}`, `[${old.join()}]`)
    run(`DELETE FROM ${long} WHERE part IN ${rows}`, `[${old.join()}]`)
  }
  if (gone.length > 0) run(`DELETE FROM ${parts} WHERE id IN ${LIST}`, `[${gone.join()}]`)
  if (put.length === 0) return
  const rows = put.map(
    ({ id, part: { owner, text } }) => `[${id},${asJson(owner)},${isShort(text) ? asJson(text) : null}]`,
  )
  run(
    `INSERT INTO ${parts} (id, owner, words) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?) WHERE true
     ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, words = excluded.words`,
    `[${rows.join()}]`,
  )
  const texts = put.map(({ id, part }) => `${id}:${asJson(part.text)}`)
  run(
    `INSERT INTO ${index} (rowid, words)
     SELECT p.seq, text.value FROM json_each(?) AS text CROSS JOIN ${parts} AS p ON p.id = text.key ORDER BY p.seq`,
    `{${texts.join()}}`,
  )
  for (const { id, part } of put.filter(({ part }) => !isShort(part.text))) {
    run(
      `INSERT INTO ${long} (part, value) SELECT p.seq, word.value
       FROM ${parts} AS p, json_each(?) AS word WHERE p.id = ? ->> '$' ORDER BY word.value`,
      JSON.stringify(part.words),
      id,
    )
  }
}

const LIST = '(SELECT value FROM json_each(?))'
const isShort = (text: string) => text.length <= SHORT_TEXT

function partIn(collection: AnyCollection, body: object): Part {
  const owner: unknown = Reflect.get(body, collection.partOf ?? '')
  const words = elementsOf(body, wordsField(collection))
  return {
    owner: typeof owner === 'string' ? owner : '',
    words,
    text: words.length === 0 ? '' : ` ${words.join(' ')}`,
  }
}

/** Returns the names of the word indexes in a file. */
export const wordIndexesIn = (db: Sqlite): string[] =>
  selectColumn<[], string>(db, 'SELECT collection FROM parts')
    .all()
    .map((name) => wordIndex({ name, indexes: [], arrays: [] }))
