/**
 * Writes to SQLite files in a thread of its own: neither a large transaction nor a slow disk holds the event loop. All
 * files of the process share the thread. It is started at the first write.
 */
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import type { Durability } from './sqlite.ts'
import { SCRUB } from './sqlite-scrub.ts'

/** A value of a statement's parameter. */
export type Parameter = string | number

/** Sends a statement to the thread, which runs it in the transaction. Errors come when the transaction ends. */
export type Run = (sql: string, ...parameters: Parameter[]) => void

/** The connection of one file. Only one transaction may be open at a time. */
export interface ThreadWriter {
  /**
   * Runs the statements that `work` sends as one transaction. It commits when `work` resolves, and undoes all when
   * `work` rejects or a statement fails. Resolves to the number of rows that the last statement changed. Statements are
   * sent many at a time; `flush` sends those that are waiting.
   * @throws the error of `work`, or one with SQLite's message
   */
  transaction(work: (run: Run, flush: () => void) => Promise<void>): Promise<number>
  /**
   * Overwrites what no row uses in at most `count` pages, from page `first` (the first one is 1). Resolves to the page to
   * go on with; to 0 at the end. Not while a transaction is open.
   */
  scrub(first: number, count: number): Promise<number>
  /** Moves the WAL into the file and empties it. Resolves to false when a reader keeps it from that. */
  truncate(): Promise<boolean>
  /** Closes the connection. */
  close(): Promise<void>
}

/** How long a write waits for another process's write to end, in milliseconds. */
const LOCK_WAIT_MS = 5000

/**
 * The settings of each connection. Much memory and few checkpoints: a rebuild writes to many indexes. With SQLite's
 * defaults (2 MiB of pages in memory, a checkpoint every 4 MiB) it would write the same pages many times.
 */
const SETTINGS = `PRAGMA busy_timeout = ${LOCK_WAIT_MS}; PRAGMA journal_mode = WAL; PRAGMA cache_size = -65536;
  PRAGMA wal_autocheckpoint = 8000; PRAGMA secure_delete = ON; PRAGMA synchronous = `

/**
 * The code of the thread. It is a string because a thread needs JavaScript, and this file may run as TypeScript. It
 * gets a list of steps at a time and answers those with an id. The driver does not reset a statement that failed, so
 * all statements are prepared again after an error.
 */
const THREAD = `
  const { parentPort, workerData } = require('node:worker_threads')
  const Database = require(workerData.driver)
  const MAX_STATEMENTS = 200
  ${SCRUB}
  const connections = new Map()
  /** By file: why the open transaction failed. The rest of it is skipped. */
  const failures = new Map()

  function open(file, durability) {
    const connection = { db: new Database(file), statements: new Map(), changes: 0 }
    connection.db.exec(workerData.settings + durability)
    connections.set(file, connection)
    return connection
  }

  function prepared({ db, statements }, sql) {
    if (!statements.has(sql)) {
      if (statements.size >= MAX_STATEMENTS) statements.clear()
      statements.set(sql, db.prepare(sql))
    }
    return statements.get(sql)
  }

  const steps = {
    begin(connection) {
      connection.changes = 0
      connection.db.exec('BEGIN IMMEDIATE')
    },
    run(connection, { statements }) {
      for (const [sql, ...parameters] of statements) {
        connection.changes = prepared(connection, sql).run(...parameters).changes
      }
    },
    commit: ({ db }) => db.exec('COMMIT'),
    undo({ db, statements }) {
      statements.clear()
      if (db.inTransaction) db.exec('ROLLBACK')
    },
    scrub(connection, { first, count }) {
      connection.db.exec('BEGIN IMMEDIATE')
      connection.changes = scrub(connection.db, first, count)
      connection.db.exec('COMMIT')
    },
    truncate(connection) {
      connection.changes = truncate(connection.db, workerData.timeout)
    },
    close({ db }, { file }) {
      connections.delete(file)
      db.close()
    },
  }

  parentPort.on('message', (message) => {
    const { file, durability, step, id } = message
    if (step !== 'run' && step !== 'commit') failures.delete(file)
    try {
      if (!failures.has(file)) steps[step](connections.get(file) ?? open(file, durability), message)
    } catch (error) {
      failures.set(file, error instanceof Error ? error.message : String(error))
      try { steps.undo(connections.get(file)) } catch {}
    }
    if (id === undefined) return
    parentPort.postMessage({ id, error: failures.get(file), changes: connections.get(file)?.changes ?? 0 })
  })
`

