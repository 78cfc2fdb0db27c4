/** Names for SQLite's result codes (https://sqlite.org/rescode.html). */

export type SqliteFailure =
  | 'wrong sql'
  | 'not permitted'
  | 'busy'
  | 'no memory'
  | 'read-only'
  | 'disk'
  | 'damaged'
  | 'full'
  | 'cannot open'
  | 'constraint'
  | 'not a database'

/** Out of memory while reading or writing a file. */
const IO_NO_MEMORY = 10 | (12 << 8)

/** By result code. Our SQL is correct, so wrong SQL, a schema error and a type mismatch all mean a damaged schema. */
const FAILURES: ReadonlyMap<number, SqliteFailure> = new Map([
  [1, 'wrong sql'],
  [3, 'not permitted'],
  [5, 'busy'],
  [7, 'no memory'],
  [8, 'read-only'],
  [10, 'disk'],
  [11, 'damaged'],
  [13, 'full'],
  [14, 'cannot open'],
  [15, 'disk'],
  [17, 'wrong sql'],
  [19, 'constraint'],
  [20, 'wrong sql'],
  [26, 'not a database'],
])

/** Returns the result code of an error, with its details; undefined for errors of other origin. */
export const resultCodeOf = (error: unknown): number | undefined =>
  error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
    ? error.errcode
    : undefined

/** Names the reason of an SQLite error, from this thread or another one; undefined for other errors and codes. */
export function sqliteFailure(error: unknown): SqliteFailure | undefined {
  // The driver refuses to read an integer beyond JavaScript's safe range. Mergelog stores none.
  if (error instanceof Error && 'code' in error && error.code === 'ERR_OUT_OF_RANGE') return 'damaged'
  const code = resultCodeOf(error)
  if (code === undefined) return undefined
  return code === IO_NO_MEMORY ? 'no memory' : FAILURES.get(code & 0xff)
}

/** Creates the error of another thread, which arrives without its code. */
export const sqliteError = (message: string, errcode: number | undefined): Error =>
  errcode === undefined
    ? new Error(message)
    : Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode })
