/** The file of the embedded log: its tables, and its rows as events. */
import {
  BrokenFile,
  type Bytes,
  closeOnError,
  lossyText,
  openSqlite,
  readable,
  type Sqlite,
  selectColumn,
} from '../sqlite.ts'
import { isEventMetadata, type Position, type RecordedEvent } from './event-store.ts'

/** `streams.hash` is that of the stream's last event, so that it need not be read; null in older logs. */
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

/** What is selected of an event (of `events` and `streams`) beside its texts. */
export const EVENT_HEAD = `position, CAST(events.revision AS INTEGER), octet_length(name), octet_length(events.id),
  octet_length(events.type), octet_length(data),
  typeof(events.revision) = 'integer' AND typeof(name) = 'text' AND typeof(events.id) = 'text' AND typeof(events.type) = 'text'
    AND typeof(data) = 'text' AND typeof(metadata) = 'text'`
export const EVENT_TEXTS = 'concat(name, events.id, events.type, data, metadata)'

/**
 * All of an event: its five texts are one piece of bytes, with their lengths. Damaged text can't be read otherwise,
 * and five pieces would take twice the time.
 */
export const EVENT_COLUMNS = `${EVENT_HEAD}, CAST(${EVENT_TEXTS} AS BLOB)`

/** The lengths of name, id, type and data, in bytes; a damaged row may have null for them. */
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

/** An event that stands in the file and can't be read: its JSON or its metadata is damaged. */
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

/** Opens (or makes) the file; one of an older version gets what it lacks. @throws BrokenFile */
export function openLogFile(file: string): Sqlite {
  const db = openSqlite(file, 'FULL')
  return closeOnError(file, [db], () => {
    db.exec(SCHEMA)
    if (!hasHashes(db)) {
      db.exec('BEGIN IMMEDIATE')
      // Another process may have been quicker.
      if (!hasHashes(db)) db.exec('ALTER TABLE streams ADD COLUMN hash TEXT')
      db.exec('COMMIT')
    }
    return db
  })
}

function hasHashes(db: Sqlite): boolean {
  const columns = `SELECT count(*) FROM pragma_table_info('streams') WHERE name = 'hash'`
  return selectColumn<[], number>(db, columns).get() === 1
}

/** An event as its texts stand in the file. */
interface EventTexts extends Place {
  id: string
  type: string
  data: string
  metadata: string
}

/** @throws BrokenEvent when the row is none that was written here */
function textsOf(file: string, tuple: EventTuple): EventTexts {
  const [position, revision, name, id, type, data, isTyped, bytes] = tuple
  const texts = isTyped === 1 ? readable(bytes) : undefined
  if (texts === undefined) {
    // One flipped bit can make a column of another type.
    const stream = lossyText(bytes.slice(0, name ?? 0))
    const problem = isTyped === 1 ? 'has text that is no UTF-8' : 'has columns of other types'
    throw new BrokenEvent(file, { position, stream, revision }, problem)
  }
  const { buffer, encoding } = texts
  const [idEnd, typeEnd] = [name + id, name + id + type]
  return {
    position,
    stream: buffer.toString(encoding, 0, name),
    revision,
    id: buffer.toString(encoding, name, idEnd),
    type: buffer.toString(encoding, idEnd, typeEnd),
    data: buffer.toString(encoding, typeEnd, typeEnd + data),
    metadata: buffer.toString(encoding, typeEnd + data),
  }
}

/** @throws BrokenEvent when the row is none that was written here */
export function toEvent(file: string, tuple: EventTuple, withText = false): RecordedEvent {
  const texts = textsOf(file, tuple)
  const { position, stream, revision, id, type } = texts
  const data = parsed(file, texts, 'data')
  const metadata = parsed(file, texts, 'metadata')
  if (!isEventMetadata(metadata)) throw new BrokenEvent(file, texts, 'has incomplete metadata')
  if (!withText) return { position, stream, revision, id, type, data, metadata }
  const text = { data: texts.data, metadata: texts.metadata }
  return { position, stream, revision, id, type, data, metadata, text }
}

function parsed(file: string, texts: EventTexts, column: 'data' | 'metadata'): object {
  try {
    const value: unknown = JSON.parse(texts[column])
    if (typeof value === 'object' && value !== null) return value
  } catch {
    // Said below.
  }
  throw new BrokenEvent(file, texts, `has ${column} that are no JSON object`)
}
