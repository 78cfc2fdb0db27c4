/** The embedded read store: one SQLite file, a table of JSON documents per collection, indexes on expressions. */

import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { StoreUnavailable } from '../events/event-store.ts'
import {
  type Bytes,
  closeOnError,
  type Durability,
  isBusy,
  openSqlite,
  type Sqlite,
  select,
  selectColumn,
} from '../sqlite.ts'
import { createTurns } from '../turns.ts'
import { type Condition, type Element, isElement, type Page, readFilter, readPage } from './filter.ts'
import type {
  AnyCollection,
  Change,
  Checkpoint,
  Collection,
  Filter,
  FindOptions,
  ReadStore,
} from './read-store.ts'
import { listOf, parsed, selectMany, selectRange } from './sqlite-documents.ts'
import {
  arrayTable,
  type Bindable,
  countHits,
  documentTable,
  type Hits,
  hitsOf,
  selectCount,
  selectIds,
  selectPage,
} from './sqlite-query.ts'
import { prepareCollection, SCHEMA } from './sqlite-schema.ts'
import { openSqliteSnapshot } from './sqlite-snapshot.ts'

/** A set of documents up to this size is cheaper to look at than all that there are. */
const FEW = 1000
/** Of a filter with many array values, so many are looked at for a small set to begin with. */
const CANDIDATES = 10
/** How long a write may hold the event loop before requests have a turn, in milliseconds. */
const TURN_MS = 5
/** How long a write waits for another process to finish its own, in milliseconds. */
const LOCK_WAIT_MS = 5000
const LOCK_RETRY_MS = 20
const STATEMENTS = 200

/** A change whose document is JSON text already, so that a bad one fails before the first write. */
type Write =
  | { op: 'put'; collection: AnyCollection; id: string; position: number; body: object; json: string }
  | { op: 'delete'; collection: AnyCollection; id: string }

/**
 * Opens (or makes) the read models in `file`. Not `:memory:`: reads have a connection of their own, and so
 * never see half of an `apply`.
 */
