/** Changes of documents as statements, one for many documents: one call of the driver per document takes 50 % longer. */
import { LOG_START, type Position } from '../../../events/store/event-store.ts'
import { asJson } from '../../../storage/sqlite/sqlite.ts'
import type { Run } from '../../../storage/sqlite/writer.ts'
import type { AnyCollection, Change, Stored } from '../read-store.ts'
import { type ArrayChange, writeArrays } from './arrays.ts'
import { writeParts } from './full-text.ts'
import { documentTable } from './tables.ts'

/** Maximum number of changes per statement. */
const GROUP_SIZE = 100
/** Maximum size of the documents of a statement, in characters. A larger document is written alone. */
const GROUP_CHARACTERS = 256 * 1024

/** A put with its document as JSON. */
interface Put {
  id: string
  position: number
  body: object
  json: string
  /** As in the change. */
  replaces: object | null | undefined
}

/** Successive changes of one collection, of different documents: they are written together. */
interface Group {
  collection: AnyCollection
  ids: Set<string>
  puts: Put[]
  deletes: string[]
  characters: number
}

/** A document at the end of the transaction; without a body when it is deleted. */
interface Known {
  position: Position
  body: object | undefined
}

/** Writes of earlier groups of a transaction, by collection and id. */
export type Written = Map<string, Map<string, Known>>

const NONE: ReadonlyMap<string, Known> = new Map()

/** Encodes into unshared memory, because a shared buffer would be sent as a whole. */
const encoder = new TextEncoder()

/** Reads the stored documents with these ids. */
export type ReadStored = (collection: AnyCollection, ids: readonly string[]) => Stored<object>[]

/** Groups successive changes of the same collection. A document that changes twice is in two groups. */
export function* groupsOf(changes: readonly Change[]): Generator<Group> {
  let group: Group | undefined
  for (const change of changes) {
    const { collection, id } = change
    const fits =
      group?.collection.name === collection.name &&
      group.ids.size < GROUP_SIZE &&
      group.characters < GROUP_CHARACTERS &&
      !group.ids.has(id)
    if (group === undefined || !fits) {
      if (group !== undefined) yield group
      group = { collection, ids: new Set(), puts: [], deletes: [], characters: 0 }
    }
    group.ids.add(id)
    if (change.op === 'delete') {
      group.deletes.push(id)
      continue
    }
    const { position, body, replaces } = change
    const json = JSON.stringify(body)
    group.characters += json.length
    group.puts.push({ id, position, body, json, replaces })
  }
  if (group !== undefined) yield group
}

/**
 * Returns the group's documents before its changes, for the arrays. Reads those that the changes do not name, which is
 * slow after each write. `written` has those of earlier groups of the transaction, which cannot be read yet.
 */
export function replacedBy(
  { collection, ids, puts }: Group,
  written: Written,
  read: ReadStored,
): ReadonlyMap<string, Known> {
  if (collection.arrays.length === 0) return NONE
  const before = new Map<string, Known>()
  // A put that names the replaced document is a later version of it.
  for (const { id, replaces } of puts) {
    if (replaces !== undefined) before.set(id, { position: LOG_START, body: replaces ?? undefined })
  }
  const wanted = [...ids].filter((id) => {
    const known = written.get(collection.name)?.get(id) ?? before.get(id)
    if (known !== undefined) before.set(id, known)
    return known === undefined
  })
  if (wanted.length === 0) return before
  for (const stored of read(collection, wanted)) before.set(stored.id, stored)
  return before
}

/** Sends the statements that write a group of changes. */
export function writeGroup(
  run: Run,
  { collection, puts, deletes }: Group,
  before: ReadonlyMap<string, Known>,
  written: Written,
): void {
  const table = documentTable(collection)
  const current = puts.filter(({ id, position }) => position >= (before.get(id)?.position ?? 0))
  if (current.length > 0) {
    // The documents are bytes beside the list: SQLite would parse them longer than it inserts them.
    let at = 1
    const places = current.map(({ id, position, json }) => {
      const length = Buffer.byteLength(json)
      const place = `[${asJson(id)},${position},${at},${length}]`
      at += length
      return place
    })
    run(
      `INSERT INTO ${table} (id, position, body)
         SELECT value ->> 0, value ->> 1, CAST(substr(?, value ->> 2, value ->> 3) AS TEXT)
         FROM json_each(?) WHERE true
         ON CONFLICT (id) DO UPDATE SET position = excluded.position, body = excluded.body
         WHERE excluded.position >= position`,
      encoder.encode(current.map(({ json }) => json).join('')),
      `[${places.join()}]`,
    )
  }
  if (deletes.length > 0) {
    const sql = `DELETE FROM ${table} WHERE id IN (SELECT value FROM json_each(?))`
    run(sql, `[${deletes.map(asJson).join()}]`)
  }
  if (collection.arrays.length === 0) return
  const known = written.get(collection.name) ?? new Map<string, Known>()
  written.set(collection.name, known)
  const arrays: ArrayChange[] = []
  for (const { id, position, body } of current) {
    arrays.push({ id, before: before.get(id)?.body, after: body })
    known.set(id, { position, body })
  }
  for (const id of deletes) {
    arrays.push({ id, before: before.get(id)?.body, after: undefined })
    known.set(id, { position: LOG_START, body: undefined })
  }
  if (collection.partOf === undefined) writeArrays(run, collection, arrays)
  else writeParts(run, collection, arrays)
}
