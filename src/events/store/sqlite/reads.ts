/** The reads of the embedded log: in pages, which bound the memory, and as subscriptions. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import {
  BrokenFile,
  isBroken,
  mayBeUnreadable,
  ROWS,
  type Sqlite,
  select,
  selectColumn,
  selectTuples,
} from '../../../storage/sqlite/sqlite.ts'
import {
  LOG_START,
  type Position,
  type ReadAllOptions,
  type ReadStreamOptions,
  type RecordedEvent,
  StoreUnavailable,
  type SubscribeOptions,
} from '../event-store.ts'
import { EVENT_COLUMNS, type EventTuple, toEvent } from './log.ts'
import { eventRuns } from './runs.ts'
import type { Part, Tail } from './tail.ts'

const PAGE = 1000
/** Maximum size of a page, in bytes: a page of large texts must not block the event loop for long. */
const PAGE_BYTES = 512 * 1024
/**
 * Interval of checks for appends of another process (`mergelog upgrade follow`), in milliseconds: SQLite doesn't notify
 * this process.
 */
const OTHER_PROCESS_POLL_MS = 250

/** The indexes of columns in a row. */
const POSITION = 0
const REVISION = 1
const BYTES = 7

interface Page {
  rows: EventTuple[]
  /** Whether the page ends early, because its rows are large or the next one is damaged. */
  isCut: boolean
  /** Whether this is the last page. */
  isLast: boolean
  /** The requested number of rows. */
  limit: number
}

interface Sleeper {
  /** Whether it may have new events. */
  isCalled(): boolean
  wake(): void
}

/**
 * Prepares the reads of the store, and polls for appends of other processes. `isAppending`: whether this process is
 * appending.
 */
