import { setImmediate as nextIteration } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import {
  type Bytes,
  closeOnError,
  isConstraint,
  type Sqlite,
  select,
  selectTuples,
  textOf,
} from '../../../storage/sqlite/sqlite.ts'
import { threadWriter } from '../../../storage/sqlite/writer.ts'
import { endAfter, type StreamEnd } from '../chain.ts'
import {
  type Append,
  type Appended,
  type EventStore,
  LOG_START,
  type NewEvent,
  type Position,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../event-store.ts'
import { createDraft, type Draft, type Drafted, type LogEnd, type OpenStream } from './draft.ts'
import { BrokenEvent, EVENT_COLUMNS, type EventTuple, openLogFile, toEvent } from './log.ts'
import { createReads } from './reads.ts'
import { createTail } from './tail.ts'

/**
 * The embedded log: one SQLite file in WAL mode. Every commit is on disk before it is acknowledged. Events are prepared
 * here and written by a thread, so that a slow disk does not block the event loop.
 */

interface StreamRow {
  id: number
  revision: number
  hash: Bytes | null
}

interface Pending {
  /** Adds to a draft. Returns a function that returns the result when the draft is on disk. */
  add: (draft: Draft) => () => void
  /** Returns the earlier answer to a repeated append; undefined for a new one. */
  repeated: () => (() => void) | undefined
  reject: (error: unknown) => void
}

/** The caller's function failed to return an append. */
class MakerFailed extends Error {}

/** Maximum characters of the events in one transaction: hashing long texts blocks the event loop. */
const MAX_CHARACTERS = 256 * 1024

/** Number of streams in the cache of stream ends, at about 200 bytes each. */
const ENDS = 10_000

/**
 * Opens or creates the log in `file`. `linked` is false to store events unchanged, without linking them to the hash
 * chain of their stream.
 * @throws BrokenFile when it is not a log, or is damaged at its beginning
 */
export function openSqliteEventStore(file: string, { linked = true } = {}): EventStore {
  const db = openLogFile(file)
  const tail = createTail()
  const writer = threadWriter('log', file, 'FULL')
  /** Ends of streams as this process has written them. Valid while the log ends with the event of `lastWritten`. */
  const ends = new LRUCache<string, OpenStream>({ max: ENDS })
  let lastWritten: Position | undefined
  let pending: Pending[] = []
  /** Resolves when all pending appends are written; undefined without one. */
  let writing: Promise<void> | undefined
  let closed = false
  const { statement, reads } = closeOnError(file, [db], () => ({
    statement: prepareAppends(db),
    // Created last, because it starts a timer.
    reads: createReads(db, file, tail, () => writing !== undefined),
  }))
  const { wake, close: endReads, ...reading } = reads

  /** Returns the place of the last event of a repeated append; undefined for a new one. */
  function recordedBefore({ stream: name, events, expected }: Append): Appended | undefined {
    const stream = statement.stream.get(name)
    if (stream === undefined) return undefined
    const places = events.map((event) => statement.place.get(stream.id, event.id))
    const first = places[0]
    if (first === undefined) return undefined
    const start = typeof expected === 'number' ? expected + 1 : expected === 'no-stream' ? 0 : first.revision
    const inOrder = places.every((place, i) => place?.revision === start + i)
    const last = places.at(-1)
    return inOrder && last !== undefined ? { ...last } : undefined
  }

  function storedEnd(name: string): OpenStream | undefined {
    const row = statement.stream.get(name)
    return row && { id: row.id, ...endOf(row) }
  }

  function endOf({ id, revision, hash }: StreamRow): StreamEnd {
    const known = hash === null ? undefined : textOf(hash)
    if (known !== undefined || !linked) return { revision, hash: known ?? null }
    // The hash of the row is damaged: read the last event.
    const row = statement.event.get(id, revision)
    return row === undefined ? { revision, hash: null } : endAfter(toEvent(file, row))
  }

  function logEnd(): LogEnd {
    const { position, streamId } = statement.end.get() ?? { position: LOG_START, streamId: 0 }
    return { position, streamId }
  }

  /** Returns the end of the log. Drops cached state that another process may have changed since. */
  function currentEnd(): LogEnd {
    const end = logEnd()
    if (end.position !== lastWritten) ends.clear()
    return end
  }

  function remember({ appends, events }: Draft): void {
    for (const { append, after } of appends) ends.set(append.stream, after)
    lastWritten = events.at(-1)?.position ?? lastWritten
    tail.add(events)
  }

  /** Writes until nothing is pending. Appends that arrive during a transaction share the next one. */
  async function writePending(): Promise<void> {
    // All requests of this iteration of the event loop share the first transaction.
    await nextIteration()
    while (pending.length > 0) {
      const batch = pending
      pending = []
      await writeTogether(batch)
    }
    writing = undefined
  }

  /** Writes appends in one transaction, so that they share one flush to disk; several for long texts. Never throws. */
  async function writeTogether(batch: Pending[]): Promise<void> {
    try {
      const draft = createDraft(currentEnd(), (name) => ends.get(name) ?? storedEnd(name), linked)
      const answers: (() => void)[] = []
      for (const one of batch) {
        answers.push(addTo(draft, one))
        if (draft.characters() > MAX_CHARACTERS) break
      }
      pending = [...batch.splice(answers.length), ...pending]
      if (!(await write(draft))) return await afterConflict(batch, draft)
      remember(draft)
      for (const answer of answers) answer()
      wake()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      const message = `the event log can't be written: ${reason}`
      const unavailable = new StoreUnavailable(message, { cause: error })
      for (const one of batch) one.reject(unavailable)
    }
  }

  /** Adds an append to the draft, all or nothing. Returns its answer. */
  function addTo(draft: Draft, one: Pending): () => void {
    try {
      return draft.allOrNothing(() => one.add(draft))
    } catch (error) {
      if (!isRefusal(error)) throw error
      return () => answerRefused(one, error)
    }
  }

  /** Writes a draft. Resolves to false, with nothing written, when the log already has one of its positions or ids. */
  async function write(draft: Draft): Promise<boolean> {
    if (draft.events.length === 0) return true
    try {
      await writer.transaction(async (run) => {
        for (const parameters of draft.statements()) run(...parameters)
      })
      return true
    } catch (error) {
      if (isConstraint(error)) return false
      throw error
    }
  }

  /** Handles a draft that was not written: another process was first, or the stream already has the id of an append. */
  async function afterConflict(batch: Pending[], { end, appends }: Draft): Promise<void> {
    const [one, ...others] = batch
    if (logEnd().position !== end.position) {
      tail.clear()
      wake()
      await writeTogether(batch)
    } else if (others.length > 0) {
      for (const alone of batch) await writeTogether([alone])
    } else if (one !== undefined) {
      const { append, before } = appends.find(hasKnownId) ?? appends[0] ?? {}
      const { stream = '', expected = 'any' } = append ?? {}
      answerRefused(one, new WrongExpectedRevision(stream, expected, before?.revision ?? null))
    }
  }

  const hasKnownId = ({ append: { events }, after }: Drafted) =>
    new Set(events.map(({ id }) => id)).size < events.length ||
    events.some(({ id }) => statement.place.get(after.id, id) !== undefined)

  function answerRefused({ repeated, reject }: Pending, error: unknown): void {
    try {
      const answer = repeated() ?? (() => reject(error instanceof MakerFailed ? error.cause : error))
      answer()
    } catch (unreadable) {
      reject(unreadable)
    }
  }

  /** Adds to the next transaction. Resolves to the result of `add` when that is on disk. */
  function inTransaction<T>(
    add: (draft: Draft) => T,
    repeated: () => T | undefined = () => undefined,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      if (closed) return reject(new StoreUnavailable('the event log is closed'))
      const answerWith = (result: T) => () => resolve(result)
      pending.push({
        add: (draft) => answerWith(add(draft)),
        repeated() {
          const result = repeated()
          return result === undefined ? undefined : answerWith(result)
        },
        reject,
      })
      writing ??= writePending()
    })
  }

  return {
    async append(stream, events, expected) {
      requireEvents(events)
      const append = { stream, events, expected }
      return inTransaction(
        (draft) => draft.add(append),
        () => recordedBefore(append),
      )
    },
    appendTogether: (makers) =>
      inTransaction((draft) => {
        const places: Appended[] = []
        for (const make of makers) places.push(draft.add(appendOf(make, places)))
        return places
      }),
    ...reading,
    async close() {
      if (closed) return
      closed = true
      await writing
      endReads()
      await writer.close()
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
    // A position is never reused, even after its event was removed.
    end: select<[], LogEnd>(
      db,
      `SELECT max(coalesce((SELECT max(position) FROM events), 0),
         coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'events'), 0)) AS position,
       coalesce((SELECT max(id) FROM streams), 0) AS streamId`,
    ),
    place: select<[number, string], Appended>(
      db,
      'SELECT CAST(revision AS INTEGER) AS revision, position FROM events WHERE stream = ? AND id = ?',
    ),
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

function appendOf(make: (before: readonly Appended[]) => Append, before: readonly Appended[]): Append {
  try {
    const append = make(before)
    requireEvents(append.events)
    return append
  } catch (error) {
    throw new MakerFailed('the append could not be created', { cause: error })
  }
}

/** Whether the error concerns one append, not the whole transaction. */
function isRefusal(error: unknown): boolean {
  return (
    error instanceof WrongExpectedRevision || error instanceof BrokenEvent || error instanceof MakerFailed
  )
}
