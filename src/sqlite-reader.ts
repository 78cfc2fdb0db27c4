/** Reads SQLite in the driver's own threads: the event loop goes on meanwhile, and a read can be ended. */
import Database from 'libsql/promise'
import type { Parameter } from './sqlite-thread.ts'

/** A connection of its own, which only reads. */
export interface SqliteReader {
  /**
   * The value in the only row and column that a SELECT gives. One at a time.
   * @throws the signal's reason when it is aborted before the value is there
   */
  value<Value>(sql: string, parameters: readonly Parameter[], signal: AbortSignal): Promise<Value | undefined>
  /** Whether it should be closed, and another one be opened: it keeps all of its statements. */
  isWorn(): boolean
  /** Not while a value is being read. */
  close(): void
}

/** What the driver's types leave open. */
interface Statement {
  raw(): Statement
  /** Runs the statement up to its first row. A failure comes with the first row. */
  iterate(...parameters: Parameter[]): Promise<Iterable<[unknown]>>
}

/** How often a read is told to end: one that has not quite begun does not hear of it. */
const INTERRUPT_MS = 20
/** So many texts of statements one connection keeps. */
const MAX_STATEMENTS = 50

/** Opens a file that exists. */
export async function openSqliteReader(file: string): Promise<SqliteReader> {
  const db = new Database(file, {})
  await db.exec('PRAGMA busy_timeout = 5000; PRAGMA query_only = ON')

  // Statements live as long as the connection. When the garbage collector finds one, the driver finalizes it on the event
  // loop, and that waits for the read that the connection is at: for ever, for the loop is what would end the read.
  const statements = new Map<string, Statement>()
  const failed: Statement[] = []

  async function prepared(sql: string): Promise<Statement> {
    const statement: Statement = await db.prepare(sql)
    return statement.raw()
  }

  async function read<Value>(sql: string, parameters: readonly Parameter[]): Promise<Value | undefined> {
    const statement = statements.get(sql) ?? (await prepared(sql))
    statements.set(sql, statement)
    try {
      // To the end, or the connection would go on to read what was there at this moment.
      const [row] = [...(await statement.iterate(...parameters))]
      return row?.[0] as Value | undefined
    } catch (error) {
      // The driver does not reset one that fails.
      statements.delete(sql)
      failed.push(statement)
      throw error
    }
  }

  return {
    async value(sql, parameters, signal) {
      signal.throwIfAborted()
      let interrupting: NodeJS.Timeout | undefined
      const interrupt = () => {
        db.interrupt()
        interrupting ??= setInterval(interrupt, INTERRUPT_MS)
      }
      signal.addEventListener('abort', interrupt)
      try {
        return await read(sql, parameters)
      } catch (error) {
        throw signal.aborted ? signal.reason : error
      } finally {
        signal.removeEventListener('abort', interrupt)
        clearInterval(interrupting)
      }
    },
    isWorn: () => failed.length > 0 || statements.size >= MAX_STATEMENTS,
    close: () => db.close(),
  }
}
