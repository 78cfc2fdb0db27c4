/** The file of the embedded log: its tables, and the conversion of rows to events. */
import {
  BrokenFile,
  type Bytes,
  closeOnError,
  lossyText,
  openSqlite,
  readable,
  type Sqlite,
} from '../../../storage/sqlite/sqlite.ts'
import { isEventMetadata, type Position, type RecordedEvent, type StoredText } from '../event-store.ts'

/** `streams.hash` repeats the hash of the stream's last event for the next append. Null when events are stored unlinked. */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS streams (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    hash TEXT
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

/** The columns of an event (from `events` and `streams`) without its texts. */
export const EVENT_HEAD = `position, CAST(events.revision AS INTEGER), octet_length(name), octet_length(events.id),
  octet_length(events.type), octet_length(data),
  typeof(events.revision) = 'integer' AND typeof(name) = 'text' AND typeof(events.id) = 'text' AND typeof(events.type) = 'text'
    AND typeof(data) = 'text' AND typeof(metadata) = 'text'`
export const EVENT_TEXTS = 'concat(name, events.id, events.type, data, metadata)'

/**
 * All columns of an event. Its five texts are one BLOB, with their lengths: five BLOBs would be slower. Text is read as
 * bytes: see `Bytes`.
 */
export const EVENT_COLUMNS = `${EVENT_HEAD}, CAST(${EVENT_TEXTS} AS BLOB)`

/** A row of `EVENT_COLUMNS`. `name` to `data` are lengths in bytes; a damaged row may have null there. */
export type EventTuple = [
  position: number,
  revision: number,
  name: number,
  id: number,
  type: number,
  data: number,
  isTyped: number,
  texts: Bytes,
]

type Place = Pick<RecordedEvent, 'position' | 'stream' | 'revision'>

/** An event in the file that cannot be read: its text, JSON or metadata is damaged. */
export class BrokenEvent extends BrokenFile {
  override readonly name = 'BrokenEvent'
  readonly position: Position
  readonly stream: string
  readonly revision: number

  constructor(file: string, { position, stream, revision }: Place, problem: string) {
    super(file, `the event at position ${position} (${stream}, revision ${revision}) ${problem}`)
    this.position = position
    this.stream = stream
    this.revision = revision
  }
}

/** Opens or creates the file. @throws BrokenFile when it is damaged */
export function openLogFile(file: string): Sqlite {
  const db = openSqlite(file, 'FULL')
  return closeOnError(file, [db], () => {
    db.exec(SCHEMA)
    return db
  })
}

/** Reads a row of the file as an event. @throws BrokenEvent when the row is damaged */
export function toEvent(file: string, tuple: EventTuple, withText = false): RecordedEvent {
  const [position, revision, name, idLength, typeLength, dataLength, isTyped, bytes] = tuple
  const texts = isTyped === 1 ? readable(bytes) : undefined
  if (texts === undefined) {
    // One flipped bit can change the type of a column.
    const stream = lossyText(bytes.slice(0, name ?? 0))
    const problem = isTyped === 1 ? 'has text that is not UTF-8' : 'has columns of other types'
    throw new BrokenEvent(file, { position, stream, revision }, problem)
  }
  const { buffer, encoding } = texts
  const [idEnd, typeEnd] = [name + idLength, name + idLength + typeLength]
  const stream = buffer.toString(encoding, 0, name)
  const place = { position, stream, revision }
  const id = buffer.toString(encoding, name, idEnd)
  const type = buffer.toString(encoding, idEnd, typeEnd)
  const text = {
    data: buffer.toString(encoding, typeEnd, typeEnd + dataLength),
    metadata: buffer.toString(encoding, typeEnd + dataLength),
  }
  const data = parsed(file, place, text, 'data')
  const metadata = parsed(file, place, text, 'metadata')
  if (!isEventMetadata(metadata)) throw new BrokenEvent(file, place, 'has incomplete metadata')
  if (!withText) return { position, stream, revision, id, type, data, metadata }
  return { position, stream, revision, id, type, data, metadata, text }
}

function parsed(file: string, place: Place, text: StoredText, column: keyof StoredText): object {
  try {
    const value: unknown = JSON.parse(text[column])
    if (typeof value === 'object' && value !== null) return value
  } catch {
    // The error is thrown below.
  }
  throw new BrokenEvent(file, place, `has ${column} that is not a JSON object`)
}
