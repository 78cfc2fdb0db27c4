/** The writes of the embedded read store: one transaction at a time, in small steps that let requests run. */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { StoreUnavailable } from '../events/event-store.ts'
import { type Bytes, isBusy, type Sqlite, selectColumn } from '../sqlite.ts'
import { createTurns } from '../turns.ts'
import { type Element, isElement } from './filter.ts'
import type { AnyCollection, Change, Checkpoint, ReadStore } from './read-store.ts'
import { selectCheckpoint, selectMany } from './sqlite-documents.ts'
import { arrayTable, type Bindable, documentTable } from './sqlite-query.ts'
import { dropCollection, prepareCollection, SCHEMA } from './sqlite-schema.ts'
import { cachedStatements } from './sqlite-statements.ts'

/** How long a write may block the event loop before it lets requests run, in milliseconds. */
const TURN_MS = 5
/** How long a write waits for another process's write to end, in milliseconds. */
const LOCK_WAIT_MS = 5000
const LOCK_RETRY_MS = 20
/** The most elements of an array that one statement writes. */
const CHUNK_SIZE = 1000

/** The most changes that one statement writes: about 2 ms of work. */
const GROUP_SIZE = 100
/** The most characters of documents that one statement writes; a single larger document is written alone. */
const GROUP_CHARACTERS = 256 * 1024

/** A put with its document as JSON. A document that cannot be JSON fails before the first write. */
interface Put {
  id: string
  position: number
  body: object
  json: string
}

/** Successive changes of one collection, of different documents: they are written together. */
interface Group {
  collection: AnyCollection
  ids: Set<string>
  puts: Put[]
  deletes: string[]
  characters: number
}

/** The writing half of the store. */
export interface Writes extends Pick<ReadStore, 'prepare' | 'clear' | 'drop' | 'apply' | 'moveCheckpoint'> {
  /** Refuses new writes and waits for the ones that are under way. The connection stays open. */
  end(): Promise<void>
}

/** Prepares the tables and the writes on their own connection. @throws BrokenFile when the file is damaged */
export function createWrites(writer: Sqlite, file: string): Writes {
  writer.exec(SCHEMA)
  // No busy timeout: SQLite would block the event loop while it waits for a lock, and `begin` does not. More memory and
  // fewer checkpoints: a rebuild writes to many indexes. With SQLite's defaults (2 MiB of pages in memory, a checkpoint
  // every 4 MiB) it would write the same pages many times.
  writer.exec('PRAGMA busy_timeout = 0; PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 8000')
  const statement = cachedStatements((sql) => writer.prepare(sql))
  /** Reads what a write replaces. On the writer's connection, since the same transaction may have written it. */
  const replaced = cachedStatements((sql) => selectColumn<Bindable[], Bytes | null>(writer, sql))
  const inTurn = createTurns()
  let closed = false

  /** Runs one transaction at a time. It writes everything or nothing. */
  function transaction(work: () => Promise<void>): Promise<void> {
    if (closed) return Promise.reject(new StoreUnavailable('the read models are closed'))
    return inTurn('write', async () => {
      try {
        await begin(writer)
        await work()
        writer.exec('COMMIT')
      } catch (error) {
        if (writer.inTransaction) writer.exec('ROLLBACK')
        // A TypeError is a wrong declaration: the caller's mistake, not a failure of the disk.
        throw error instanceof TypeError ? error : unavailable('written', error)
      }
    })
  }

  /** Writes a group of changes. Yields after each step, where requests may run. */
  function* write({ collection, ids, puts, deletes }: Group): Generator<undefined> {
    const table = documentTable(collection)
    const replacedBy = (sql: string, parameter: string) => replaced(sql).get(parameter)
    // Only the arrays need to know what is replaced.
    const before = new Map(
      collection.arrays.length === 0
        ? []
        : selectMany<object>(file, collection, [...ids], replacedBy).map((stored) => [stored.id, stored]),
    )
    const current = puts.filter(({ id, position }) => position >= (before.get(id)?.position ?? 0))
    if (current.length > 0) {
      // One statement for many documents: to call the driver for each one takes half as long again.
      const rows = current.map(({ id, position, json }) => `[${asJson(id)},${position},${json}]`)
      statement(
        `INSERT INTO ${table} (id, position, body)
           SELECT value ->> 0, value ->> 1, value -> 2 FROM json_each(?) WHERE true
           ON CONFLICT (id) DO UPDATE SET position = excluded.position, body = excluded.body
           WHERE excluded.position >= position`,
      ).run(`[${rows.join()}]`)
      yield
    }
    if (deletes.length > 0) {
      const sql = `DELETE FROM ${table} WHERE id IN (SELECT value FROM json_each(?))`
      statement(sql).run(`[${deletes.map(asJson).join()}]`)
      yield
    }
    if (collection.arrays.length === 0) return
    for (const { id, body } of current) yield* writeArrays(collection, id, before.get(id)?.body ?? {}, body)
    for (const id of deletes) yield* writeArrays(collection, id, before.get(id)?.body ?? {}, {})
  }

  /** Updates the array tables. Writes only the difference: a long list often changes by one or two elements. */
  function* writeArrays(
    collection: AnyCollection,
    id: string,
    before: object,
    after: object,
  ): Generator<undefined> {
    const table = arrayTable(collection)
    for (const field of collection.arrays) {
      const old = elementsOf(before, field)
      const now = elementsOf(after, field)
      const removed = [...old].filter((value) => !now.has(value))
      const added = [...now].filter((value) => !old.has(value))
      const { partOf } = collection
      const [and, column, ask] = partOf === undefined ? ['', '', ''] : [' AND owner = ?', ', owner', ', ?']
      const remove = `DELETE FROM ${table}
        WHERE field = ? AND id = ?${and} AND value IN (SELECT value FROM json_each(?))`
      const add = `INSERT OR IGNORE INTO ${table} (field, id${column}, value)
        SELECT ?, ?${ask}, value FROM json_each(?)`
      for (const [sql, values, of] of [[remove, removed, before] as const, [add, added, after] as const]) {
        const owner = partOf === undefined ? [] : [ownerIn(of, partOf)]
        // A chunk is one statement: a few dozen words take one step, tens of thousands take several.
        for (let i = 0; i < values.length; i += CHUNK_SIZE) {
          statement(sql).run(field, id, ...owner, JSON.stringify(values.slice(i, i + CHUNK_SIZE)))
          yield
        }
      }
    }
  }

  const readCheckpoint = selectCheckpoint(writer)

  function writeCheckpoint(name: string, { position, version }: Checkpoint): void {
    statement(
      `INSERT INTO checkpoints (name, position, version) VALUES (?, ?, ?)
         ON CONFLICT (name) DO UPDATE SET position = excluded.position, version = excluded.version`,
    ).run(name, position, version)
  }

  return {
    prepare: (collections) =>
      transaction(async () => {
        for (const collection of collections) prepareCollection(writer, collection)
      }),
    async clear(collection) {
      const tables = [documentTable(collection), arrayTable(collection)]
      await transaction(async () => {
        for (const table of tables) writer.exec(`DELETE FROM ${table}`)
      })
    },
    async drop(collection) {
      await transaction(async () => dropCollection(writer, collection))
    },
    async moveCheckpoint(name, before, { position, version }) {
      let moved = false
      await transaction(async () => {
        const now = readCheckpoint(name)
        moved = now?.position === before?.position && now?.version === before?.version
        if (moved) writeCheckpoint(name, { position, version })
      })
      return moved
    },
    async apply(changes, checkpoints) {
      const groups = groupsOf(changes)
      await transaction(async () => {
        let turn = performance.now()
        for (const group of groups) {
          for (const _ of write(group)) {
            if (performance.now() - turn < TURN_MS) continue
            await nextTurn()
            turn = performance.now()
          }
        }
        for (const [name, checkpoint] of checkpoints) writeCheckpoint(name, checkpoint)
      })
    },
    async end() {
      closed = true
      await inTurn('write', async () => {})
    },
  }
}

