/** The thread program of `writer.ts`. It runs one step of a writer at a time. */
import { close, fdatasync, open } from 'node:fs'
import type { StatementSync } from 'node:sqlite'
import { workerData } from 'node:worker_threads'
import { serveRequests } from '../request-thread.ts'
import { emptyWal, mergeIndex, scrubPages } from './scrub.ts'
import { closeOnError, openSqlite, type Sqlite } from './sqlite.ts'
import type { Step, WriterData, WriterStep } from './writer.ts'

/** Maximum number of prepared statements per connection. */
const MAX_STATEMENTS = 200

interface Connection {
  file: string
  db: Sqlite
  statements: Map<string, StatementSync>
  /** Rows that the last statement changed. */
  changes: number
  /** Number of transactions that may not be on disk yet. */
  unsynced: number
  isSyncing: boolean
}

const { settings, syncedTransactions }: WriterData = workerData
/** By writer. */
const connections = new Map<number, Connection>()
/** The error of each writer's open transaction, whose remaining statements are skipped. */
const failures = new Map<number, unknown>()

function opened({ writer, file, durability }: WriterStep): Connection {
  const known = connections.get(writer)
  if (known !== undefined) return known
  const db = openSqlite(file, durability)
  closeOnError(file, [db], () => db.exec(settings))
  // With FULL, a transaction is on disk when it ends; with OFF, durability is not needed.
  const unsynced = durability === 'NORMAL' ? 0 : Number.NEGATIVE_INFINITY
  const connection = { file, db, statements: new Map(), changes: 0, unsynced, isSyncing: false }
  connections.set(writer, connection)
  return connection
}

function prepared({ db, statements }: Connection, sql: string): StatementSync {
  const known = statements.get(sql)
  if (known !== undefined) return known
  if (statements.size >= MAX_STATEMENTS) statements.clear()
  const statement = db.prepare(sql)
  // Ids of text parts may exceed JavaScript's safe integers: Node 26 would fail to report the last one as a number.
  statement.setReadBigInts(true)
  statements.set(sql, statement)
  return statement
}

/** Syncs the WAL. Best effort: the next checkpoint syncs in any case. */
function sync(connection: Connection): void {
  connection.isSyncing = true
  connection.unsynced = 0
  const end = () => {
    connection.isSyncing = false
  }
  open(`${connection.file}-wal`, 'r', (error, wal) => {
    if (error) end()
    else fdatasync(wal, () => close(wal, end))
  })
}

function write(
  connection: Connection,
  { isFirst, statements, isLast }: Extract<Step, { kind: 'write' }>,
): number {
  const { db } = connection
  if (isFirst) {
    connection.changes = 0
    db.exec('BEGIN IMMEDIATE')
  }
  for (const [sql, ...parameters] of statements) {
    connection.changes = Number(prepared(connection, sql).run(...parameters).changes)
  }
  if (isLast) {
    db.exec('COMMIT')
    connection.unsynced += 1
    if (connection.unsynced >= syncedTransactions && !connection.isSyncing) sync(connection)
  }
  return connection.changes
}

function undo({ db }: Connection): void {
  if (db.isTransaction) db.exec('ROLLBACK')
}

function end(writer: number, { db }: Connection): void {
  connections.delete(writer)
  try {
    // Closing the last connection does this too, but that happens on the event loop.
    db.exec('PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)')
  } catch {
    // A reader blocks it.
  }
  db.close()
}

function runStep(given: WriterStep): number | undefined {
  const { writer, step } = given
  // Without a connection there is nothing to undo or close.
  if ((step.kind === 'undo' || step.kind === 'close') && !connections.has(writer)) return undefined
  const connection = opened(given)
  switch (step.kind) {
    case 'write':
      return write(connection, step)
    case 'undo':
      undo(connection)
      return undefined
    case 'scrub':
      return scrubPages(connection.file, step.first, step.count)
    case 'merge':
      return Number(mergeIndex(connection.db, step.index, step.pages))
    case 'truncate':
      return Number(emptyWal(connection.db))
    case 'close':
      end(writer, connection)
      return undefined
  }
}

serveRequests((given: WriterStep) => {
  const { writer, step } = given
  if (step.kind !== 'write' || step.isFirst) failures.delete(writer)
  if (failures.has(writer)) throw failures.get(writer)
  try {
    return runStep(given)
  } catch (error) {
    failures.set(writer, error)
    const connection = connections.get(writer)
    if (connection !== undefined) undo(connection)
    throw error
  }
})
