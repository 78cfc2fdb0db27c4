/**
 * Writes to SQLite files in threads of their own: neither a large transaction nor a slow disk holds the event loop. The
 * logs of the process share one thread, and its read models another, which may be busy for long. Each is started at its
 * first write.
 */
import { type RequestThread, startRequestThread } from '../request-thread.ts'
import type { Durability, Parameter } from './sqlite.ts'

/** Sends a statement to the thread, which runs it in the transaction. Errors come when the transaction ends. */
export type Run = (sql: string, ...parameters: Parameter[]) => void

/** The connection of one file. Only one transaction may be open at a time. */
export interface ThreadWriter {
  /**
   * Runs the statements that `work` sends as one transaction. It commits when `work` resolves, and undoes all when
   * `work` rejects or a statement fails. Resolves to the number of rows that the last statement changed. Statements are
   * sent many at a time; `flush` sends those that are waiting, unless they are few.
   * @throws the error of `work`, or one with SQLite's message and code
   */
  transaction(work: (run: Run, flush: () => void) => Promise<void>): Promise<number>
  /**
   * Overwrites what no row uses in at most `count` pages, from page `first` (the first one is 1). Resolves to the page to
   * go on with; to 0 at the end; to undefined when a reader keeps it from that. Not while a transaction is open.
   */
  scrub(first: number, count: number): Promise<number | undefined>
  /**
   * Writes about so many pages of a full text index (FTS5) again, without what was deleted. Begin with a negative number,
   * which means all of the index, and go on with a positive one. Resolves to false when there is nothing left to do.
   */
  merge(index: string, pages: number): Promise<boolean>
  /** Moves the WAL into the file and empties it. Resolves to false when a reader keeps it from that. */
  truncate(): Promise<boolean>
  /** Moves the WAL into the file, as far as no reader keeps it from that, and closes the connection. */
  close(): Promise<void>
}

/**
 * What each thread writes, and the settings that suit it. A rebuild of the read models writes to many indexes: with
 * SQLite's defaults (2 MiB of pages in memory, a checkpoint every 4 MiB) it would write the same pages many times.
 */
const THREADS = {
  log: '',
  views: 'PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 8000',
} as const
type ThreadName = keyof typeof THREADS

/**
 * After how many transactions that did not wait for the disk what they have written is brought there, while the thread
 * goes on. A checkpoint waits for all that is left: for 32 MiB 70 ms or more, and an append to the log waits with it.
 */
const SYNCED_TRANSACTIONS = 16

/**
 * Room for young objects, in MB. The thread keeps nothing but what a message has; by default V8 would let 48 MB come
 * together before it looks.
 */
const YOUNG_MB = 6

/** The characters after which statements are sent, so that the thread begins while others are still made. */
const MESSAGE_CHARACTERS = 64 * 1024
/** What is less waits for more, or for the end of the transaction. */
const FLUSHED_CHARACTERS = 8 * 1024

const sizeOf = (value: Parameter) => (value === null || typeof value === 'number' ? 0 : value.length)

type Statement = [sql: string, ...parameters: Parameter[]]

/** What a thread gets. */
export interface WriterData {
  /** SQL for each connection. */
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

/** The writer of a file, which must exist. Its connection is opened at the first transaction. */
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
      // All of it in one thread: when that ends, the rest fails.
      const thread = running(name)
      connected = thread
      let isFirst = true
      let statements: Statement[] = []
      let characters = 0
      const next = (isLast: boolean) => given({ kind: 'write', statements, isFirst, isLast })
      // Few large messages: each one costs as much as a small statement.
      function send(): void {
        thread.tell(next(false))
        isFirst = false
        statements = []
        characters = 0
      }
      function sendOver(most: number): void {
        if (characters > most) send()
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
