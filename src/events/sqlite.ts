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
  type Append,
  type Appended,
  type EventStore,
  LOG_START,
  type NewEvent,
  StoreUnavailable,
  WrongExpectedRevision,
} from './event-store.ts'
import { BrokenEvent, EVENT_COLUMNS, type EventTuple, openLogFile, toEvent } from './sqlite-log.ts'
import { createReads } from './sqlite-reads.ts'
import { createTail, type Written } from './sqlite-tail.ts'

/** The embedded log: one SQLite file in WAL mode. Every commit is on disk before it is acknowledged. */

interface StreamRow {
  id: number
  revision: number
  hash: Bytes | null
}

/** A stream as the open transaction leaves it. */
interface OpenStream extends StreamEnd {
  id: number
}

interface Pending {
  /** Writes in the open transaction. Returns the answer, to be called when the transaction is on disk. */
  write: () => () => void
  /** The answer after a refused write was undone; undefined when it is the refusal. */
  instead: () => (() => void) | undefined
  reject: (error: unknown) => void
}

/** An append that its caller could not make. */
class NotMade extends Error {}

/** How many turns of the event loop a commit waits while more appends keep coming: one flush then serves them all. */
const MOST_TURNS = 8

/**
 * A commit waits for no more than this many appends: most of the flush is saved by then. Those who wait for later ones
 * have work for the event loop while the read models take these; if all waited for one commit, it would have none.
 */
const MOST_WAITING = 16

/** A transaction ends when its events have more characters: to hash and write long texts holds the event loop. */
const MOST_CHARACTERS = 256 * 1024

/**
 * Opens or creates the log in `file`. `linked` is false to store events unchanged, without linking them to the hash
 * chain of their stream.
 * @throws BrokenFile when it is not a log, or is damaged at its beginning
 */