/** Begins a transaction. Waits for the lock of another process without blocking the event loop. */
async function begin(db: Sqlite): Promise<void> {
  const deadline = performance.now() + LOCK_WAIT_MS
  for (;;) {
    try {
      db.exec('BEGIN IMMEDIATE')
      return
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw error
      await delay(LOCK_RETRY_MS)
    }
  }
}

/** An id as JSON. Half of a character is replaced, as the driver does: SQLite would store text that is not UTF-8. */
const asJson = (id: string) => JSON.stringify(Buffer.from(id).toString())

/** Groups successive changes of the same collection. A document that changes twice is in two groups. */
function groupsOf(changes: readonly Change[]): Group[] {
  const groups: Group[] = []
  let group: Group | undefined
  for (const change of changes) {
    const { collection, id } = change
    const fits =
      group?.collection.name === collection.name &&
      group.ids.size < GROUP_SIZE &&
      group.characters < GROUP_CHARACTERS &&
      !group.ids.has(id)
    if (group === undefined || !fits) {
      group = { collection, ids: new Set(), puts: [], deletes: [], characters: 0 }
      groups.push(group)
    }
    group.ids.add(id)
    if (change.op === 'delete') {
      group.deletes.push(id)
      continue
    }
    const json = JSON.stringify(change.body)
    group.characters += json.length
    group.puts.push({ id, position: change.position, body: change.body, json })
  }
  return groups
}

/** The id of the document that a part belongs to. A part without one is found by no query. */
function ownerIn(body: object, partOf: string): string {
  const owner: unknown = Reflect.get(body, partOf)
  return typeof owner === 'string' ? owner : ''
}

function elementsOf(body: object, field: string): Set<Element> {
  const value: unknown = Reflect.get(body, field)
  return new Set(Array.isArray(value) ? value.filter(isElement) : [])
}

/** The error of a read or write that SQLite refused. */
export function unavailable(done: 'read' | 'written', error: unknown): StoreUnavailable {
  const reason = error instanceof Error ? error.message : String(error)
  return new StoreUnavailable(`the read models can't be ${done}: ${reason}`, { cause: error })
}
