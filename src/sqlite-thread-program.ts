/**
 * The program of a thread that writes to SQLite files (`sqlite-thread.ts`). It gets one step of a writer at a time, and
 * answers those with an id. The driver does not reset a statement that failed, so all statements are prepared again after
 * an error. It is a string because Node needs JavaScript, and our files may run as TypeScript.
 */
import { SCRUB } from './sqlite-scrub.ts'

export const PROGRAM = `
  const fs = require('node:fs')
  const { parentPort, workerData } = require('node:worker_threads')
  const Database = require(workerData.driver)
  const MAX_STATEMENTS = 200
  ${SCRUB}
  /** Each writer has one. */
  const connections = new Map()
  /** By writer: why the open transaction failed. The rest of it is skipped. */
  const failures = new Map()

  function open({ writer, file, durability }) {
    const connection = { db: new Database(file), statements: new Map(), changes: 0, wal: file + '-wal', isSyncing: false }
    // With FULL, each transaction is on the disk when it ends; with OFF, nothing waits for it.
    connection.unsynced = durability === 'NORMAL' ? 0 : -Infinity
    connection.db.exec(workerData.settings + '; PRAGMA synchronous = ' + durability)
    connections.set(writer, connection)
    return connection
  }

  function prepared({ db, statements }, sql) {
    if (!statements.has(sql)) {
      if (statements.size >= MAX_STATEMENTS) statements.clear()
      statements.set(sql, db.prepare(sql))
    }
    return statements.get(sql)
  }

  /** The next checkpoint does it in any case: so it may fail. */
  function sync(connection) {
    connection.isSyncing = true
    connection.unsynced = 0
    const end = () => { connection.isSyncing = false }
    fs.open(connection.wal, 'r', (error, wal) => {
      if (error) end()
      else fs.fdatasync(wal, () => fs.close(wal, end))
    })
  }

  const steps = {
    write(connection, { isFirst, statements, isLast }) {
      if (isFirst) {
        connection.changes = 0
        connection.db.exec('BEGIN IMMEDIATE')
      }
      for (const [sql, ...parameters] of statements) {
        connection.changes = prepared(connection, sql).run(...parameters).changes
      }
      if (!isLast) return
      connection.db.exec('COMMIT')
      connection.unsynced += 1
      if (connection.unsynced >= workerData.syncedTransactions && !connection.isSyncing) sync(connection)
    },
    undo({ db, statements }) {
      statements.clear()
      if (db.inTransaction) db.exec('ROLLBACK')
    },
    scrub(connection, { first, count }) {
      connection.db.exec('BEGIN IMMEDIATE')
      connection.changes = scrub(connection.db, first, count)
      connection.db.exec('COMMIT')
    },
    merge(connection, { index, pages }) {
      connection.db.exec('BEGIN IMMEDIATE')
      connection.changes = merge(connection.db, index, pages)
      connection.db.exec('COMMIT')
    },
    truncate(connection) {
      connection.changes = truncate(connection.db, workerData.timeout)
    },
    close({ db }, { writer }) {
      connections.delete(writer)
      // SQLite does it itself at the last close, but the driver keeps a connection open as long as it has statements.
      try { db.exec('PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)') } catch {}
      db.close()
    },
  }

  parentPort.on('message', (message) => {
    const { writer, step, isFirst, id } = message
    if (step !== 'write' || isFirst) failures.delete(writer)
    try {
      if (!failures.has(writer)) steps[step](connections.get(writer) ?? open(message), message)
    } catch (error) {
      failures.set(writer, { message: error instanceof Error ? error.message : String(error), code: error?.code })
      try { steps.undo(connections.get(writer)) } catch {}
    }
    if (id === undefined) return
    parentPort.postMessage({ id, error: failures.get(writer), changes: connections.get(writer)?.changes ?? 0 })
  })
`
