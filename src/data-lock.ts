/** One server per data directory: two would write each other's branches and views. */
import { join } from 'node:path'
import Database from 'libsql'
import { isBusy } from './sqlite.ts'

export class DataDirInUse extends Error {
  override readonly name = 'DataDirInUse'
}

/** Nobody can lock it as it is: there is no such directory, no right to write there, no room. */
export class DataDirUnusable extends Error {
  override readonly name = 'DataDirUnusable'
}

/**
 * Takes a data directory for this process; the operating system gives it back when the process ends, however
 * it ends. Resolves to the release.
 *
 * @throws DataDirInUse when another process has it
 * @throws DataDirUnusable when the lock's file can't be opened or written
 */
export function lockDataDir(dataDir: string): () => void {
  const file = join(dataDir, 'lock.db')
  let db: Database.Database | undefined
  try {
    db = new Database(file)
    db.exec('PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY')
    // Of a file that it may only read SQLite takes no lock, and does not say so: the write does. It stays in memory.
    db.exec('BEGIN EXCLUSIVE; PRAGMA user_version = 1')
  } catch (error) {
    db?.close()
    if (isBusy(error)) {
      throw new DataDirInUse(`DATA_DIR: another process uses ${dataDir}`, { cause: error })
    }
    // What the driver says of a file that it can't open is no sentence.
    const reason = db === undefined || !(error instanceof Error) ? 'it can not be opened' : error.message
    throw new DataDirUnusable(`${file} can not be locked: ${reason}`, { cause: error })
  }
  const locked = db
  return () => void locked.close()
}
