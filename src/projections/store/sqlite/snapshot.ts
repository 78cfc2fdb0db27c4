import {
  BrokenFile,
  closeOnError,
  isBroken,
  openSqlite,
  selectColumn,
} from '../../../storage/sqlite/sqlite.ts'
import type { AnyCollection, IsolatedSnapshot } from '../read-store.ts'
import { selectCheckpoint, selectRange, selectTexts } from './documents.ts'
import { documentTable } from './tables.ts'
/** A snapshot of the embedded read store: it shows the state of one moment while others write. */

/** Opens a read transaction on its own connection. The file's write-ahead log grows until the snapshot is closed. */
export function openSqliteSnapshot(file: string): IsolatedSnapshot {
  const db = openSqlite(file, 'NORMAL')
  const checkpoint = closeOnError(file, [db], () => selectCheckpoint(db))
  db.exec('BEGIN')
  // The first read fixes the moment.
  checkpoint('')

  function read<T>(collection: AnyCollection, query: () => T, where = ''): T {
    try {
      return query()
    } catch (error) {
      if (!isBroken(error)) throw error
      const place = `documents of ${collection.name}${where}`
      throw new BrokenFile(file, `${error.message} (${place})`, { cause: error })
    }
  }

  return {
    isIsolated: true,
    checkpoint: async (name) => checkpoint(name),
    async range(collection, range) {
      const where = range.after === undefined ? '' : ` after ${range.after}`
      return read(collection, () => selectRange(db, file, collection, range), where)
    },
    async getMany(collection, ids) {
      return read(collection, () => selectTexts(db, file, collection, ids))
    },
    async count(collection) {
      const sql = `SELECT count(*) FROM ${documentTable(collection)}`
      return read(collection, () => selectColumn<[], number>(db, sql).get() ?? 0)
    },
    async close() {
      db.exec('ROLLBACK')
      db.close()
    },
  }
}
