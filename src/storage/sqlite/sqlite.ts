/** The SQLite driver of both embedded stores: opens files with the same settings, and types rows. */
import { isAscii, isUtf8 } from 'node:buffer'
import { closeSync, openSync, readSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { OperatorError } from '../../errors/operator-error.ts'
import { sqliteFailure } from './errors.ts'

export type Sqlite = DatabaseSync
/** A value of a statement's parameter. */
export type Parameter = string | number | Uint8Array | null

/**
 * Durability of a completed transaction. FULL: survives a power cut. NORMAL: a crash of the process. OFF: no guarantee.
 */
export type Durability = 'FULL' | 'NORMAL' | 'OFF'

/** A file is not a SQLite database, or is damaged (truncated, overwritten). The server doesn't repair it. */
export class BrokenFile extends OperatorError {
  readonly file: string

  constructor(file: string, problem: string, options?: ErrorOptions) {
    super(`${file} is broken: ${problem}`, options)
    this.file = file
  }
}

/**
 * Maximum size of an idle WAL. While a reader holds an old snapshot (a backup, a check), the WAL grows, even to gigabytes;
 * by default SQLite would keep the file at that length. Without readers a WAL is smaller.
 */
const WAL_LIMIT = `PRAGMA journal_size_limit = ${64 * 1024 * 1024}`

/** How long a statement waits for another process's write, in milliseconds. */
export const LOCK_WAIT_MS = 5000

/**
 * The settings of each connection. Temporary tables stay in memory: a temporary file would have texts that may be erased
 * later.
 */
const SETTINGS = `PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON; ${WAL_LIMIT}`

/** Thrown when a file cannot be opened. SQLite's error does not name the file. */
class Unopened extends OperatorError {}

/** Opens (or creates) a file. @throws Unopened */
export function connect(file: string, options: { readOnly?: boolean; timeout?: number } = {}): Sqlite {
  try {
    return new DatabaseSync(file, { timeout: LOCK_WAIT_MS, ...options })
  } catch (error) {
    throw sqliteFailure(error) === 'cannot open'
      ? new Unopened(`${file} cannot be opened`, { cause: error })
      : error
  }
}

/**
 * Opens (or creates) a database file in WAL mode, so that other processes can read it concurrently.
 * @throws BrokenFile when it is not a database, or its beginning can't be read
 */
export function openSqlite(file: string, synchronous: Durability): Sqlite {
  const db = connect(file)
  return closeOnError(file, [db], () => {
    db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}; ${SETTINGS}`)
    return db
  })
}

/**
 * Runs `prepare`, which creates the tables and statements of a newly opened file. Closes the connections when it throws.
 * @throws BrokenFile when the file is damaged. Our SQL is correct, so an SQL error (`no such column`) means a damaged
 * schema.
 */
export function closeOnError<T>(file: string, connections: readonly Sqlite[], prepare: () => T): T {
  try {
    return prepare()
  } catch (error) {
    for (const db of connections) db.close()
    throw isBroken(error) || isWrongSql(error) ? new BrokenFile(file, error.message, { cause: error }) : error
  }
}

/**
 * The result of `CAST(… AS BLOB)`. Use it to read text that may be damaged: in TEXT the driver silently replaces bytes that
 * are not UTF-8.
 */
export type Bytes = Uint8Array

/** Decodes the bytes; undefined when they are not UTF-8. */
export function textOf(bytes: Bytes): string | undefined {
  const buffer = bufferOf(bytes)
  return isUtf8(buffer) ? buffer.toString() : undefined
}

/** Returns the bytes with the fastest encoding that reads them; undefined when they are not UTF-8. */
export function readable(bytes: Bytes): { buffer: Buffer; encoding: 'latin1' | 'utf8' } | undefined {
  const buffer = bufferOf(bytes)
  if (isAscii(buffer)) return { buffer, encoding: 'latin1' }
  return isUtf8(buffer) ? { buffer, encoding: 'utf8' } : undefined
}

/** Decodes the bytes for display, and replaces invalid UTF-8. */
export const lossyText = (bytes: Bytes): string => bufferOf(bytes).toString()

export const bufferOf = (bytes: Bytes): Buffer =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Encodes a text as JSON. Replaces a lone surrogate, as the driver does: SQLite would store text that is not UTF-8. */
export const asJson = (text: string): string => JSON.stringify(text.toWellFormed())

/** A bound number of rows after `LIMIT` or `OFFSET`. With a bare `?`, SQLite recompiles the statement each time. */
export const ROWS = '(? + 0)'

/** A prepared SELECT with the types of its parameters and of its rows. */
export interface Query<Parameters extends SQLInputValue[], Row> {
  get(...parameters: Parameters): Row | undefined
  all(...parameters: Parameters): Row[]
  /** Yields row by row, so that the caller can stop early. The query must not be used again until it ends. */
  iterate(...parameters: Parameters): IterableIterator<Row>
}

/**
 * Prepares a SELECT. The driver's types don't know the columns of a row, so the caller names the row type beside the SQL.
 */
export function select<Parameters extends SQLInputValue[], Row>(
  db: Sqlite,
  sql: string,
): Query<Parameters, Row> {
  return queryOf(db, db.prepare(sql))
}

/** Prepares a SELECT whose rows are tuples. Use it for many rows: tuples are faster than objects. */
export function selectTuples<Parameters extends SQLInputValue[], Tuple extends unknown[]>(
  db: Sqlite,
  sql: string,
): Query<Parameters, Tuple> {
  const statement = db.prepare(sql)
  statement.setReturnArrays(true)
  return queryOf(db, statement)
}

/** Prepares a SELECT of one column and returns its values without rows. */
export function selectColumn<Parameters extends SQLInputValue[], Value>(
  db: Sqlite,
  sql: string,
): Omit<Query<Parameters, Value>, 'iterate'> {
  const { get, all } = selectTuples<Parameters, [Value]>(db, sql)
  return {
    get: (...parameters) => get(...parameters)?.[0],
    all: (...parameters) => all(...parameters).map(([value]) => value),
  }
}

/** Wraps a statement. Drops the connection's cache after a failed read of the disk, which leaves wrong pages there. */
function queryOf<Parameters extends SQLInputValue[], Row>(
  db: Sqlite,
  statement: StatementSync,
): Query<Parameters, Row> {
  function failed(error: unknown): unknown {
    if (isBroken(error)) db.exec('PRAGMA shrink_memory')
    return error
  }

  return {
    get(...parameters) {
      try {
        return statement.get(...parameters) as Row | undefined
      } catch (error) {
        throw failed(error)
      }
    },
    all(...parameters) {
      try {
        return statement.all(...parameters) as Row[]
      } catch (error) {
        throw failed(error)
      }
    },
    *iterate(...parameters) {
      try {
        yield* statement.iterate(...parameters) as IterableIterator<Row>
      } catch (error) {
        reset(statement, parameters)
        throw failed(error)
      }
    },
  }
}

/** Resets a statement: after a failure between rows, SQLite throws the same error once more when the statement restarts. */
function reset(statement: StatementSync, parameters: SQLInputValue[]): void {
  try {
    statement.iterate(...parameters)
  } catch {
    // The statement is reset now.
  }
}

/** Whether the statement violated a UNIQUE or other constraint: the caller's error, not the disk's. */
export const isConstraint = (error: unknown): boolean => sqliteFailure(error) === 'constraint'

/** Whether another connection holds the lock that the statement needs. */
export const isBusy = (error: unknown): boolean => sqliteFailure(error) === 'busy'

/** Whether the statement read a damaged part of the file, or the file is not a database. */
export function isBroken(error: unknown): error is Error {
  const failure = sqliteFailure(error)
  return failure === 'damaged' || failure === 'not a database'
}

/**
 * Whether such an error may come from an unreadable disk, which SQLite reports as damage, too. A file that was opened as a
 * database is assumed to still be one.
 */
export function mayBeUnreadable(file: string, error: Error): boolean {
  if (sqliteFailure(error) === 'not a database') return true
  try {
    const bytes = openSync(file, 'r')
    try {
      readSync(bytes, Buffer.alloc(1), 0, 1, 0)
    } finally {
      closeSync(bytes)
    }
    return false
  } catch {
    return true
  }
}

function isWrongSql(error: unknown): error is Error {
  const failure = sqliteFailure(error)
  return failure === 'wrong sql' || failure === 'constraint'
}

/** Runs a check of a file in one read transaction. @throws BrokenFile when the file is not a database */
export function checkFile<Problem>(file: string, check: (db: Sqlite) => Problem): Problem {
  const db = openSqlite(file, 'NORMAL')
  try {
    db.exec('BEGIN')
    return check(db)
  } finally {
    db.close()
  }
}

/** Returns the first damage that SQLite finds in its own structures and indexes; undefined for a sound file. */
export function integrityProblem(db: Sqlite): string | undefined {
  try {
    const found = select<[], { integrity_check: string }>(db, 'PRAGMA integrity_check(1)').get()
    return found?.integrity_check === 'ok' ? undefined : (found?.integrity_check ?? 'no answer')
  } catch (error) {
    // The check evaluates indexes on expressions, which fails for a damaged document.
    if (isBroken(error) || isWrongSql(error)) return error.message
    throw error
  }
}
