/** The embedded log: one SQLite file, WAL, every commit on disk before it is acknowledged. */
import { isConstraint, openSqlite, type Query, select } from '../sqlite.ts'
import {
  type Appended,
  type EventMetadata,
  type EventStore,
  type ExpectedRevision,
  LOG_START,
  type NewEvent,
  type Position,
  type ReadAllOptions,
  type ReadStreamOptions,
  type RecordedEvent,
  StoreUnavailable,
  type SubscribeOptions,
  WrongExpectedRevision,
} from './event-store.ts'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS streams (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    stream INTEGER NOT NULL REFERENCES streams (id),
    revision INTEGER NOT NULL,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    metadata TEXT NOT NULL
  );
  CREATE UNIQUE INDEX IF NOT EXISTS events_by_revision ON events (stream, revision);
  CREATE UNIQUE INDEX IF NOT EXISTS events_by_id ON events (stream, id);
`

const PAGE = 1000
/** Events are small, but a text may have megabytes: no more of them is held at once. */
const PAGE_BYTES = 8 * 1024 * 1024

interface EventRow {
  position: number
  stream: string
  revision: number
  id: string
  type: string
  data: string
  metadata: string
}

interface StreamRow {
  id: number
  revision: number
}

interface PlaceRow {
  revision: number
  position: number
}

interface PendingAppend {
  stream: string
  events: readonly NewEvent[]
  expected: ExpectedRevision
  resolve: (appended: Appended) => void
  reject: (error: Error) => void
}

/** Opens (or makes) the log in `file`. */
export function openSqliteEventStore(file: string): EventStore {
  const db = openSqlite(file, 'FULL')
  db.exec(SCHEMA)

  const statement = {
    stream: select<[string], StreamRow>(db, 'SELECT id, revision FROM streams WHERE name = ?'),
    addStream: db.prepare('INSERT INTO streams (name, revision) VALUES (?, -1)'),
    moveStream: db.prepare('UPDATE streams SET revision = ? WHERE id = ?'),
    addEvent: db.prepare(
      'INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (?, ?, ?, ?, ?, ?)',
    ),
    place: select<[number, string], PlaceRow>(
      db,
      'SELECT revision, position FROM events WHERE stream = ? AND id = ?',
    ),
    begin: db.prepare('SAVEPOINT append'),
    undo: db.prepare('ROLLBACK TO append'),
    end: db.prepare('RELEASE append'),
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
  }

  let pending: PendingAppend[] = []
  let wakeSubscribers: (() => void)[] = []
  let closed = false

  /** Where the events of an append stand already, if all of them do; undefined when none does. */
  function recordedBefore(stream: StreamRow, append: PendingAppend): PlaceRow | undefined {
    const places = append.events.map((event) => statement.place.get(stream.id, event.id))
    const first = places[0]
    if (first === undefined) return undefined
    const { expected } = append
    const start = typeof expected === 'number' ? expected + 1 : expected === 'no-stream' ? 0 : first.revision
    const inOrder = places.every((place, i) => place?.revision === start + i)
    const last = places.at(-1)
    // The driver adds a property of its own to what it gets.
    return inOrder && last !== undefined ? { revision: last.revision, position: last.position } : undefined
  }

  function appendNow(append: PendingAppend): Appended {
    const { stream: name, events, expected } = append
    const stream = statement.stream.get(name)
    const actual = stream?.revision ?? null
    if (stream !== undefined) {
      const before = recordedBefore(stream, append)
      if (before !== undefined) return before
    }
    const asExpected =
      expected === 'any' ||
      (expected === 'no-stream' && actual === null) ||
      (expected === 'stream-exists' && actual !== null) ||
      expected === actual
    if (!asExpected) throw new WrongExpectedRevision(name, expected, actual)

    const id = stream?.id ?? Number(statement.addStream.run(name).lastInsertRowid)
    let revision = actual ?? -1
    let position = LOG_START
    for (const event of events) {
      revision += 1
      const row = statement.addEvent.run(
        id,
        revision,
        event.id,
        event.type,
        JSON.stringify(event.data),
        JSON.stringify(event.metadata),
      )
      position = Number(row.lastInsertRowid)
    }
    statement.moveStream.run(revision, id)
    return { revision, position }
  }

  /** All appends of one tick share a transaction, and so one flush to disk. */
  function commitPending(): void {
    // Closing commits at once, so that the turn that was planned for it finds nothing.
    if (pending.length === 0) return
    const batch = pending
    pending = []
    const answers: (() => void)[] = []
    try {
      db.exec('BEGIN IMMEDIATE')
      for (const append of batch) {
        statement.begin.run()
        try {
          const appended = appendNow(append)
          answers.push(() => append.resolve(appended))
        } catch (error) {
          if (!(error instanceof WrongExpectedRevision) && !isConstraint(error)) throw error
          statement.undo.run()
          const refusal = error instanceof WrongExpectedRevision ? error : halfRecorded(append)
          answers.push(() => append.reject(refusal))
        }
        statement.end.run()
      }
      db.exec('COMMIT')
    } catch (error) {
      rollBack()
      const unavailable = new StoreUnavailable(`the event log can't be written: ${asError(error).message}`, {
        cause: error,
      })
      for (const append of batch) append.reject(unavailable)
      return
    }
    for (const answer of answers) answer()
    wake()
  }

  /** For an id that stands in the stream already, though not where a repeated append would have it. */
  function halfRecorded({ stream, expected }: PendingAppend): WrongExpectedRevision {
    return new WrongExpectedRevision(stream, expected, statement.stream.get(stream)?.revision ?? null)
  }

  function rollBack(): void {
    try {
      if (db.inTransaction) db.exec('ROLLBACK')
    } catch {
      // The disk that refused the commit may refuse this too. Nothing of it is committed either way, and
      // the next BEGIN says so again if it is still open.
    }
  }

  function wake(): void {
    const waiting = wakeSubscribers
    wakeSubscribers = []
    for (const resolve of waiting) resolve()
  }

  /** Runs a read; what SQLite can't do now is StoreUnavailable. */
  function read<T>(query: () => T): T {
    if (closed) throw new StoreUnavailable('the event log is closed')
    try {
      return query()
    } catch (error) {
      throw new StoreUnavailable(`the event log can't be read: ${asError(error).message}`, { cause: error })
    }
  }

  /** A page of rows, of fewer than asked for when their data is large; whether there may be more of them. */
  function page<P extends unknown[]>(query: Query<P, EventRow>, limit: number, ...parameters: P) {
    return read(() => {
      const rows: EventRow[] = []
      let bytes = 0
      for (const row of query.iterate(...parameters)) {
        rows.push(row)
        bytes += row.data.length + row.metadata.length
        if (bytes > PAGE_BYTES) break
      }
      return { rows, isLast: rows.length < limit && bytes <= PAGE_BYTES }
    })
  }

  async function* readStream(stream: string, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    const forwards = options.direction !== 'backwards'
    const query = forwards ? statement.streamForwards : statement.streamBackwards
    let from = options.from ?? (forwards ? 0 : Number.MAX_SAFE_INTEGER)
    let left = options.maxCount ?? Number.MAX_SAFE_INTEGER
    while (left > 0) {
      const limit = Math.min(left, PAGE)
      const { rows, isLast } = page(query, limit, stream, from, limit)
      for (const row of rows) {
        yield toEvent(row)
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
      const { rows, isLast } = page(query, limit, from, limit)
      for (const row of rows) {
        yield toEvent(row)
        from = row.position
      }
      if (isLast) return
      left -= rows.length
    }
  }

  async function* subscribe(options: SubscribeOptions): AsyncIterable<RecordedEvent[]> {
    const { signal, batchSize = PAGE } = options
    let after: Position = options.after
    signal.addEventListener('abort', wake)
    try {
      while (!signal.aborted) {
        const { rows } = page(statement.allForwards, batchSize, after, batchSize)
        const last = rows.at(-1)
        if (last === undefined) {
          await new Promise<void>((resolve) => wakeSubscribers.push(resolve))
          continue
        }
        yield rows.map(toEvent)
        after = last.position
        // A reader that catches up on a long log must let requests through between two batches.
        await new Promise((resolve) => setImmediate(resolve))
      }
    } finally {
      signal.removeEventListener('abort', wake)
    }
  }

  return {
    append(stream, events, expected) {
      return new Promise((resolve, reject) => {
        if (closed) return reject(new StoreUnavailable('the event log is closed'))
        if (events.length === 0) return reject(new TypeError('an append needs at least one event'))
        pending.push({ stream, events, expected, resolve, reject })
        if (pending.length === 1) setImmediate(commitPending)
      })
    },
    readStream,
    readAll,
    subscribe,
    async lastPosition() {
      return read(() => statement.last.get()?.position ?? LOG_START)
    },
    async close() {
      if (closed) return
      if (pending.length > 0) commitPending()
      closed = true
      wake()
      db.close()
    },
  }
}

function toEvent(row: EventRow): RecordedEvent {
  const data: object = JSON.parse(row.data)
  const metadata: EventMetadata = JSON.parse(row.metadata)
  return { ...row, data, metadata }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
