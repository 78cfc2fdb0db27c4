/** One server per data directory: two would write each other's branches and views. */
import { join } from 'node:path'
import Database from 'libsql'

export class DataDirInUse extends Error {
  override readonly name = 'DataDirInUse'
}

/**
 * Takes a data directory for this process; the operating system gives it back when the process ends, however
 * it ends. Resolves to the release.
 *
 * @throws DataDirInUse when another server has it
 */
export function lockDataDir(dataDir: string): () => void {
  const db = new Database(join(dataDir, 'lock.db'))
  try {
    db.exec('PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    throw new DataDirInUse(`DATA_DIR: another server uses ${dataDir}`, { cause: error })
  }
  return () => void db.close()
}
