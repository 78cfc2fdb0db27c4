/**
 * The newest events that this process has appended to the embedded log. Subscribers near the end of the log read them
 * from memory, and each event is decoded once.
 */
import {
  isEventMetadata,
  LOG_START,
  type Position,
  type RecordedEvent,
  type StoredText,
} from '../event-store.ts'

/** Maximum number of kept events, and of the characters of their JSON. */
const MAX_EVENTS = 1000
const MAX_CHARACTERS = 4 * 1024 * 1024

/** Size of a part, in characters of data: parsing JSON blocks the event loop. */
const MAX_PART = 256 * 1024

/** A written event. */
export interface Written extends Omit<RecordedEvent, 'data' | 'metadata' | 'text'> {
  text: StoredText
}

/** The next part of the log. */
export interface Part {
  events: RecordedEvent[]
  /** The part has all wanted events up to this position. */
  through: Position
}

export function createTail() {
  /** Events without gaps between their positions, so other processes have none in between. */
  let written: Written[] = []
  let characters = 0

  const first = () => written[0]?.position ?? LOG_START
  const last = () => written.at(-1)?.position ?? LOG_START
  /** Whether the events after a position are known and not empty. */
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
      if (written.length > MAX_EVENTS || characters > MAX_CHARACTERS) clear()
      // Another process was first: subscribers read its events and these from the file.
      if (next.position !== last() + 1) clear()
      for (const event of events) {
        written.push(event)
        characters += event.text.data.length + event.text.metadata.length
      }
    },

    /** Drops all events, because another process has written to the log. */
    clear,

    /** Whether this is the position of the newest event of the log. */
    isEnd: (position: Position) => written.length > 0 && position === last(),

    /**
     * Returns the wanted events among the next `limit` after a position, up to about `MAX_PART` characters. `through`
     * is `position` when the next event is unknown here.
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
        if (length > MAX_PART) break
      }
      return part
    },

    /** Returns the newest position if all events after `position` are known and unwanted. */
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
