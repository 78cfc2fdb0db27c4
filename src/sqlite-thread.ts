/**
 * Writes to SQLite files in threads of their own: neither a large transaction nor a slow disk holds the event loop. The
 * logs of the process share one thread, and its read models another, which may be busy for long. Each is started at its
 * first write.
 */
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { type Durability, WAL_LIMIT } from './sqlite.ts'
import { PROGRAM } from './sqlite-thread-program.ts'

/** A value of a statement's parameter. */
export type Parameter = string | number | Uint8Array | null

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
   * go on with; to 0 at the end. Not while a transaction is open.
   */
  scrub(first: number, count: number): Promise<number>
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

/** How long a write waits for another process's write to end, in milliseconds. */
const LOCK_WAIT_MS = 5000

/** The settings of each connection. */
const SETTINGS = `PRAGMA busy_timeout = ${LOCK_WAIT_MS}; PRAGMA journal_mode = WAL; PRAGMA secure_delete = ON; ${WAL_LIMIT}`

/**
 * What each thread writes, and the settings that suit it. A rebuild of the read models writes to many indexes: with
 * SQLite's defaults (2 MiB of pages in memory, a checkpoint every 4 MiB) it would write the same pages many times.
 */
const THREADS = {
  log: '',
  views: '; PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 8000',
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
type Step = 'write' | 'undo' | 'scrub' | 'merge' | 'truncate' | 'close'

/** What a step needs. */
interface Rest {
  statements?: Statement[]
  /** Whether the transaction begins before the statements, and commits after them. */
  isFirst?: boolean
  isLast?: boolean
  first?: number
  count?: number
  index?: string
  pages?: number
}

interface Answer {
  id: number
  /** Why it failed: what SQLite says, and the name that it has for it. */
  error: { message: string; code?: string } | undefined
  changes: number
}

interface Waiting {
  resolve: (changes: number) => void
  reject: (error: Error) => void
}

interface Thread {
  worker: Worker
  waiting: Map<number, Waiting>
}

const threads = new Map<ThreadName, Thread>()
let lastId = 0
let lastWriter = 0

function running(name: ThreadName): Thread {
  const known = threads.get(name)
  if (known !== undefined) return known
  const driver = createRequire(import.meta.url).resolve('libsql')
  const settings = `${SETTINGS}${THREADS[name]}`
  // The thread needs none of this process's Node options (for example a TypeScript loader).
  const worker = new Worker(PROGRAM, {
    eval: true,
    execArgv: [],
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    workerData: { driver, settings, timeout: LOCK_WAIT_MS, syncedTransactions: SYNCED_TRANSACTIONS },
  })
  const thread: Thread = { worker, waiting: new Map() }
  worker.unref()
  worker.on('message', ({ id, error, changes }: Answer) => {
    const asked = take(thread, id)
    if (error === undefined) asked?.resolve(changes)
    else asked?.reject(Object.assign(new Error(error.message), { code: error.code }))
  })
  let reason = 'the thread that writes has ended'
  worker.on('error', (error) => {
    reason = `the thread that writes has ended: ${error.message}`
  })
  worker.on('exit', () => {
    if (threads.get(name) === thread) threads.delete(name)
    for (const id of [...thread.waiting.keys()]) take(thread, id)?.reject(new Error(reason))
  })
  threads.set(name, thread)
  return thread
}

function take({ worker, waiting }: Thread, id: number): Waiting | undefined {
  const asked = waiting.get(id)
  waiting.delete(id)
  // Only a thread that owes an answer keeps the process alive.
  if (waiting.size === 0) worker.unref()
  return asked
}

/** The writer of a file, which must exist. Its connection is opened at the first transaction. */
export function threadWriter(name: ThreadName, file: string, durability: Durability): ThreadWriter {
  /** The thread that has a connection to the file. */
  let connected: Thread | undefined
  lastWriter += 1
  const writer = lastWriter

  function post(step: Step, rest: Rest & { id?: number } = {}): void {
    connected?.worker.postMessage({ writer, file, durability, step, ...rest })
  }

  function ask(step: Step, rest: Rest = {}): Promise<number> {
    const asked = connected
    if (asked === undefined || asked !== threads.get(name)) {
      return Promise.reject(new Error('the thread that writes has ended'))
    }
    return new Promise((resolve, reject) => {
      lastId += 1
      asked.waiting.set(lastId, { resolve, reject })
      asked.worker.ref()
      post(step, { ...rest, id: lastId })
    })
  }

  return {
    async transaction(work) {
      connected = running(name)
      let isFirst = true
      let statements: Statement[] = []
      let characters = 0
      // Few large messages: each one costs as much as a small statement.
      function send(): void {
        post('write', { isFirst, statements })
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
        await ask('undo').catch(() => {})
        throw error
      }
      return ask('write', { isFirst, statements, isLast: true })
    },
    scrub(first, count) {
      connected = running(name)
      return ask('scrub', { first, count })
    },
    async merge(index, pages) {
      connected = running(name)
      return (await ask('merge', { index, pages })) === 1
    },
    async truncate() {
      connected = running(name)
      return (await ask('truncate')) === 0
    },
    async close() {
      if (connected !== undefined && connected === threads.get(name)) await ask('close')
      connected = undefined
    },
  }
}
