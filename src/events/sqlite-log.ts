/** The file of the embedded log: its tables, and its rows as events. */
import { BrokenFile, openSqlite, type Sqlite, select } from '../sqlite.ts'
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

export interface EventRow {
  position: number
  stream: string
  revision: number
  id: string
  type: string
  data: string
  metadata: string
}

/** An event that stands in the file and can't be read: its JSON or its metadata is damaged. */
export class BrokenEvent extends BrokenFile {
  override readonly name = 'BrokenEvent'
  readonly position: Position
  readonly stream: string
  readonly revision: number

  constructor(file: string, { position, stream, revision }: EventRow, problem: string) {
    super(file, `the event at position ${position} (${stream}, revision ${revision}) ${problem}`)
    this.position = position
    this.stream = stream
    this.revision = revision
  }
}

/** Opens (or makes) the file; one of an older version gets what it lacks. @throws BrokenFile */
export function openLogFile(file: string): Sqlite {
  const db = openSqlite(file, 'FULL')
  db.exec(SCHEMA)
  if (!hasHashes(db)) {
    db.exec('BEGIN IMMEDIATE')
    // Another process may have been quicker.
    if (!hasHashes(db)) db.exec('ALTER TABLE streams ADD COLUMN hash TEXT')
    db.exec('COMMIT')
  }
  return db
}

function hasHashes(db: Sqlite): boolean {
  const columns = select<[], { name: string }>(db, 'PRAGMA table_info(streams)').all()
  return columns.some(({ name }) => name === 'hash')
}

/** @throws BrokenEvent when the row is none that was written here */
export function toEvent(file: string, row: EventRow): RecordedEvent {
  const { position, stream, revision, id, type } = row
  const data = parsed(file, row, 'data')
  const metadata = parsed(file, row, 'metadata')
  if (!isEventMetadata(metadata)) throw new BrokenEvent(file, row, 'has incomplete metadata')
  return { position, stream, revision, id, type, data, metadata }
}

function parsed(file: string, row: EventRow, column: 'data' | 'metadata'): object {
  // One flipped bit can make a column of another type.
  const text: unknown = row[column]
  try {
    const value: unknown = typeof text === 'string' ? JSON.parse(text) : undefined
    if (typeof value === 'object' && value !== null) return value
  } catch {
    // Said below.
  }
  throw new BrokenEvent(file, row, `has ${column} that are no JSON object`)
}
