/** Allows one server per data directory. Two servers would overwrite each other's branches and views. */
import { join } from 'node:path'
import Database from 'libsql'
import { OperatorError } from './operator-error.ts'
import { isBusy } from './sqlite.ts'

export class DataDirInUse extends OperatorError {}

/** The directory cannot be locked: it doesn't exist, it may not be written, or the disk is full. */
export class DataDirUnusable extends OperatorError {}

/**
 * Locks a data directory for this process and returns a function that releases it. When the process ends or is
 * killed, the operating system releases the lock.
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
    // SQLite silently takes no lock on a file that it may only read. A write fails then; it stays in memory.
    db.exec('BEGIN EXCLUSIVE; PRAGMA user_version = 1')
  } catch (error) {
    db?.close()
    if (isBusy(error)) {
      throw new DataDirInUse(`DATA_DIR: another process uses ${dataDir}`, { cause: error })
    }
    // The driver's message about a file that it can't open is not a sentence.
    const reason = db === undefined || !(error instanceof Error) ? 'it cannot be opened' : error.message
    throw new DataDirUnusable(`${file} cannot be locked: ${reason}`, { cause: error })
  }
  const locked = db
  return () => void locked.close()
}
