/** The embedded read store as it stood in one moment, however long it is read and whoever writes meanwhile. */

import type { Position } from '../events/event-store.ts'
import { BrokenFile, integrityProblem, isBroken, openSqlite, type Sqlite, select } from '../sqlite.ts'
import type { AnyCollection, Checkpoint, IdRange, RangeDocument, ReadSnapshot } from './read-store.ts'
import { documentTable } from './sqlite-query.ts'

/** One read transaction on a connection of its own. The file's write-ahead log grows until it is closed. */
export function openSqliteSnapshot(file: string): ReadSnapshot {
  const db = openSqlite(file, 'NORMAL')
  const checkpoint = select<[string], Checkpoint>(
    db,
    'SELECT position, version FROM checkpoints WHERE name = ?',
  )
  db.exec('BEGIN')
  // The first read is what decides on the moment.
  checkpoint.get('')
  return {
    isIsolated: true,
    async checkpoint(name) {
      const row = checkpoint.get(name)
      return row && { position: row.position, version: row.version }
    },
    async range(collection, range) {
      try {
        return selectRange(db, file, collection, range)
      } catch (error) {
        if (!isBroken(error)) throw error
        const after = range.after === undefined ? '' : ` after ${range.after}`
        throw new BrokenFile(file, `${error.message} (documents of ${collection.name}${after})`, {
          cause: error,
        })
      }
    },
    async close() {
      db.exec('ROLLBACK')
      db.close()
    },
  }
}

/** What SQLite finds damaged in the file; undefined when nothing. Takes as long as reading all of it. */
export function checkSqliteViews(file: string): string | undefined {
  const db = openSqlite(file, 'NORMAL')
  try {
    const damage = integrityProblem(db)
    return damage === undefined ? undefined : `${file} is damaged: ${damage}`
  } finally {
    db.close()
  }
}

interface RangeRow {
  id: string
  position: Position
  body: string
}

/** The documents of an id range of `file`, on this connection. */
export function selectRange(
  db: Sqlite,
  file: string,
  collection: AnyCollection,
  { after, limit }: IdRange,
): RangeDocument[] {
  const rows = select<[string, number], RangeRow>(
    db,
    `SELECT id, position, body FROM ${documentTable(collection)} WHERE id > ? ORDER BY id LIMIT ?`,
  ).all(after ?? '', limit)
  return rows.map((row) => lazily(row, file, collection))
}

/**
 * Parsed when somebody looks: whoever compares two of them seldom needs more than the texts. Looking at one that
 * is no JSON throws BrokenFile.
 */
function lazily({ id, position, body }: RangeRow, file: string, { name }: AnyCollection): RangeDocument {
  return {
    id,
    position,
    text: body,
    get body(): object {
      try {
        return JSON.parse(body)
      } catch (error) {
        throw new BrokenFile(file, `document ${id} of ${name} is no JSON`, { cause: error })
      }
    },
  }
}
