/** Reads SQLite in a worker thread: the event loop stays free, and a read can be aborted. */
import { type RequestThread, startRequestThread } from '../request-thread.ts'
import { LOCK_WAIT_MS, type Parameter } from './sqlite.ts'

/**
 * SQL that returns 1, or fails when the read is aborted. Long statements evaluate it for each row (0.1 µs): the driver
 * has no other way to interrupt them.
 */
export const ABORT_CHECK = 'go_on()'

/** A read-only connection in a thread. */
export interface SqliteReader {
  /**
   * Returns the first column of the first row. One read at a time.
   * @throws the signal's reason when it is aborted first; the statement ends at its next `ABORT_CHECK`
   */
  value<Value>(
    sql: string,
    parameters: readonly Parameter[],
    signal?: AbortSignal,
  ): Promise<Value | undefined>
  /** Must not be called during a read. */
  close(): Promise<void>
}

export interface ReaderData {
  file: string
  timeout: number
  /** Not 0: the read is aborted. */
  aborted: Int32Array
}

export interface ReadRequest {
  sql: string
  parameters: readonly Parameter[]
}

/**
 * Creates the reader of an existing file, which is opened at the first read. `timeout` is the longest wait for a lock, in
 * milliseconds.
 */
export function openSqliteReader(file: string, timeout = LOCK_WAIT_MS): SqliteReader {
  const aborted = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const workerData: ReaderData = { file, timeout, aborted }
  let thread: RequestThread<ReadRequest, unknown> | undefined

  return {
    async value<Value>(sql: string, parameters: readonly Parameter[], signal?: AbortSignal) {
      signal?.throwIfAborted()
      if (thread?.isRunning() !== true)
        thread = startRequestThread('storage/sqlite/reader-program', { workerData })
      Atomics.store(aborted, 0, 0)
      const end = () => void Atomics.store(aborted, 0, 1)
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
