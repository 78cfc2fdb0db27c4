/** The writes of the embedded read store: one transaction at a time, in small steps that let requests run. */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { StoreUnavailable } from '../events/event-store.ts'
import { type Bytes, isBusy, type Sqlite, select } from '../sqlite.ts'
import { createTurns } from '../turns.ts'
import { type Element, isElement } from './filter.ts'
import type { AnyCollection, Change, ReadStore } from './read-store.ts'
import { parsed } from './sqlite-documents.ts'
import { arrayTable, type Bindable, documentTable } from './sqlite-query.ts'
import { prepareCollection, SCHEMA } from './sqlite-schema.ts'
import { cachedStatements } from './sqlite-statements.ts'

/** How long a write may block the event loop before it lets requests run, in milliseconds. */
const TURN_MS = 5
/** How long a write waits for another process's write to end, in milliseconds. */
const LOCK_WAIT_MS = 5000
const LOCK_RETRY_MS = 20

/** A change with its document as JSON. A document that cannot be JSON fails before the first write. */
type Write =
  | { op: 'put'; collection: AnyCollection; id: string; position: number; body: object; json: string }
  | { op: 'delete'; collection: AnyCollection; id: string }

/** The writing half of the store. */
export interface Writes extends Pick<ReadStore, 'prepare' | 'clear' | 'apply'> {
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
  const replaced = cachedStatements((sql) =>
    select<Bindable[], { position: number; body: Bytes }>(writer, sql),
  )
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

  /** Writes one change. Yields after each step, where requests may run. */
  function* write(change: Write): Generator<undefined> {
    const table = documentTable(change.collection)
    const { id, collection } = change
    const before =
      collection.arrays.length > 0
        ? replaced(`SELECT position, CAST(body AS BLOB) AS body FROM ${table} WHERE id = ?`).get(id)
        : undefined
    if (change.op === 'delete') {
      statement(`DELETE FROM ${table} WHERE id = ?`).run(id)
      if (before !== undefined) yield* writeArrays(collection, id, objectOf(before.body, collection), {})
      return
    }
    if (before !== undefined && before.position > change.position) return
    statement(
      `INSERT INTO ${table} (id, position, body) VALUES (?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET position = excluded.position, body = excluded.body
         WHERE excluded.position >= position`,
    ).run(id, change.position, change.json)
    if (collection.arrays.length > 0) {
      yield* writeArrays(
        collection,
        id,
        before === undefined ? {} : objectOf(before.body, collection),
        change.body,
      )
    }
    yield
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
      // A chunk is one statement: a few dozen words take one step, tens of thousands take several.
      for (const chunk of chunks(removed)) {
        statement(
          `DELETE FROM ${table} WHERE field = ? AND id = ? AND value IN (SELECT value FROM json_each(?))`,
        ).run(field, id, JSON.stringify(chunk))
        yield
      }
      for (const chunk of chunks(added)) {
        statement(
          `INSERT OR IGNORE INTO ${table} (field, id, value) SELECT ?, ?, value FROM json_each(?)`,
        ).run(field, id, JSON.stringify(chunk))
        yield
      }
    }
  }

  const objectOf = (bytes: Bytes, collection: AnyCollection) => parsed<object>(bytes, file, collection)

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
    async apply(changes, checkpoints) {
      const writes = changes.map(toWrite)
      await transaction(async () => {
        let turn = performance.now()
        for (const change of writes) {
          for (const _ of write(change)) {
            if (performance.now() - turn < TURN_MS) continue
            await nextTurn()
            turn = performance.now()
          }
        }
        for (const [name, { position, version }] of checkpoints) {
          statement(
            `INSERT INTO checkpoints (name, position, version) VALUES (?, ?, ?)
               ON CONFLICT (name) DO UPDATE SET position = excluded.position, version = excluded.version`,
          ).run(name, position, version)
        }
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

function toWrite(change: Change): Write {
  documentTable(change.collection)
  return change.op === 'put' ? { json: JSON.stringify(change.body), ...change } : change
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

const CHUNK_SIZE = 1000

function chunks(elements: readonly Element[]): Element[][] {
  const parts: Element[][] = []
  for (let i = 0; i < elements.length; i += CHUNK_SIZE) parts.push(elements.slice(i, i + CHUNK_SIZE))
  return parts
}
