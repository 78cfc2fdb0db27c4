/** The writes of the embedded read store: one transaction at a time, which a thread runs. */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { LOG_START, type Position, StoreUnavailable } from '../events/event-store.ts'
import { asJson, type Durability, isBusy, type Sqlite } from '../sqlite.ts'
import { type Run, threadWriter } from '../sqlite-thread.ts'
import { createTurns } from '../turns.ts'
import type { AnyCollection, Change, Checkpoint, ReadStore, Stored } from './read-store.ts'
import { type ArrayChange, writeArrays } from './sqlite-arrays.ts'
import { dropStatements, prepareCollection, prepareStore, tablesOf } from './sqlite-schema.ts'
import { documentTable } from './sqlite-tables.ts'
import { wordIndexesIn, writeParts } from './sqlite-words.ts'

/** How long a write may block the event loop before it lets requests run, in milliseconds. */
const TURN_MS = 5
/** How long to wait for another process's write to end before the tables are prepared, in milliseconds. */
const LOCK_WAIT_MS = 5000
const LOCK_RETRY_MS = 20

/** The pages that are scrubbed together; meanwhile no other write runs. */
const SCRUB_PAGES = 1000
/** The pages of an index of words that are written together; meanwhile no other write runs. */
const MERGED_PAGES = 500
/** How long to wait for readers of other processes before the WAL is emptied, in milliseconds. */
const READERS_WAIT_MS = 10_000

/** The most changes that one statement writes. */
const GROUP_SIZE = 100
/** The most characters of documents that one statement writes; a single larger document is written alone. */
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

/** A document as it is, or will be when the transaction ends. A deleted one has no body. */
interface Known {
  position: Position
  body: object | undefined
}

/** What earlier groups of a transaction have written, by collection and id. */
type Written = Map<string, Map<string, Known>>

const NONE: ReadonlyMap<string, Known> = new Map()

/** Its bytes share no memory with others, which would be sent with them. */
const encoder = new TextEncoder()

/** The writing half of the store. */
export interface Writes
  extends Pick<ReadStore, 'prepare' | 'clear' | 'drop' | 'apply' | 'moveCheckpoint'>,
    Required<Pick<ReadStore, 'purge'>> {
  /** Refuses new writes and waits for the ones that are under way. The connection stays open. */
  end(): Promise<void>
}

/** Reads the stored documents with these ids. */
export type ReadStored = (collection: AnyCollection, ids: readonly string[]) => Stored<object>[]

/**
 * Prepares the tables and the writes. `db` is only to prepare tables: the thread has a connection of its own. `read` is
 * for what a write replaces. No other process writes to the file, and here one transaction runs at a time.
 * @throws BrokenFile when the file is damaged
 */
