/**
 * The newest events of the embedded log, as this process has appended them. Subscribers near the end of the log read them
 * from memory, and each event is decoded once.
 */
import {
  isEventMetadata,
  LOG_START,
  type Position,
  type RecordedEvent,
  type StoredText,
} from '../event-store.ts'

/** The most events that are kept, and the most characters of their JSON. */
const MOST_EVENTS = 1000
const MOST_CHARACTERS = 4 * 1024 * 1024

/** A reader gets no further event after this many characters of data: to read their JSON holds the event loop. */
const MOST_AT_ONCE = 256 * 1024

/** An event as it was written. */
export interface Written extends Omit<RecordedEvent, 'data' | 'metadata' | 'text'> {
  text: StoredText
}

/** The next part of the log. */
export interface Part {
  events: RecordedEvent[]
  /** No event up to this position is missing but those that are not wanted. */
  through: Position
}

export function createTail() {
  /** Successive events: no position between two of them is free, so no other process has an event there. */
  let written: Written[] = []
  let characters = 0

  const first = () => written[0]?.position ?? LOG_START
  const last = () => written.at(-1)?.position ?? LOG_START
  /** Whether the events after a position are known, and there are some. */
  const isNear = (position: Position) => written.length > 0 && position + 1 >= first() && position < last()

  function clear(): void {
    written = []
    characters = 0
  }

  /** Returns the event as a reader of the file gets it; undefined when only the file shows the problem. */
  function eventOf(one: Written & { read?: RecordedEvent }): RecordedEvent | undefined {
    if (one.read !== undefined) return one.read
    const { position, stream, revision, id, type, text } = one
    const metadata: unknown = JSON.parse(text.metadata)
    const data: unknown = JSON.parse(text.data)
    if (!isEventMetadata(metadata) || typeof data !== 'object' || data === null) return undefined
    one.read = { position, stream, revision, id, type, data, metadata }
    return one.read
  }

  return {
    /** Adds the events of a transaction, in the order of the log. Call it when the transaction is on disk. */
    add(events: readonly Written[]): void {
      const [next] = events
      if (next === undefined) return
      if (written.length > MOST_EVENTS || characters > MOST_CHARACTERS) clear()
      // Another process was first: subscribers read its events, and these, from the file.
      if (next.position !== last() + 1) clear()
      for (const event of events) {
        written.push(event)
        characters += event.text.data.length + event.text.metadata.length
      }
    },

    /** Forgets all: another process has written to the log. */
    clear,

    /** Whether this is the position of the newest event of the log. */
    isEnd: (position: Position) => written.length > 0 && position === last(),

    /**
     * The wanted among the next `limit` events after a position, with not many more than `MOST_AT_ONCE` characters, and
     * how far that is; no further than the position when the next event is not known here.
     */
    after(position: Position, limit: number, unwanted?: ReadonlySet<string>): Part {
      const part: Part = { events: [], through: position }
      if (!isNear(position)) return part
      const start = position + 1 - first()
      let length = 0
      for (const one of written.slice(start, start + limit)) {
        if (!unwanted?.has(one.type)) {
          const event = eventOf(one)
          if (event === undefined) break
          part.events.push(event)
          length += one.text.data.length
        }
        part.through = one.position
        if (length > MOST_AT_ONCE) break
      }
      return part
    },

    /** The newest position, when no event after `position` is wanted; undefined when one is, or may be. */
    passable(position: Position, unwanted: ReadonlySet<string>): Position | undefined {
      if (!isNear(position)) return undefined
      for (let i = position + 1 - first(); i < written.length; i++) {
        const one = written[i]
        if (one !== undefined && !unwanted.has(one.type)) return undefined
      }
      return last()
    },
  }
}

export type Tail = ReturnType<typeof createTail>
