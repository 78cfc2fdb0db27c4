/**
 * Writes to SQLite files in worker threads, so that neither a large transaction nor a slow disk blocks the event loop.
 * Logs share one thread; read models share another, which may be busy for long. A thread starts at its first write.
 */
import { type RequestThread, startRequestThread } from '../request-thread.ts'
import type { Durability, Parameter } from './sqlite.ts'

/** Sends a statement to the thread, which runs it in the transaction. Errors are thrown at the end of the transaction. */
export type Run = (sql: string, ...parameters: Parameter[]) => void

/** The connection to one file. Only one transaction may be open at a time. */
export interface ThreadWriter {
  /**
   * Runs the statements that `work` sends as one transaction. Commits when `work` resolves; rolls back when `work`
   * rejects or a statement fails. Resolves to the number of rows that the last statement changed. Statements are sent
   * in batches; `flush` sends pending ones from `FLUSHED_CHARACTERS` on.
   * @throws the error of `work`, or one with SQLite's message and code
   */
  transaction(work: (run: Run, flush: () => void) => Promise<void>): Promise<number>
  /**
   * Scrubs the unused bytes of at most `count` pages, from page `first` (the first one is 1). Resolves to the next page; to
   * 0 at the end; to undefined when a reader blocks it. Not during a transaction.
   */
  scrub(first: number, count: number): Promise<number | undefined>
  /**
   * Rewrites about `pages` pages of a full text index (FTS5), without deleted rows. Begin with a negative number, which
   * means the whole index, and continue with a positive one. Resolves to false when the index is merged.
   */
  merge(index: string, pages: number): Promise<boolean>
  /** Moves the WAL into the file and empties it. Resolves to false when a reader blocks it. */
  truncate(): Promise<boolean>
  /** Moves the WAL into the file, as far as readers allow it, and closes the connection. */
  close(): Promise<void>
}

/**
 * The threads, with SQLite settings for each. A rebuild of the read models writes to many indexes: with SQLite's defaults
 * (2 MiB of cached pages, a checkpoint every 4 MiB) it would write the same pages many times.
 */
const THREADS = {
  log: '',
  views: 'PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 8000',
} as const
type ThreadName = keyof typeof THREADS

/**
 * Number of transactions with NORMAL durability after which the WAL is synced in the background. A checkpoint waits for all
 * unsynced pages: for 32 MiB 70 ms or more, during which appends to the log wait.
 */
const SYNCED_TRANSACTIONS = 16

/**
 * Size of V8's young generation, in MB. The thread only keeps the current message; V8's default would collect garbage only
 * after 48 MB.
 */
const YOUNG_MB = 6

/** Batch size in characters: the thread works while the next batch is collected. */
const MESSAGE_CHARACTERS = 64 * 1024
/** Minimum batch size of `flush`, in characters. */
const FLUSHED_CHARACTERS = 8 * 1024

const sizeOf = (value: Parameter) => (value === null || typeof value === 'number' ? 0 : value.length)

type Statement = [sql: string, ...parameters: Parameter[]]

export interface WriterData {
  /** SQL for each new connection. */
  settings: string
  syncedTransactions: number
}

export type Step =
  // The transaction begins before the statements, and commits after them.
  | { kind: 'write'; statements: readonly Statement[]; isFirst: boolean; isLast: boolean }
  | { kind: 'undo' }
  | { kind: 'scrub'; first: number; count: number }
  | { kind: 'merge'; index: string; pages: number }
  | { kind: 'truncate' }
  | { kind: 'close' }

/** A step of one of the thread's writers. */
export interface WriterStep {
  writer: number
  file: string
  durability: Durability
  step: Step
}

type Thread = RequestThread<WriterStep, number | undefined>

const threads = new Map<ThreadName, Thread>()
let lastWriter = 0

function running(name: ThreadName): Thread {
  const known = threads.get(name)
  if (known?.isRunning()) return known
  const workerData: WriterData = { settings: THREADS[name], syncedTransactions: SYNCED_TRANSACTIONS }
  const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_MB }
  const thread: Thread = startRequestThread('storage/sqlite/writer-program', { workerData, resourceLimits })
  threads.set(name, thread)
  return thread
}

/** Creates the writer of an existing file. Its connection is opened at the first transaction. */
export function threadWriter(name: ThreadName, file: string, durability: Durability): ThreadWriter {
  lastWriter += 1
  const writer = lastWriter
  /** The thread that has a connection to the file. */
  let connected: Thread | undefined
  const given = (step: Step): WriterStep => ({ writer, file, durability, step })

  function ask(step: Step): Promise<number | undefined> {
    connected = running(name)
    return connected.ask(given(step))
  }

  return {
    async transaction(work) {
      // The whole transaction uses one thread, and fails when the thread ends.
      const thread = running(name)
      connected = thread
      let isFirst = true
      let statements: Statement[] = []
      let characters = 0
      const next = (isLast: boolean) => given({ kind: 'write', statements, isFirst, isLast })
      // Batched, because a message costs as much as a small statement.
      function send(): void {
        thread.tell(next(false))
        isFirst = false
        statements = []
        characters = 0
      }
      function sendOver(threshold: number): void {
        if (characters > threshold) send()
      }
      try {
        await work(
          (sql, ...parameters) => {
            statements.push([sql, ...parameters])
            for (const value of parameters) characters += sizeOf(value)
            sendOver(MESSAGE_CHARACTERS)
          },
          () => sendOver(FLUSHED_CHARACTERS),
        )
      } catch (error) {
        await thread.ask(given({ kind: 'undo' })).catch(() => {})
        throw error
      }
      return (await thread.ask(next(true))) ?? 0
    },
    scrub: (first, count) => ask({ kind: 'scrub', first, count }),
    merge: async (index, pages) => (await ask({ kind: 'merge', index, pages })) === 1,
    truncate: async () => (await ask({ kind: 'truncate' })) === 1,
    async close() {
      if (connected?.isRunning()) await connected.ask(given({ kind: 'close' }))
      connected = undefined
    },
  }
}
