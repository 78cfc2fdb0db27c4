import {
  type Bytes,
  closeOnError,
  isConstraint,
  type Sqlite,
  select,
  selectTuples,
  textOf,
} from '../sqlite.ts'
import { lastHashOf, link, STREAM_START, type StreamEnd } from './chain.ts'
import {
  type Appended,
  type EventStore,
  type ExpectedRevision,
  LOG_START,
  type NewEvent,
  StoreUnavailable,
  WrongExpectedRevision,
} from './event-store.ts'
import { BrokenEvent, EVENT_COLUMNS, type EventTuple, openLogFile, toEvent } from './sqlite-log.ts'
import { createReads } from './sqlite-reads.ts'

/** The embedded log: one SQLite file in WAL mode. Every commit is on disk before it is acknowledged. */

interface StreamRow {
  id: number
  revision: number
  hash: Bytes | null
}

interface PendingAppend {
  stream: string
  events: readonly NewEvent[]
  expected: ExpectedRevision
  resolve: (appended: Appended) => void
  reject: (error: Error) => void
}

/**
 * Opens or creates the log in `file`. `linked` is false to store events unchanged, without linking them to the hash
 * chain of their stream.
 * @throws BrokenFile when it is not a log, or is damaged at its beginning
 */
export function openSqliteEventStore(file: string, { linked = true } = {}): EventStore {
  const db = openLogFile(file)
  const { statement, reads } = closeOnError(file, [db], () => ({
    statement: prepareAppends(db),
    // Last, because it starts a timer.
    reads: createReads(db, file),
  }))
  const { wake, close: endReads, ...reading } = reads

  let pending: PendingAppend[] = []
  let closed = false

  /** The place of the last event when this append was already made; undefined when it was not. */
  function recordedBefore(stream: StreamRow, append: PendingAppend): Appended | undefined {
    const places = append.events.map((event) => statement.place.get(stream.id, event.id))
    const first = places[0]
    if (first === undefined) return undefined
    const { expected } = append
    const start = typeof expected === 'number' ? expected + 1 : expected === 'no-stream' ? 0 : first.revision
    const inOrder = places.every((place, i) => place?.revision === start + i)
    const last = places.at(-1)
    // Copy the fields: the driver adds a property of its own to each row.
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
    let { revision, hash } = stream === undefined ? STREAM_START : endOf(stream)
    let position = LOG_START
    for (const event of events) {
      const next = linked ? link(name, { revision, hash }, event) : unlinked(event)
      revision += 1
      hash = next.hash
      const row = statement.addEvent.run(id, revision, event.id, event.type, next.data, next.metadata)
      position = Number(row.lastInsertRowid)
    }
    statement.moveStream.run(revision, hash, id)
    return { revision, position }
  }

  function endOf({ id, revision, hash }: StreamRow): StreamEnd {
    const known = hash === null ? undefined : textOf(hash)
    if (known !== undefined || !linked) return { revision, hash: known ?? null }
    // The row lacks the hash (in an older log) or it is damaged: read the last event.
    const [row] = statement.event.iterate(id, revision)
    return { revision, hash: row === undefined ? null : lastHashOf(toEvent(file, row)) }
  }

  /** Commits all appends of one tick in one transaction, so that they share one flush to disk. */
  function commitPending(): void {
    // `close` commits without waiting for the tick, so the planned call may find nothing.
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
          const known = error instanceof WrongExpectedRevision || error instanceof BrokenEvent
          if (!known && !isConstraint(error)) throw error
          statement.undo.run()
          const refusal = known ? error : duplicateId(append)
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

  /** The error for an append with an id that is already in the stream, but at another place than a repeated append. */
  function duplicateId({ stream, expected }: PendingAppend): WrongExpectedRevision {
    return new WrongExpectedRevision(stream, expected, statement.stream.get(stream)?.revision ?? null)
  }

  function rollBack(): void {
    try {
      if (db.inTransaction) db.exec('ROLLBACK')
    } catch {
      // The disk that refused the commit may refuse the rollback, too. Nothing is committed in either case. If the
      // transaction is still open, the next BEGIN fails and reports it.
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
    ...reading,
    async close() {
      if (closed) return
      if (pending.length > 0) commitPending()
      closed = true
      endReads()
      db.close()
    },
  }
}

function prepareAppends(db: Sqlite) {
  return {
    stream: select<[string], StreamRow>(
      db,
      'SELECT id, CAST(revision AS INTEGER) AS revision, CAST(hash AS BLOB) AS hash FROM streams WHERE name = ?',
    ),
    addStream: db.prepare('INSERT INTO streams (name, revision) VALUES (?, -1)'),
    moveStream: db.prepare('UPDATE streams SET revision = ?, hash = ? WHERE id = ?'),
    addEvent: db.prepare(
      'INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (?, ?, ?, ?, ?, ?)',
    ),
    place: select<[number, string], Appended>(
      db,
      'SELECT CAST(revision AS INTEGER) AS revision, position FROM events WHERE stream = ? AND id = ?',
    ),
    begin: db.prepare('SAVEPOINT append'),
    undo: db.prepare('ROLLBACK TO append'),
    end: db.prepare('RELEASE append'),
    event: selectTuples<[number, number], EventTuple>(
      db,
      `SELECT ${EVENT_COLUMNS} FROM streams JOIN events ON events.stream = streams.id
       WHERE streams.id = ? AND events.revision = ?`,
    ),
  }
}

function unlinked({ data, metadata }: NewEvent) {
  return { hash: metadata.hash ?? null, data: JSON.stringify(data), metadata: JSON.stringify(metadata) }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