export function openSqliteReadStore(file: string, durability: Durability = 'NORMAL'): ReadStore {
  const writer = openSqlite(file, durability)
  closeOnError(file, [writer], () => writer.exec(SCHEMA))
  // SQLite would hold the event loop while it waits for a lock; `begin` does not. A rebuild writes all over many
  // indexes: with SQLite's own 2 MiB of pages and a checkpoint every 4 MiB it would write each page again and again.
  writer.exec('PRAGMA busy_timeout = 0; PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 8000')
  const reader = openSqlite(file, durability)

  const query = {
    text: cached((sql) => selectColumn<Bindable[], string>(reader, sql)),
    /** Documents, as `CAST(… AS BLOB)`: those of a list as one JSON array, which is cheaper than one by one. */
    json: cached((sql) => selectColumn<Bindable[], Bytes | null>(reader, sql)),
    count: cached((sql) => selectColumn<Bindable[], number>(reader, sql)),
    checkpoint: select<[string], Checkpoint>(
      reader,
      'SELECT position, version FROM checkpoints WHERE name = ?',
    ),
    /** What a write replaces: read on the writer's connection, since this transaction may have written it. */
    replaced: cached((sql) => select<Bindable[], { position: number; body: Bytes }>(writer, sql)),
    write: cached((sql) => writer.prepare(sql)),
  }
  const inTurn = createTurns()
  let closed = false

  function read<T>(run: () => T): T {
    if (closed) throw new StoreUnavailable('the read models are closed')
    try {
      return run()
    } catch (error) {
      throw unavailable('read', error)
    }
  }

  /** One transaction at a time; all of it is written, or nothing. */
  function transaction(work: () => Promise<void>): Promise<void> {
    if (closed) return Promise.reject(new StoreUnavailable('the read models are closed'))
    return inTurn('write', async () => {
      try {
        await begin(writer)
        await work()
        writer.exec('COMMIT')
      } catch (error) {
        if (writer.inTransaction) writer.exec('ROLLBACK')
        // A wrong declaration is the caller's fault, not the disk's.
        throw error instanceof TypeError ? error : unavailable('written', error)
      }
    })
  }

  /** Yields where others may have a turn. */
  function* write(change: Write): Generator<undefined> {
    const table = documentTable(change.collection)
    const { id, collection } = change
    const before =
      collection.arrays.length > 0
        ? query.replaced(`SELECT position, CAST(body AS BLOB) AS body FROM ${table} WHERE id = ?`).get(id)
        : undefined
    if (change.op === 'delete') {
      query.write(`DELETE FROM ${table} WHERE id = ?`).run(id)
      if (before !== undefined) yield* writeArrays(collection, id, objectOf(before.body, collection), {})
      return
    }
    if (before !== undefined && before.position > change.position) return
    query
      .write(
        `INSERT INTO ${table} (id, position, body) VALUES (?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET position = excluded.position, body = excluded.body
         WHERE excluded.position >= position`,
      )
      .run(id, change.position, change.json)
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

  /** Long lists change by an element or two: only the difference is written. */
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
      const gone = [...old].filter((value) => !now.has(value))
      const come = [...now].filter((value) => !old.has(value))
      // Dozens of words that come with a text are one statement; tens of thousands are several turns.
      for (const part of chunks(gone)) {
        query
          .write(
            `DELETE FROM ${table} WHERE field = ? AND id = ? AND value IN (SELECT value FROM json_each(?))`,
          )
          .run(field, id, JSON.stringify(part))
        yield
      }
      for (const part of chunks(come)) {
        query
          .write(`INSERT OR IGNORE INTO ${table} (field, id, value) SELECT ?, ?, value FROM json_each(?)`)
          .run(field, id, JSON.stringify(part))
        yield
      }
    }
  }

  /**
   * A set of documents up to this size is cheaper to fetch and sort than the sort's index is to walk until a
   * page of `wanted` is full: fetching one costs about as much as passing four by, and of n matches among N
   * documents each is found after N / n.
   */
  function fewFor(collection: AnyCollection, { skip, limit }: Page): number {
    if (limit === null) return FEW
    const documents =
      query.count(`SELECT coalesce(max(rowid), 0) FROM ${documentTable(collection)}`).get() ?? 0
    return Math.min(FEW, Math.sqrt(((skip + limit) * documents) / 4))
  }

  /** The smallest set of documents that an array condition names, when it is small enough to begin with. */
  function startOf(
    collection: AnyCollection,
    conditions: readonly Condition[],
    few: number,
  ): Hits | undefined {
    let fewest: { hits: Hits; n: number } | undefined
    for (const hits of hitsOf(collection, conditions).slice(0, CANDIDATES)) {
      const { text, values } = countHits(hits, fewest?.n ?? Math.floor(few) + 1)
      const n = query.count(text).get(...values) ?? 0
      if (n <= few && (fewest === undefined || n < fewest.n)) fewest = { hits, n }
      if (n === 0) break
    }
    return fewest?.hits
  }

  const objectOf = (bytes: Bytes, collection: AnyCollection) => parsed<object>(bytes, file, collection)

  return {
    async get<D extends object>(collection: Collection<D>, id: string) {
      const sql = `SELECT CAST(body AS BLOB) FROM ${documentTable(collection)} WHERE id = ?`
      return read(() => {
        const bytes = query.json(sql).get(id) ?? undefined
        return bytes && parsed<D>(bytes, file, collection)
      })
    },
    async getMany(collection, ids) {
      return read(() => selectMany(file, collection, ids, (sql, parameter) => query.json(sql).get(parameter)))
    },
    async find<D extends object>(collection: Collection<D>, filter: Filter<D>, options: FindOptions<D> = {}) {
      const conditions = readFilter(collection, filter)
      const page = readPage(options)
      return read(() => {
        const start = startOf(collection, conditions, fewFor(collection, page))
        const sql = selectPage(collection, conditions, page, start)
        const bytes = query.json(`SELECT ${listOf('body')} FROM (${sql.text})`).get(...sql.values)
        return bytes ? parsed<D[]>(bytes, file, collection) : []
      })
    },
    async count(collection, filter) {
      const conditions = readFilter(collection, filter)
      return read(() => {
        const sql = selectCount(collection, conditions, startOf(collection, conditions, FEW))
        return query.count(sql.text).get(...sql.values) ?? 0
      })
    },
    async ids(collection, filter) {
      const conditions = readFilter(collection, filter)
      return read(() => {
        const sql = selectIds(collection, conditions, startOf(collection, conditions, FEW))
        return query.text(sql.text).all(...sql.values)
      })
    },
    async range(collection, range) {
      return read(() => selectRange(reader, file, collection, range))
    },
    async snapshot() {
      return read(() => openSqliteSnapshot(file))
    },
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
    async checkpoint(name) {
      const row = read(() => query.checkpoint.get(name))
      return row && { position: row.position, version: row.version }
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
          query
            .write(
              `INSERT INTO checkpoints (name, position, version) VALUES (?, ?, ?)
               ON CONFLICT (name) DO UPDATE SET position = excluded.position, version = excluded.version`,
            )
            .run(name, position, version)
        }
      })
    },
    async ping() {
      read(() => query.checkpoint.get(''))
    },
    async close() {
      if (closed) return
      closed = true
      await inTurn('write', async () => {})
      reader.close()
      writer.close()
    },
  }
}

/** Statements are prepared once for each SQL text; the least used are forgotten. */
function cached<Statement extends object>(prepare: (sql: string) => Statement): (sql: string) => Statement {
  const statements = new LRUCache<string, Statement>({ max: STATEMENTS })
  return (sql) => {
    const known = statements.get(sql)
    if (known !== undefined) return known
    const statement = prepare(sql)
    statements.set(sql, statement)
    return statement
  }
}

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

function unavailable(done: 'read' | 'written', error: unknown): StoreUnavailable {
  const reason = error instanceof Error ? error.message : String(error)
  return new StoreUnavailable(`the read models can't be ${done}: ${reason}`, { cause: error })
}

const CHUNK = 1000

function chunks(elements: readonly Element[]): Element[][] {
  const parts: Element[][] = []
  for (let i = 0; i < elements.length; i += CHUNK) parts.push(elements.slice(i, i + CHUNK))
  return parts
}
