/** Checks the file of the embedded log for damage and removed events. */
import {
  type Bytes,
  checkFile,
  integrityProblem,
  lossyText,
  type Sqlite,
  select,
} from '../../../storage/sqlite/sqlite.ts'
import type { Position } from '../event-store.ts'

/** A problem of the log, with its place if known. */
export interface LogProblem {
  problem: string
  /** The operator's remedy; without it, only a backup helps. */
  repair?: string
  position?: Position
  stream?: string
  revision?: number
}

/**
 * Checks SQLite's own structures, that no position is missing (the embedded log has no gaps, not even at its end), and that
 * every stream ends where its row says. Takes as long as reading the file, and blocks the event loop. Returns the first
 * problem, if any.
 * @throws BrokenFile when the file is not a database
 */
export function checkSqliteLog(file: string): LogProblem | undefined {
  return checkFile(file, (db) => {
    const damage = integrityProblem(db)
    return damage === undefined
      ? (missingPosition(db) ?? strayEvent(db) ?? wrongEnd(db))
      : { problem: `${file} is damaged: ${damage}` }
  })
}

function missingPosition(db: Sqlite): LogProblem | undefined {
  const row = select<[], { events: number; last: number | null; given: number | null }>(
    db,
    `SELECT count(*) AS events, max(position) AS last,
       (SELECT seq FROM sqlite_sequence WHERE name = 'events') AS given FROM events`,
  ).get()
  const { events = 0, last = 0, given = 0 } = row ?? {}
  if (events !== (last ?? 0)) {
    const gap = select<[], { position: number }>(
      db,
      `SELECT before + 1 AS position
       FROM (SELECT position, lag(position, 1, 0) OVER (ORDER BY position) AS before FROM events)
       WHERE position <> before + 1 ORDER BY position LIMIT 1`,
    ).get()
    if (gap !== undefined) return { problem: 'the event is missing', position: gap.position }
  }
  if ((given ?? 0) <= (last ?? 0)) return undefined
  const position = (last ?? 0) + 1
  return { problem: `the events from here to position ${given}, the last of the log, are missing`, position }
}

function strayEvent(db: Sqlite): LogProblem | undefined {
  const row = select<[], { position: number; revision: number }>(
    db,
    `SELECT position, revision FROM events
     WHERE stream NOT IN (SELECT id FROM streams) ORDER BY position LIMIT 1`,
  ).get()
  return row && { problem: 'its stream is missing', position: row.position, revision: row.revision }
}

function wrongEnd(db: Sqlite): LogProblem | undefined {
  const row = select<[], { stream: Bytes; revision: number; last: number | null; position: number | null }>(
    db,
    `SELECT CAST(name AS BLOB) AS stream, streams.revision, e.revision AS last, e.position
     FROM streams
     LEFT JOIN (SELECT stream, max(revision) AS last FROM events GROUP BY stream) AS ends
       ON ends.stream = streams.id
     LEFT JOIN events AS e ON e.stream = streams.id AND e.revision = ends.last
     WHERE streams.revision IS NOT e.revision OR (streams.hash IS NOT NULL
       AND streams.hash IS NOT CASE WHEN json_valid(e.metadata) THEN json_extract(e.metadata, '$.hash') END)
     ORDER BY e.position LIMIT 1`,
  ).get()
  if (row === undefined) return undefined
  const { stream, revision, last, position } = row
  const problem =
    last === revision
      ? 'the hash of its last event is not the hash in the row of the stream'
      : `the stream ends at revision ${revision}, but its last event has ${last === null ? 'no revision' : `revision ${last}`}`
  return { problem, stream: lossyText(stream), revision, ...(position === null ? {} : { position }) }
}