export function createReads(db: Sqlite, file: string, tail: Tail, isAppending: () => boolean) {
  const ofStream = (revisions: string) =>
    selectTuples<[string, number, number], EventTuple>(
      db,
      `SELECT ${EVENT_COLUMNS} FROM streams JOIN events ON events.stream = streams.id
       WHERE name = ? AND events.revision ${revisions} LIMIT ${ROWS}`,
    )
  const statement = {
    last: select<[], { position: number }>(db, 'SELECT max(position) AS position FROM events'),
    streamForwards: ofStream('>= ? ORDER BY events.revision'),
    streamBackwards: ofStream('<= ? ORDER BY events.revision DESC'),
    allBackwards: selectTuples<[number, number], EventTuple>(
      db,
      `SELECT ${EVENT_COLUMNS} FROM events JOIN streams ON streams.id = events.stream
       WHERE position < ? ORDER BY position DESC LIMIT ${ROWS}`,
    ),
    positions: selectTuples<[string], EventTuple>(
      db,
      `SELECT ${EVENT_COLUMNS} FROM json_each(?) AS wanted CROSS JOIN events ON position = wanted.value
       JOIN streams ON streams.id = events.stream ORDER BY wanted.key`,
    ),
  }

  const allForwards = eventRuns(db)

  /** Subscribers at the end of the log. */
  let asleep: Sleeper[] = []
  let closed = false

  // A counter of other connections' commits, including this process's appends. Reading it needs no file access.
  const otherCommits = selectColumn<[], number>(db, 'PRAGMA data_version')
  let seenCommits = otherCommits.get()
  const pollTimer = setInterval(() => {
    // An append detects other writers itself.
    if (isAppending()) return
    try {
      const commits = otherCommits.get()
      if (commits === seenCommits) return
      seenCommits = commits
      if (tail.isEnd(statement.last.get()?.position ?? LOG_START)) return
    } catch {
      // Wake the subscribers: their own read reports the error.
    }
    tail.clear()
    wake()
  }, OTHER_PROCESS_POLL_MS).unref()

  const isDamage = (error: unknown): error is Error => isBroken(error) && !mayBeUnreadable(file, error)

  /** Runs a read. @throws StoreUnavailable when SQLite cannot do it now @throws BrokenFile when the file is damaged */
  function read<T>(query: () => T): T {
    if (closed) throw new StoreUnavailable('the event log is closed')
    try {
      return query()
    } catch (error) {
      if (error instanceof BrokenFile) throw error
      if (isDamage(error)) throw new BrokenFile(file, error.message, { cause: error })
      const reason = error instanceof Error ? error.message : String(error)
      throw new StoreUnavailable(`the event log can't be read: ${reason}`, { cause: error })
    }
  }

  /**
   * Reads one page of at most `limit` rows; fewer when their texts are large. SQLite reads ahead, so damage makes it
   * fail before it returns the good rows in front of it. Then the page is read again with half the limit.
   */
  function page(selectRows: (limit: number) => Iterable<EventTuple>, limit: number, place: string): Page {
    const rows: EventTuple[] = []
    let bytes = 0
    try {
      for (const row of selectRows(limit)) {
        rows.push(row)
        bytes += row[BYTES].byteLength
        if (bytes > PAGE_BYTES) break
      }
    } catch (error) {
      if (!isDamage(error)) throw error
      if (rows.length > 0) return { rows, isCut: true, isLast: false, limit }
      if (limit === 1) throw new BrokenFile(file, `${error.message}${place}`, { cause: error })
      return page(selectRows, Math.floor(limit / 2), place)
    }
    const isCut = bytes > PAGE_BYTES
    return { rows, isCut, isLast: rows.length < limit && !isCut, limit }
  }

  async function* readStream(stream: string, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    const forwards = options.direction !== 'backwards'
    const query = forwards ? statement.streamForwards : statement.streamBackwards
    let from = options.from ?? (forwards ? 0 : Number.MAX_SAFE_INTEGER)
    let left = options.maxCount ?? Number.MAX_SAFE_INTEGER
    while (left > 0) {
      const limit = Math.min(left, PAGE)
      const place = ` (stream ${stream}, at revision ${from})`
      const start = from
      const { rows, isLast } = read(() => page((n) => query.iterate(stream, start, n), limit, place))
      for (const row of rows) {
        yield toEvent(file, row)
        from = row[REVISION] + (forwards ? 1 : -1)
      }
      if (isLast) return
      left -= rows.length
      await nextIteration()
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
      const place = placeNear(start, forwards)
      const { rows, isLast } = read(() => page((n) => query(start, n), limit, place))
      for (const row of rows) {
        yield toEvent(file, row, options.withText)
        from = row[POSITION]
      }
      if (isLast) return
      left -= rows.length
      await nextIteration()
    }
  }

  async function* readPositions(positions: readonly Position[]): AsyncIterable<RecordedEvent> {
    let left = positions
    while (left.length > 0) {
      const wanted = left
      const selectWanted = (n: number) => statement.positions.iterate(JSON.stringify(wanted.slice(0, n)))
      const { rows, isCut, limit } = read(() => page(selectWanted, PAGE, ` (at position ${left[0]})`))
      for (const row of rows) yield toEvent(file, row)
      const last = rows.at(-1)
      left = wanted.slice(isCut && last !== undefined ? wanted.indexOf(last[POSITION]) + 1 : limit)
    }
  }

  /** Returns the next part of the log, from memory if possible. @throws as `read` */
  function partAfter(position: Position, limit: number, unwanted: SubscribeOptions['unwanted']): Part {
    const known = tail.after(position, limit, unwanted)
    if (!closed && (known.through > position || tail.isEnd(position))) return known
    let end = position
    const passed = (at: Position) => {
      end = at
    }
    const place = placeNear(position, true)
    const { rows, isCut } = read(() =>
      page((n) => allForwards(position, n, { unwanted, passed }), limit, place),
    )
    const events = rows.map((row) => toEvent(file, row))
    return { events, through: isCut ? (events.at(-1)?.position ?? position) : end }
  }

  async function* subscribe(options: SubscribeOptions): AsyncIterable<RecordedEvent[]> {
    const { signal, batchSize = PAGE, unwanted, passed = () => {} } = options
    let after: Position = options.after

    function isCalled(): boolean {
      if (signal.aborted || closed || unwanted === undefined) return true
      const through = tail.passable(after, unwanted)
      if (through === undefined) return !tail.isEnd(after)
      after = through
      passed(after)
      return false
    }

    // A new function, because a signal adds a listener only once, and another subscription with this signal may end first.
    const ended = () => wake()
    signal.addEventListener('abort', ended)
    try {
      while (!signal.aborted) {
        const { events, through } = partAfter(after, batchSize, unwanted)
        if (through === after) {
          await new Promise<void>((wake) => asleep.push({ isCalled, wake }))
          continue
        }
        if (events.length > 0) yield events
        after = through
        if (through > (events.at(-1)?.position ?? LOG_START)) passed(through)
        // Let requests run between two batches.
        await new Promise((resolve) => setImmediate(resolve))
      }
    } finally {
      signal.removeEventListener('abort', ended)
    }
  }

  /** Wakes the waiting subscribers that have new events or end. */
  function wake(): void {
    const waiting = asleep
    asleep = []
    for (const one of waiting) {
      if (one.isCalled()) one.wake()
      else asleep.push(one)
    }
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
    /** Fails all later reads, and waiting subscriptions. */
    close(): void {
      closed = true
      clearInterval(pollTimer)
      wake()
    },
  }
}

/** Names the place of a read in error messages. */
const placeNear = (position: Position, forwards: boolean) =>
  forwards ? ` (at position ${position + 1})` : ` (before position ${position})`
