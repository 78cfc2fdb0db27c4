/** Reads SQLite in a thread of its own: the event loop goes on meanwhile, and a read can be ended. */
import { type RequestThread, startRequestThread } from '../request-thread.ts'
import { LOCK_WAIT_MS, type Parameter } from './sqlite.ts'

/**
 * SQL that is 1, unless the read is to end: then it fails. Nothing else can end a statement from outside, so one that may
 * take long tests this at each row that it looks at. It takes 0.1 µs.
 */
export const ABORT_CHECK = 'go_on()'

/** A connection of its own, which only reads. */
export interface SqliteReader {
  /**
   * The value in the first column of the first row that a statement gives. One at a time.
   * @throws the signal's reason when it is aborted before the value is there; the statement ends at its next `ABORT_CHECK`
   */
  value<Value>(
    sql: string,
    parameters: readonly Parameter[],
    signal?: AbortSignal,
  ): Promise<Value | undefined>
  /** Not while a value is being read. */
  close(): Promise<void>
}

/** What the thread gets. */
export interface ReaderData {
  file: string
  timeout: number
  /** Not 0: the read is to end. */
  told: Int32Array
}

export interface ReadQuestion {
  sql: string
  parameters: readonly Parameter[]
}

/** The reader of a file that exists. It is opened at the first read. `timeout`: how long it waits for a lock. */
export function openSqliteReader(file: string, timeout = LOCK_WAIT_MS): SqliteReader {
  const told = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const workerData: ReaderData = { file, timeout, told }
  let thread: RequestThread<ReadQuestion, unknown> | undefined

  return {
    async value<Value>(sql: string, parameters: readonly Parameter[], signal?: AbortSignal) {
      signal?.throwIfAborted()
      if (thread?.isRunning() !== true)
        thread = startRequestThread('storage/sqlite/reader-program', { workerData })
      Atomics.store(told, 0, 0)
      const end = () => void Atomics.store(told, 0, 1)
      signal?.addEventListener('abort', end)
      try {
        return (await thread.ask({ sql, parameters })) as Value | undefined
      } catch (error) {
        throw signal?.aborted ? signal.reason : error
      } finally {
        signal?.removeEventListener('abort', end)
      }
    },
    async close() {
      await thread?.end()
    },
  }
}
