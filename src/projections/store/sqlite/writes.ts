/** The writes of the embedded read store: one transaction at a time, which a thread runs. */
import { setTimeout as delay, setImmediate as nextIteration } from 'node:timers/promises'
import { nextRun } from '../../../concurrency/coalesce.ts'
import { createKeyedMutex } from '../../../concurrency/keyed-mutex.ts'
import { StoreUnavailable } from '../../../events/store/event-store.ts'
import { type Durability, isBusy, LOCK_WAIT_MS, type Sqlite } from '../../../storage/sqlite/sqlite.ts'
import { type Run, threadWriter } from '../../../storage/sqlite/writer.ts'
import type { Checkpoint, ReadStore } from '../read-store.ts'
import { wordIndexesIn } from './full-text.ts'
import { groupsOf, type ReadStored, replacedBy, type Written, writeGroup } from './groups.ts'
import { dropStatements, prepareCollection, prepareStore, tablesOf } from './schema.ts'

/** Time after which a write yields to requests, in milliseconds. */
const SLICE_MS = 5
const LOCK_RETRY_MS = 20

/** The first page has only the schema. */
const FIRST_PAGE_WITH_ROWS = 2
/** Number of pages that are scrubbed at a time, during which no other write runs. */
const SCRUB_PAGES = 1000
/** Number of pages of a full text index that are merged at a time, during which no other write runs. */
const MERGED_PAGES = 500
/** Time to wait for readers, in milliseconds. READ_TIMEOUT_MS limits long reads of this server. */
const READERS_WAIT_MS = 60_000

/** The writing half of the store. */
export interface Writes
  extends Pick<ReadStore, 'prepare' | 'clear' | 'drop' | 'apply' | 'moveCheckpoint'>,
    Required<Pick<ReadStore, 'purge'>> {
  /** Refuses new writes and waits for running ones. The connection stays open. */
  end(): Promise<void>
}

/**
 * Prepares the tables and the writes. `db` is used only for tables: the thread has its own connection. `read` reads
 * replaced documents. Only this process writes to the file, one transaction at a time.
 * @throws BrokenFile when the file is damaged
 */
export function createWrites(db: Sqlite, file: string, durability: Durability, read: ReadStored): Writes {
  prepareStore(db)
  // No busy timeout: SQLite would block the event loop while it waits for a lock, and `begin` does not.
  db.exec('PRAGMA busy_timeout = 0')
  const thread = threadWriter('views', file, durability)
  const runExclusive = createKeyedMutex()
  let closed = false

  /** Runs one write at a time, atomically. */
  function write<T>(work: () => Promise<T>): Promise<T> {
    if (closed) return Promise.reject(new StoreUnavailable('the read models are closed'))
    return runExclusive('write', async () => {
      try {
        return await work()
      } catch (error) {
        if (db.isTransaction) db.exec('ROLLBACK')
        // A TypeError is a wrong declaration of the caller. The changes may end with their own error.
        throw error instanceof TypeError || error instanceof StoreUnavailable
          ? error
          : unavailable('written', error)
      }
    })
  }

  /** Purges in steps, with other writes in between, which overwrite the pages that they free. */
  async function purgeFile(): Promise<void> {
    for (const index of wordIndexesIn(db)) {
      // The first call merges all segments of the index, which drops the words of deleted texts.
      for (let pages = -MERGED_PAGES; await write(() => thread.merge(index, pages)); pages = MERGED_PAGES);
    }
    for (let page = FIRST_PAGE_WITH_ROWS; page > 0; ) {
      const first = page
      page = await withoutReaders(() => thread.scrub(first, SCRUB_PAGES))
    }
    await withoutReaders(async () => (await thread.truncate()) || undefined)
  }

  /** Repeats a write until no reader blocks it and it resolves to a value. */
  async function withoutReaders<T>(work: () => Promise<T | undefined>): Promise<T> {
    const deadline = performance.now() + READERS_WAIT_MS
    for (;;) {
      const done = await write(work)
      if (done !== undefined) return done
      if (performance.now() > deadline) {
        throw new StoreUnavailable(`${file} has readers, so deleted data stays in it for now`)
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
          let sliceStart = performance.now()
          for await (const list of Symbol.asyncIterator in changes ? changes : [changes]) {
            for (const group of groupsOf(list)) {
              writeGroup(run, group, replacedBy(group, written, read), written)
              if (performance.now() - sliceStart < SLICE_MS) continue
              await nextIteration()
              sliceStart = performance.now()
            }
            // The thread writes these while the next ones are prepared.
            flush()
          }
          writeCheckpoints(run, checkpoints)
        }),
      )
    },
    // Pages that are freed during a purge are left to the next one.
    purge: nextRun(purgeFile),
    async end() {
      closed = true
      await runExclusive('write', () => thread.close())
    },
  }
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

/** The error of a read or write that SQLite refused. */
export function unavailable(done: 'read' | 'written', error: unknown): StoreUnavailable {
  const reason = error instanceof Error ? error.message : String(error)
  return new StoreUnavailable(`the read models can't be ${done}: ${reason}`, { cause: error })
}
