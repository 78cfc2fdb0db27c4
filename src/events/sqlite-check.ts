/** What only the embedded log can be asked about its own file: damage, and what was cut out without a trace. */
import { type Bytes, integrityProblem, lossyText, openSqlite, type Sqlite, select } from '../sqlite.ts'
import type { Position } from './event-store.ts'

/** What is wrong with a log, and where as far as that is known. */
export interface LogProblem {
  problem: string
  position?: Position
  stream?: string
  revision?: number
}

/**
 * Checks the file as SQLite knows it; that no position is missing, at its end neither (they have no gaps here);
 * and that every stream ends where it says. Takes as long as reading the file; nothing else runs meanwhile.
 *
 * @throws BrokenFile when it is no database
 */
export function checkSqliteLog(file: string): LogProblem | undefined {
  const db = openSqlite(file, 'NORMAL')
  try {
    db.exec('BEGIN')
    const damage = integrityProblem(db)
    return damage === undefined
      ? (missingPosition(db) ?? strayEvent(db) ?? wrongEnd(db))
      : { problem: `${file} is damaged: ${damage}` }
  } finally {
    // A statement that found something holds its read lock beyond the close.
    if (db.inTransaction) db.exec('ROLLBACK')
    db.close()
  }
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
      ? 'the hash of its last event is not the one that the stream ends with'
      : `the stream ends at revision ${revision}, and the last of its events is ${last ?? 'none'}`
  return { problem, stream: lossyText(stream), revision, ...(position === null ? {} : { position }) }
}