/** The characters after which statements are sent, so that the thread begins while others are still made. */
const MESSAGE_CHARACTERS = 64 * 1024

type Statement = [sql: string, ...parameters: Parameter[]]
type Step = 'begin' | 'run' | 'commit' | 'undo' | 'scrub' | 'truncate' | 'close'

/** What a step needs. */
interface Rest {
  statements?: Statement[]
  first?: number
  count?: number
}

interface Answer {
  id: number
  error: string | undefined
  changes: number
}

interface Waiting {
  resolve: (changes: number) => void
  reject: (error: Error) => void
}

let thread: Worker | undefined
let lastId = 0
const waiting = new Map<number, Waiting>()

function running(): Worker {
  if (thread !== undefined) return thread
  const driver = createRequire(import.meta.url).resolve('libsql')
  // The thread needs none of this process's Node options (for example a TypeScript loader).
  const started = new Worker(THREAD, {
    eval: true,
    execArgv: [],
    workerData: { driver, settings: SETTINGS, timeout: LOCK_WAIT_MS },
  })
  started.unref()
  started.on('message', ({ id, error, changes }: Answer) => {
    const asked = take(id)
    if (error === undefined) asked?.resolve(changes)
    else asked?.reject(new Error(error))
  })
  let reason = 'the thread that writes has ended'
  started.on('error', (error) => {
    reason = `the thread that writes has ended: ${error.message}`
  })
  started.on('exit', () => {
    if (thread === started) thread = undefined
    for (const id of [...waiting.keys()]) take(id)?.reject(new Error(reason))
  })
  thread = started
  return started
}

function take(id: number): Waiting | undefined {
  const asked = waiting.get(id)
  waiting.delete(id)
  // Only a thread that owes an answer keeps the process alive.
  if (waiting.size === 0) thread?.unref()
  return asked
}

/** The writer of a file, which must exist. Its connection is opened at the first transaction. */
export function threadWriter(file: string, durability: Durability): ThreadWriter {
  /** The thread that has a connection to the file. */
  let connected: Worker | undefined

  function post(step: Step, rest: Rest & { id?: number } = {}): void {
    connected?.postMessage({ file, durability, step, ...rest })
  }

  function ask(step: Step, rest: Rest = {}): Promise<number> {
    if (connected === undefined || connected !== thread) {
      return Promise.reject(new Error('the thread that writes has ended'))
    }
    return new Promise((resolve, reject) => {
      lastId += 1
      waiting.set(lastId, { resolve, reject })
      connected?.ref()
      post(step, { ...rest, id: lastId })
    })
  }

  return {
    async transaction(work) {
      connected = running()
      post('begin')
      let statements: Statement[] = []
      let characters = 0
      // Few large messages: each one costs as much as a small statement.
      function send(): void {
        if (statements.length > 0) post('run', { statements })
        statements = []
        characters = 0
      }
      try {
        await work((sql, ...parameters) => {
          statements.push([sql, ...parameters])
          for (const value of parameters) characters += typeof value === 'string' ? value.length : 0
          if (characters > MESSAGE_CHARACTERS) send()
        }, send)
      } catch (error) {
        await ask('undo').catch(() => {})
        throw error
      }
      send()
      return ask('commit')
    },
    scrub(first, count) {
      connected = running()
      return ask('scrub', { first, count })
    },
    async truncate() {
      connected = running()
      return (await ask('truncate')) === 0
    },
    async close() {
      if (connected !== undefined && connected === thread) await ask('close')
      connected = undefined
    },
  }
}
