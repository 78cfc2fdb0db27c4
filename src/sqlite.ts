/** The SQLite driver as both embedded stores use it: opened one way, with rows that have a type. */
import { isAscii, isUtf8 } from 'node:buffer'
import Database from 'libsql'

export type Sqlite = Database.Database

/** How much of a commit is on disk when it returns: all of it, what a crash of the process needs, or nothing. */
export type Durability = 'FULL' | 'NORMAL' | 'OFF'

/** A file that is no SQLite database, or that is damaged: cut off, overwritten. Nothing repairs itself here. */
export class BrokenFile extends Error {
  override readonly name: string = 'BrokenFile'
  readonly file: string

  constructor(file: string, problem: string, options?: ErrorOptions) {
    super(`${file} is broken: ${problem}`, options)
    this.file = file
  }
}

/**
 * Opens (or makes) a database file in WAL mode; other processes may read it meanwhile.
 * @throws BrokenFile when it is no database, or its beginning can't be read
 */
export function openSqlite(file: string, synchronous: Durability): Sqlite {
  const db = new Database(file)
  return closeOnError(file, [db], () => {
    db.exec(`PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`)
    return db
  })
}

/**
 * Makes the tables and the statements of a file that has just been opened. SQL that has always been right and
 * is not here (`foreign key mismatch`, `no such column`) means that the file's schema is damaged.
 *
 * @throws BrokenFile then; whatever it throws, the connections are closed
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
 * What the driver gives for `CAST(… AS BLOB)`, which is how text is read that may be damaged: the driver ends the
 * process, without an error, at TEXT that is no UTF-8.
 */
export type Bytes = ArrayBuffer | Uint8Array

/** The text that the bytes are; undefined when they are none. */
export function textOf(bytes: Bytes): string | undefined {
  const buffer = bufferOf(bytes)
  return isUtf8(buffer) ? buffer.toString() : undefined
}

/** The same bytes with the fastest encoding that reads them; undefined when they are no text. */
export function readable(bytes: Bytes): { buffer: Buffer; encoding: 'latin1' | 'utf8' } | undefined {
  const buffer = bufferOf(bytes)
  if (isAscii(buffer)) return { buffer, encoding: 'latin1' }
  return isUtf8(buffer) ? { buffer, encoding: 'utf8' } : undefined
}

/** To show it: what is no text in it is replaced. */
export const lossyText = (bytes: Bytes): string => bufferOf(bytes).toString()

export const bufferOf = (bytes: Bytes): Buffer =>
  bytes instanceof ArrayBuffer
    ? Buffer.from(bytes)
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** A prepared SELECT with the types of its parameters and of its rows. */
export interface Query<Parameters extends unknown[], Row> {
  get(...parameters: Parameters): Row | undefined
  all(...parameters: Parameters): Row[]
  /** Row by row: for who stops before the last. Nothing else may use the connection until then. */
  iterate(...parameters: Parameters): IterableIterator<Row>
}

/**
 * Prepares a SELECT. The driver's own types call every row `unknown`, and a row's type can only be
 * known from its SQL: so this one place says it, beside the statement.
 */
export function select<Parameters extends unknown[], Row>(db: Sqlite, sql: string): Query<Parameters, Row> {
  const statement = db.prepare(sql)
  const get = renewing(statement, () => db.prepare(sql))
  return {
    get: (...parameters) => (get(parameters) ?? undefined) as Row | undefined,
    all: (...parameters) => statement.all(...parameters) as Row[],
    iterate: (...parameters) => statement.iterate(...parameters) as IterableIterator<Row>,
  }
}

/** A prepared SELECT whose rows are tuples: quicker than objects where there are many of them. */
export function selectTuples<Parameters extends unknown[], Tuple extends unknown[]>(
  db: Sqlite,
  sql: string,
): Omit<Query<Parameters, Tuple>, 'all'> {
  const statement = db.prepare(sql).raw()
  const get = renewing(statement, () => db.prepare(sql).raw())
  return {
    get: (...parameters) => (get(parameters) ?? undefined) as Tuple | undefined,
    iterate: (...parameters) => statement.iterate(...parameters) as IterableIterator<Tuple>,
  }
}

/** A prepared SELECT of one column. Its values come without rows around them: half the time of `select`. */
export function selectColumn<Parameters extends unknown[], Value>(
  db: Sqlite,
  sql: string,
): Omit<Query<Parameters, Value>, 'iterate'> {
  // The driver's types lack that `raw` makes arrays of the rows.
  const statement = db.prepare(sql).raw()
  const get = renewing(statement, () => db.prepare(sql).raw())
  return {
    get: (...parameters) => (get(parameters) as [Value] | undefined)?.[0],
    all: (...parameters) => (statement.all(...parameters) as [Value][]).map(([value]) => value),
  }
}

/**
 * One row of a statement. When that fails (a torn page, a lock) the driver leaves the statement as it is, and it
 * would throw the same error for ever (libsql 0.5.29): the next call prepares it again.
 */
function renewing(
  prepared: Database.Statement,
  prepare: () => Database.Statement,
): (parameters: readonly unknown[]) => unknown {
  let [statement, isSpent] = [prepared, false]
  return (parameters) => {
    if (isSpent) statement = prepare()
    isSpent = true
    const row: unknown = statement.get(...parameters)
    isSpent = false
    return row
  }
}

/** True when the statement failed on a UNIQUE or other constraint: the caller's fault, not the disk's. */
export function isConstraint(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith('SQLITE_CONSTRAINT')
}

/** True when another connection holds the lock that the statement needs: try again later. */
export function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY')
}

/** True when what the statement needed is damaged in the file, or the file is no database at all. */
export function isBroken(error: unknown): error is Error {
  return error instanceof Database.SqliteError && /^SQLITE_(CORRUPT|NOTADB)/.test(error.code)
}

function isWrongSql(error: unknown): error is Error {
  return (
    error instanceof Database.SqliteError && /^SQLITE_(ERROR|SCHEMA|CONSTRAINT|MISMATCH)/.test(error.code)
  )
}

/** The first damage that SQLite finds in its own structures, indexes included; undefined when there is none. */
export function integrityProblem(db: Sqlite): string | undefined {
  try {
    const found = select<[], { integrity_check: string }>(db, 'PRAGMA integrity_check(1)').get()
    return found?.integrity_check === 'ok' ? undefined : (found?.integrity_check ?? 'no answer')
  } catch (error) {
    // It computes what indexes on expressions should hold, and a damaged document has no such thing.
    if (isBroken(error) || isWrongSql(error)) return error.message
    throw error
  }
}
