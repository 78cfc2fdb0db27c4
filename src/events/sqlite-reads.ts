/** How the embedded log is read: in pages, so that a long log is never in memory, and for ever. */
import { BrokenFile, isBroken, type Query, type Sqlite, select, selectColumn } from '../sqlite.ts'
import {
  LOG_START,
  type Position,
  type ReadAllOptions,
  type ReadStreamOptions,
  type RecordedEvent,
  StoreUnavailable,
  type SubscribeOptions,
} from './event-store.ts'
import { type EventRow, toEvent } from './sqlite-log.ts'

const PAGE = 1000
/** Events are small, but a text may have megabytes: no more of them is held at once. */
const PAGE_BYTES = 8 * 1024 * 1024
/** How often is looked whether another process (`mergelog upgrade follow`) has appended: none tells this one. */
const FOREIGN_MS = 250

/** The reading half of the store. */
export function createReads(db: Sqlite, file: string) {
  const statement = {
    last: select<[], { position: number }>(db, 'SELECT max(position) AS position FROM events'),
    streamForwards: select<[string, number, number], EventRow>(
      db,
      `SELECT position, name AS stream, events.revision, events.id, type, data, metadata
       FROM streams JOIN events ON events.stream = streams.id
       WHERE name = ? AND events.revision >= ? ORDER BY events.revision LIMIT ?`,
    ),
    streamBackwards: select<[string, number, number], EventRow>(
      db,
      `SELECT position, name AS stream, events.revision, events.id, type, data, metadata
       FROM streams JOIN events ON events.stream = streams.id
       WHERE name = ? AND events.revision <= ? ORDER BY events.revision DESC LIMIT ?`,
    ),
    allForwards: select<[number, number], EventRow>(
      db,
      `SELECT position, name AS stream, events.revision, events.id, type, data, metadata
       FROM events JOIN streams ON streams.id = events.stream
       WHERE position > ? ORDER BY position LIMIT ?`,
    ),
    allBackwards: select<[number, number], EventRow>(
      db,
      `SELECT position, name AS stream, events.revision, events.id, type, data, metadata
       FROM events JOIN streams ON streams.id = events.stream
       WHERE position < ? ORDER BY position DESC LIMIT ?`,
    ),
    positions: select<[string], EventRow>(
      db,
      `SELECT position, name AS stream, events.revision, events.id, events.type, data, metadata
       FROM json_each(?) AS wanted CROSS JOIN events ON position = wanted.value
       JOIN streams ON streams.id = events.stream ORDER BY wanted.key`,
    ),
  }

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
  function read<T>(query: () => T, where = ''): T {
    if (closed) throw new StoreUnavailable('the event log is closed')
    try {
      return query()
    } catch (error) {
      if (isBroken(error)) throw new BrokenFile(file, `${error.message}${where}`, { cause: error })
      const reason = error instanceof Error ? error.message : String(error)
      throw new StoreUnavailable(`the event log can't be read: ${reason}`, { cause: error })
    }
  }

  /** A page of rows, of fewer than asked for when their data is large; whether there may be more of them. */
  function page<P extends unknown[]>(
    query: Query<P, EventRow>,
    limit: number,
    where: string,
    ...parameters: P
  ) {
    return read(() => {
      const rows: EventRow[] = []
      let bytes = 0
      try {
        for (const row of query.iterate(...parameters)) {
          rows.push(row)
          bytes += sizeOf(row)
          if (bytes > PAGE_BYTES) break
        }
      } catch (error) {
        // What stands before the damage is read; the next page then begins with it.
        if (!isBroken(error) || rows.length === 0) throw error
        return { rows, isLast: false }
      }
      return { rows, isLast: rows.length < limit && bytes <= PAGE_BYTES }
    }, where)
  }

  async function* readStream(stream: string, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    const forwards = options.direction !== 'backwards'
    const query = forwards ? statement.streamForwards : statement.streamBackwards
    let from = options.from ?? (forwards ? 0 : Number.MAX_SAFE_INTEGER)
    let left = options.maxCount ?? Number.MAX_SAFE_INTEGER
    while (left > 0) {
      const limit = Math.min(left, PAGE)
      const where = ` (stream ${stream}, at revision ${from})`
      const { rows, isLast } = page(query, limit, where, stream, from, limit)
      for (const row of rows) {
        yield toEvent(file, row)
        from = row.revision + (forwards ? 1 : -1)
      }
      if (isLast) return
      left -= rows.length
    }
  }

  async function* readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    const forwards = options.direction !== 'backwards'
    const query = forwards ? statement.allForwards : statement.allBackwards
    let from = options.from ?? (forwards ? LOG_START : Number.MAX_SAFE_INTEGER)
    let left = options.maxCount ?? Number.MAX_SAFE_INTEGER
    while (left > 0) {
      const limit = Math.min(left, PAGE)
      const { rows, isLast } = page(query, limit, besides(from, forwards), from, limit)
      for (const row of rows) {
        yield toEvent(file, row)
        from = row.position
      }
      if (isLast) return
      left -= rows.length
    }
  }

  async function* readPositions(positions: readonly Position[]): AsyncIterable<RecordedEvent> {
    let left = positions
    while (left.length > 0) {
      const asked = left.slice(0, PAGE)
      const where = ` (from position ${asked[0]})`
      const { rows, isLast } = page(statement.positions, PAGE + 1, where, JSON.stringify(asked))
      for (const row of rows) yield toEvent(file, row)
      const last = rows.at(-1)
      left = left.slice(isLast || last === undefined ? asked.length : asked.indexOf(last.position) + 1)
    }
  }

  async function* subscribe(options: SubscribeOptions): AsyncIterable<RecordedEvent[]> {
    const { signal, batchSize = PAGE } = options
    let after: Position = options.after
    signal.addEventListener('abort', wake)
    try {
      while (!signal.aborted) {
        const { rows } = page(statement.allForwards, batchSize, besides(after, true), after, batchSize)
        const last = rows.at(-1)
        if (last === undefined) {
          await new Promise<void>((resolve) => wakeSubscribers.push(resolve))
          continue
        }
        yield rows.map((row) => toEvent(file, row))
        after = last.position
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
  ` (${forwards ? 'after' : 'before'} position ${position})`

/** Roughly, in memory. A damaged row may have columns of other types; `toEvent` refuses it. */
function sizeOf({ data, metadata }: EventRow): number {
  const size = data?.length + metadata?.length
  return Number.isNaN(size) ? 0 : size
}