export function openSqliteEventStore(file: string, { linked = true } = {}): EventStore {
  const db = openLogFile(file)
  const tail = createTail()
  const { statement, reads } = closeOnError(file, [db], () => ({
    statement: prepareAppends(db),
    // Last, because it starts a timer.
    reads: createReads(db, file, tail),
  }))
  const { wake, close: endReads, ...reading } = reads

  let pending: Pending[] = []
  let closed = false
  /** The streams that the open transaction has read or moved, and those that it has yet to write. */
  const open = new Map<string, OpenStream>()
  const moved = new Set<string>()
  /** The events of the open transaction, and about how many characters they have. */
  let written: Written[] = []
  let characters = 0
  /** What the streams were before the append that is being written. */
  const changed: [name: string, before: OpenStream | undefined][] = []

  /** The place of the last event when this append was already made; undefined when it was not. */
  function recordedBefore({ stream: name, events, expected }: Append): Appended | undefined {
    const stream = statement.stream.get(name)
    if (stream === undefined) return undefined
    const places = events.map((event) => statement.place.get(stream.id, event.id))
    const first = places[0]
    if (first === undefined) return undefined
    const start = typeof expected === 'number' ? expected + 1 : expected === 'no-stream' ? 0 : first.revision
    const inOrder = places.every((place, i) => place?.revision === start + i)
    const last = places.at(-1)
    // Copy the fields: the driver adds a property of its own to each row.
    return inOrder && last !== undefined ? { revision: last.revision, position: last.position } : undefined
  }

  /** @throws WrongExpectedRevision when the stream is elsewhere, or has one of the ids */
  function appendNow({ stream: name, events, expected }: Append): Appended {
    const stream = open.get(name) ?? storedEnd(name)
    const actual = stream?.revision ?? null
    const asExpected =
      expected === 'any' ||
      (expected === 'no-stream' && actual === null) ||
      (expected === 'stream-exists' && actual !== null) ||
      expected === actual
    if (!asExpected) throw new WrongExpectedRevision(name, expected, actual)

    const id = stream?.id ?? Number(statement.addStream.run(name).lastInsertRowid)
    let { revision, hash }: StreamEnd = stream ?? STREAM_START
    let position = LOG_START
    try {
      for (const event of events) {
        const next = linked ? link(name, { revision, hash }, event) : unlinked(event)
        revision += 1
        hash = next.hash
        const row = statement.addEvent.run(id, revision, event.id, event.type, next.data, next.metadata)
        position = Number(row.lastInsertRowid)
        const { data, metadata } = next
        characters += data.length
        written.push({
          id: event.id,
          type: event.type,
          stream: name,
          revision,
          position,
          text: { data, metadata },
        })
      }
    } catch (error) {
      throw isConstraint(error) ? new WrongExpectedRevision(name, expected, actual) : error
    }
    changed.push([name, stream])
    open.set(name, { id, revision, hash })
    moved.add(name)
    return { revision, position }
  }

  function storedEnd(name: string): OpenStream | undefined {
    const row = statement.stream.get(name)
    return row && { id: row.id, ...endOf(row) }
  }

  function endOf({ id, revision, hash }: StreamRow): StreamEnd {
    const known = hash === null ? undefined : textOf(hash)
    if (known !== undefined || !linked) return { revision, hash: known ?? null }
    // The row lacks the hash (in an older log) or it is damaged: read the last event.
    const [row] = statement.event.iterate(id, revision)
    return { revision, hash: row === undefined ? null : lastHashOf(toEvent(file, row)) }
  }

  /** Writes the new ends of streams: once for a stream, however many appends it had. */
  function writeEnds(): void {
    for (const name of moved) {
      const stream = open.get(name)
      if (stream !== undefined) statement.moveStream.run(stream.revision, stream.hash, stream.id)
    }
    moved.clear()
  }

  /** Waits while more appends keep coming: those of other requests that this turn of the event loop has read. */
  function commitWhenQuiet(before: number, turns: number): void {
    const { length } = pending
    if (length > before && length < MOST_WAITING && turns < MOST_TURNS)
      setImmediate(commitWhenQuiet, length, turns + 1)
    else commitPending()
  }

  /** Commits what is pending in one transaction, so that it shares one flush to disk. Long texts are several. */
  function commitPending(): void {
    // `close` commits without waiting for the tick, so the planned call may find nothing.
    if (pending.length === 0) return
    const batch = pending
    pending = []
    let rest: Pending[] = []
    const answers: (() => void)[] = []
    try {
      db.exec('BEGIN IMMEDIATE')
      for (const [i, one] of batch.entries()) {
        answers.push(writeOne(one))
        if (characters <= MOST_CHARACTERS) continue
        rest = batch.slice(i + 1)
        break
      }
      writeEnds()
      db.exec('COMMIT')
      tail.add(written)
    } catch (error) {
      rollBack()
      const unavailable = new StoreUnavailable(`the event log can't be written: ${asError(error).message}`, {
        cause: error,
      })
      for (const one of batch) one.reject(unavailable)
      return
    } finally {
      open.clear()
      moved.clear()
      written = []
      characters = 0
    }
    for (const answer of answers) answer()
    wake()
    if (rest.length === 0) return
    pending = [...rest, ...pending]
    setImmediate(commitPending)
  }

  /** Writes one of a batch, or nothing of it when it is refused. Returns its answer. */
  function writeOne({ write, instead, reject }: Pending): () => void {
    changed.length = 0
    const length = written.length
    statement.begin.run()
    let answer: () => void
    try {
      answer = write()
    } catch (error) {
      if (!isRefusal(error)) throw error
      statement.undo.run()
      written.length = length
      for (const [name, before] of changed.toReversed()) {
        if (before === undefined) open.delete(name)
        else open.set(name, before)
      }
      answer = instead() ?? (() => reject(error instanceof NotMade ? error.cause : error))
    }
    statement.end.run()
    return answer
  }

  /** Runs `write` in the next transaction. Resolves to what it returned when that is on disk. */
  function inTransaction<T>(write: () => T, before: () => T | undefined = () => undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      if (closed) return reject(new StoreUnavailable('the event log is closed'))
      const answerWith = (result: T) => () => resolve(result)
      pending.push({
        write: () => answerWith(write()),
        instead() {
          const result = before()
          return result === undefined ? undefined : answerWith(result)
        },
        reject,
      })
      if (pending.length === 1) setImmediate(commitWhenQuiet, 0, 1)
    })
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
    async append(stream, events, expected) {
      requireEvents(events)
      const append = { stream, events, expected }
      return inTransaction(
        () => appendNow(append),
        () => recordedBefore(append),
      )
    },
    appendTogether: (makers) =>
      inTransaction(() => {
        const places: Appended[] = []
        for (const make of makers) places.push(appendNow(made(make, places)))
        return places
      }),
    ...reading,
    async close() {
      if (closed) return
      while (pending.length > 0) commitPending()
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

function requireEvents(events: readonly NewEvent[]): void {
  if (events.length === 0) throw new TypeError('an append needs at least one event')
}

function made(make: (before: readonly Appended[]) => Append, before: readonly Appended[]): Append {
  try {
    const append = make(before)
    requireEvents(append.events)
    return append
  } catch (error) {
    throw new NotMade('the append could not be made', { cause: error })
  }
}

/** Whether one append is refused, rather than all of a transaction. */
function isRefusal(error: unknown): boolean {
  return error instanceof WrongExpectedRevision || error instanceof BrokenEvent || error instanceof NotMade
}

function unlinked({ data, metadata }: NewEvent) {
  return { hash: metadata.hash ?? null, data: JSON.stringify(data), metadata: JSON.stringify(metadata) }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
