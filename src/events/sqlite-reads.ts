/** How the embedded log is read: in pages, so that a long log is never in memory, and for ever. */
import { BrokenFile, isBroken, type Sqlite, select, selectColumn, selectTuples } from '../sqlite.ts'
import {
  LOG_START,
  type Position,
  type ReadAllOptions,
  type ReadStreamOptions,
  type RecordedEvent,
  StoreUnavailable,
  type SubscribeOptions,
} from './event-store.ts'
import { EVENT_COLUMNS, type EventTuple, toEvent } from './sqlite-log.ts'
import { eventRuns } from './sqlite-runs.ts'

const PAGE = 1000
/** Events are small, but a text may have megabytes: no more of them is held at once. */
const PAGE_BYTES = 8 * 1024 * 1024
/** How often is looked whether another process (`mergelog upgrade follow`) has appended: none tells this one. */
const FOREIGN_MS = 250

/** Of a row. */
const POSITION = 0
const REVISION = 1
const BYTES = 7

interface Page {
  rows: EventTuple[]
  /** Whether there are more of those asked for: they are large, or damage comes next. */
  isCut: boolean
  /** Whether none comes after them. */
  isLast: boolean
}

/** The reading half of the store. */
export function createReads(db: Sqlite, file: string) {
  const statement = {
    last: select<[], { position: number }>(db, 'SELECT max(position) AS position FROM events'),
    streamForwards: selectTuples<[string, number, number], EventTuple>(
      db,
      `SELECT ${EVENT_COLUMNS} FROM streams JOIN events ON events.stream = streams.id
       WHERE name = ? AND events.revision >= ? ORDER BY events.revision LIMIT ?`,
    ),
    streamBackwards: selectTuples<[string, number, number], EventTuple>(
      db,
      `SELECT ${EVENT_COLUMNS} FROM streams JOIN events ON events.stream = streams.id
       WHERE name = ? AND events.revision <= ? ORDER BY events.revision DESC LIMIT ?`,
    ),
    allBackwards: selectTuples<[number, number], EventTuple>(
      db,
      `SELECT ${EVENT_COLUMNS} FROM events JOIN streams ON streams.id = events.stream
       WHERE position < ? ORDER BY position DESC LIMIT ?`,
    ),
    positions: selectTuples<[string], EventTuple>(
      db,
      `SELECT ${EVENT_COLUMNS} FROM json_each(?) AS wanted CROSS JOIN events ON position = wanted.value
       JOIN streams ON streams.id = events.stream ORDER BY wanted.key`,
    ),
  }

  const allForwards = eventRuns(db)

  let wakeSubscribers: (() => void)[] = []
  let closed = false

  // Counts the commits of other connections, without a look at the file.
  const foreignCommits = selectColumn<[], number>(db, 'PRAGMA data_version')
  let seenCommits = foreignCommits.get()
  const lookout = setInterval(() => {
    try {
      const commits = foreignCommits.get()
      if (commits === seenCommits) return
      seenCommits = commits
    } catch {
      // The subscribers' own read says what is wrong.
    }
    wake()
  }, FOREIGN_MS).unref()

  /** Runs a read; what SQLite can't do now is StoreUnavailable, what it never will is BrokenFile. */
  function read<T>(query: () => T): T {
    if (closed) throw new StoreUnavailable('the event log is closed')
    try {
      return query()
    } catch (error) {
      if (error instanceof BrokenFile) throw error
      if (isBroken(error)) throw new BrokenFile(file, error.message, { cause: error })
      const reason = error instanceof Error ? error.message : String(error)
      throw new StoreUnavailable(`the event log can't be read: ${reason}`, { cause: error })
    }
  }

  /**
   * A page of rows, of fewer than asked for when their data is large; whether there may be more of them. What
   * stands before damage is read, whichever pages SQLite reads ahead: so fewer and fewer are asked for.
   */
  function page(ask: (limit: number) => Iterable<EventTuple>, limit: number, where: string): Page {
    const rows: EventTuple[] = []
    let bytes = 0
    try {
      for (const row of ask(limit)) {
        rows.push(row)
        bytes += row[BYTES].byteLength
        if (bytes > PAGE_BYTES) break
      }
    } catch (error) {
      if (!isBroken(error)) throw error
      if (rows.length > 0) return { rows, isCut: true, isLast: false }
      if (limit === 1) throw new BrokenFile(file, `${error.message}${where}`, { cause: error })
      return page(ask, Math.floor(limit / 2), where)
    }
    const isCut = bytes > PAGE_BYTES
    return { rows, isCut, isLast: rows.length < limit && !isCut }
  }

  async function* readStream(stream: string, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    const forwards = options.direction !== 'backwards'
    const query = forwards ? statement.streamForwards : statement.streamBackwards
    let from = options.from ?? (forwards ? 0 : Number.MAX_SAFE_INTEGER)
    let left = options.maxCount ?? Number.MAX_SAFE_INTEGER
    while (left > 0) {
      const limit = Math.min(left, PAGE)
      const where = ` (stream ${stream}, at revision ${from})`
      const start = from
      const { rows, isLast } = read(() => page((n) => query.iterate(stream, start, n), limit, where))
      for (const row of rows) {
        yield toEvent(file, row)
        from = row[REVISION] + (forwards ? 1 : -1)
      }
      if (isLast) return
      left -= rows.length
    }
  }

  async function* readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    const forwards = options.direction !== 'backwards'
    const query = forwards ? allForwards : statement.allBackwards.iterate
    let from = options.from ?? (forwards ? LOG_START : Number.MAX_SAFE_INTEGER)
    let left = options.maxCount ?? Number.MAX_SAFE_INTEGER
    while (left > 0) {
      const limit = Math.min(left, PAGE)
      const start = from
      const where = besides(start, forwards)
      const { rows, isLast } = read(() => page((n) => query(start, n), limit, where))
      for (const row of rows) {
        yield toEvent(file, row, options.withText)
        from = row[POSITION]
      }
      if (isLast) return
      left -= rows.length
    }
  }

  async function* readPositions(positions: readonly Position[]): AsyncIterable<RecordedEvent> {
    let left = positions
    while (left.length > 0) {
      let asked: readonly Position[] = []
      const ask = (n: number) => {
        asked = left.slice(0, n)
        return statement.positions.iterate(JSON.stringify(asked))
      }
      const { rows, isCut } = read(() => page(ask, PAGE, ` (at position ${left[0]})`))
      for (const row of rows) yield toEvent(file, row)
      const last = rows.at(-1)
      left = left.slice(isCut && last !== undefined ? asked.indexOf(last[POSITION]) + 1 : asked.length)
    }
  }

  async function* subscribe(options: SubscribeOptions): AsyncIterable<RecordedEvent[]> {
    const { signal, batchSize = PAGE } = options
    let after: Position = options.after
    signal.addEventListener('abort', wake)
    try {
      while (!signal.aborted) {
        const start = after
        const { rows } = read(() => page((n) => allForwards(start, n), batchSize, besides(start, true)))
        const last = rows.at(-1)
        if (last === undefined) {
          await new Promise<void>((resolve) => wakeSubscribers.push(resolve))
          continue
        }
        yield rows.map((row) => toEvent(file, row))
        after = last[POSITION]
        // A reader that catches up on a long log must let requests through between two batches.
        await new Promise((resolve) => setImmediate(resolve))
      }
    } finally {
      signal.removeEventListener('abort', wake)
    }
  }

  /** Tells the subscribers that there is more, or that it is over. */
  function wake(): void {
    const waiting = wakeSubscribers
    wakeSubscribers = []
    for (const resolve of waiting) resolve()
  }

  return {
    readStream,
    readAll,
    readPositions,
    subscribe,
    async lastPosition() {
      return read(() => statement.last.get()?.position ?? LOG_START)
    },
    wake,
    /** Every read fails from now on, those that wait too. */
    close(): void {
      closed = true
      clearInterval(lookout)
      wake()
    },
  }
}

const besides = (position: Position, forwards: boolean) =>
  forwards ? ` (at position ${position + 1})` : ` (before position ${position})`
