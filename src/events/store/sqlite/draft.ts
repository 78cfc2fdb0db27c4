/**
 * Prepares the next transaction of the embedded log: refuses appends, computes the place and hash of each event, and
 * the statements.
 */
import type { Parameter } from '../../../storage/sqlite/sqlite.ts'
import { link, STREAM_START, type StreamEnd } from '../chain.ts'
import {
  type Append,
  type Appended,
  LOG_START,
  type NewEvent,
  WrongExpectedRevision,
} from '../event-store.ts'
import type { Written } from './tail.ts'

/** A stream in the log, or after the draft. */
export interface OpenStream extends StreamEnd {
  id: number
}

/** The stored end of the log. */
export interface LogEnd {
  position: number
  /** The highest id of a stream. */
  streamId: number
}

/** An append of a draft. */
export interface Drafted {
  append: Append
  /** The stream before it; undefined for a new one. */
  before: OpenStream | undefined
  /** The stream after it. */
  after: OpenStream
  /** Index of its first event in the draft. */
  first: number
}

export interface Draft {
  end: LogEnd
  appends: readonly Drafted[]
  /** Its events, in the order of the log. */
  events: readonly Written[]
  /** Approximate size of the events, in characters. */
  characters(): number
  /** Adds an append. @throws WrongExpectedRevision, and the error of `storedEnd` */
  add(append: Append): Appended
  /** Runs `work`, which adds appends. When it throws, the draft is unchanged. */
  allOrNothing<T>(work: () => T): T
  /** Yields the statements that write the draft. */
  statements(): Iterable<[sql: string, ...parameters: Parameter[]]>
}

const ADD_EVENT =
  'INSERT INTO events (position, stream, revision, id, type, data, metadata) VALUES (?, ?, ?, ?, ?, ?, ?)'
const ADD_STREAM = 'INSERT INTO streams (id, name, revision, hash) VALUES (?, ?, ?, ?)'
const MOVE_STREAM = 'UPDATE streams SET revision = ?, hash = ? WHERE id = ?'

/** `linked`: whether events are linked to the hash chain of their stream. */
export function createDraft(
  end: LogEnd,
  storedEnd: (name: string) => OpenStream | undefined,
  linked: boolean,
): Draft {
  const streams = new Map<string, OpenStream>()
  const appends: Drafted[] = []
  const events: Written[] = []
  let characters = 0
  let lastStreamId = end.streamId

  function undo(count: number): void {
    for (const { append, before, first } of appends.splice(count).toReversed()) {
      if (before === undefined) streams.delete(append.stream)
      else streams.set(append.stream, before)
      events.length = first
    }
  }

  return {
    end,
    appends,
    events,
    characters: () => characters,
    add(append) {
      const { stream: name, expected } = append
      const before = streams.get(name) ?? storedEnd(name)
      const actual = before?.revision ?? null
      if (!isAt(expected, actual)) throw new WrongExpectedRevision(name, expected, actual)

      // A later draft may use the id if this append is undone.
      if (before === undefined) lastStreamId += 1
      const id = before?.id ?? lastStreamId
      const first = events.length
      let { revision, hash }: StreamEnd = before ?? STREAM_START
      for (const event of append.events) {
        const next = linked ? link(name, { revision, hash }, event) : unlinked(event)
        revision += 1
        hash = next.hash
        const { data, metadata } = next
        const position = end.position + events.length + 1
        events.push({
          id: event.id,
          type: event.type,
          stream: name,
          revision,
          position,
          text: { data, metadata },
        })
        characters += data.length
      }
      const after = { id, revision, hash }
      streams.set(name, after)
      appends.push({ append, before, after, first })
      return { revision, position: events.at(-1)?.position ?? LOG_START }
    },
    allOrNothing(work) {
      const count = appends.length
      try {
        return work()
      } catch (error) {
        undo(count)
        throw error
      }
    },
    *statements() {
      // Streams first, because events refer to them.
      for (const [name, { id, revision, hash }] of streams) {
        if (id > end.streamId) yield [ADD_STREAM, id, name, revision, hash]
        else yield [MOVE_STREAM, revision, hash, id]
      }
      for (const { stream, position, revision, id, type, text } of events) {
        const streamId = streams.get(stream)?.id ?? 0
        yield [ADD_EVENT, position, streamId, revision, id, type, text.data, text.metadata]
      }
    },
  }
}

function isAt(expected: Append['expected'], actual: number | null): boolean {
  if (expected === 'any') return true
  if (expected === 'no-stream') return actual === null
  return expected === 'stream-exists' ? actual !== null : expected === actual
}

function unlinked({ data, metadata }: NewEvent) {
  return { hash: metadata.hash ?? null, data: JSON.stringify(data), metadata: JSON.stringify(metadata) }
}