export function createWrites(db: Sqlite, file: string, durability: Durability, read: ReadStored): Writes {
  prepareStore(db)
  // No busy timeout: SQLite would block the event loop while it waits for a lock, and `begin` does not.
  db.exec('PRAGMA busy_timeout = 0')
  const thread = threadWriter('views', file, durability)
  const inTurn = createTurns()
  let closed = false

  /** Runs one write at a time. It writes everything or nothing. */
  function write<T>(work: () => Promise<T>): Promise<T> {
    if (closed) return Promise.reject(new StoreUnavailable('the read models are closed'))
    return inTurn('write', async () => {
      try {
        return await work()
      } catch (error) {
        if (db.inTransaction) db.exec('ROLLBACK')
        // A TypeError is a wrong declaration: the caller's mistake, not a failure of the disk.
        // The changes may end with an error of their own.
        throw error instanceof TypeError || error instanceof StoreUnavailable
          ? error
          : unavailable('written', error)
      }
    })
  }

  /**
   * The group's documents before its changes, for the arrays: only these need to know what is replaced. Those that the
   * changes do not name are read: a read after each write takes long. `written` are those of earlier groups of the same
   * transaction, which cannot be read yet.
   */
  function replacedBy({ collection, ids, puts }: Group, written: Written): ReadonlyMap<string, Known> {
    if (collection.arrays.length === 0) return NONE
    const before = new Map<string, Known>()
    // Who knows the document before has made a later one of it.
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

  /** In parts: other writes run in between. What they free is overwritten at once, so nothing is missed. */
  async function purgeFile(): Promise<void> {
    for (const index of wordIndexesIn(db)) {
      // The first time, all parts of the index are told to become one. Words of deleted texts are left out then.
      for (let pages = -MERGED_PAGES; await write(() => thread.merge(index, pages)); pages = MERGED_PAGES);
    }
    for (let page = 1; page > 0; ) {
      const first = page
      page = await write(() => thread.scrub(first, SCRUB_PAGES))
    }
    const deadline = performance.now() + READERS_WAIT_MS
    while (!(await write(() => thread.truncate()))) {
      if (performance.now() > deadline) {
        throw new StoreUnavailable(
          `another process reads ${file}: what was deleted stays in its WAL until then`,
        )
      }
      await delay(LOCK_RETRY_MS)
    }
  }

  return {
    prepare: (collections) =>
      write(async () => {
        await begin(db)
        for (const collection of collections) prepareCollection(db, collection)
        db.exec('COMMIT')
      }),
    async clear(collection) {
      await write(() =>
        thread.transaction(async (run) => {
          for (const table of tablesOf(collection)) run(`DELETE FROM ${table}`)
        }),
      )
    },
    async drop(collection) {
      await write(() =>
        thread.transaction(async (run) => {
          for (const sql of dropStatements(collection)) run(sql)
        }),
      )
    },
    moveCheckpoint: (name, before, after) =>
      write(async () => {
        const changed = await thread.transaction(async (run) => {
          const { position, version } = after
          if (before === undefined) {
            const sql = 'INSERT OR IGNORE INTO checkpoints (name, position, version) VALUES (?, ?, ?)'
            return run(sql, name, position, version)
          }
          const sql = `UPDATE checkpoints SET position = ?, version = ?
            WHERE name = ? AND position = ? AND version = ?`
          run(sql, position, version, name, before.position, before.version)
        })
        return changed === 1
      }),
    async apply(changes, checkpoints) {
      await write(() =>
        thread.transaction(async (run, flush) => {
          const written: Written = new Map()
          let turn = performance.now()
          for await (const list of Symbol.asyncIterator in changes ? changes : [changes]) {
            for (const group of groupsOf(list)) {
              writeGroup(run, group, replacedBy(group, written), written)
              if (performance.now() - turn < TURN_MS) continue
              await nextTurn()
              turn = performance.now()
            }
            // The thread writes these while the next ones are made.
            flush()
          }
          writeCheckpoints(run, checkpoints)
        }),
      )
    },
    purge: shared(purgeFile),
    async end() {
      closed = true
      await inTurn('write', () => thread.close())
    },
  }
}

/** Sends the statements that write a group of changes. */
function writeGroup(
  run: Run,
  { collection, puts, deletes }: Group,
  before: ReadonlyMap<string, Known>,
  written: Written,
): void {
  const table = documentTable(collection)
  const current = puts.filter(({ id, position }) => position >= (before.get(id)?.position ?? 0))
  if (current.length > 0) {
    // One statement for many documents: to call the driver for each one takes half as long again. The documents are
    // bytes beside the list, which say nothing to SQLite: to read them as JSON takes longer than to insert them.
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

function writeCheckpoints(run: Run, checkpoints: ReadonlyMap<string, Checkpoint>): void {
  if (checkpoints.size === 0) return
  const rows = [...checkpoints].map(([name, { position, version, event = null }]) => [
    name,
    position,
    version,
    event,
  ])
  run(
    `INSERT INTO checkpoints (name, position, version, event)
       SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?) WHERE true
       ON CONFLICT (name) DO UPDATE SET position = excluded.position, version = excluded.version, event = excluded.event`,
    JSON.stringify(rows),
  )
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

/** Groups successive changes of the same collection. A document that changes twice is in two groups. */
function* groupsOf(changes: readonly Change[]): Generator<Group> {
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

/** Runs `work` for all who ask for it before it begins: one run at a time, and one that waits. */
function shared(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined
  const start = () => {
    next = undefined
    running = work().finally(() => {
      running = undefined
    })
    return running
  }
  return () => {
    if (running === undefined) return start()
    next ??= running.then(start, start)
    return next
  }
}

/** The error of a read or write that SQLite refused. */
export function unavailable(done: 'read' | 'written', error: unknown): StoreUnavailable {
  const reason = error instanceof Error ? error.message : String(error)
  return new StoreUnavailable(`the read models can't be ${done}: ${reason}`, { cause: error })
}
