/**
 * Locks a data directory. With an embedded store, one server uses it: two servers would overwrite each other's views.
 * Servers with external stores share it. Commands that need it exclusively refuse while a server has either lock.
 */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../errors/operator-error.ts'
import { connect, isBusy, type Sqlite } from './sqlite/sqlite.ts'

/** The advice of commands that need the directory exclusively. */
export const STOP_THE_SERVER = 'stop the server first'

export class DataDirInUse extends OperatorError {}

/** Thrown when the directory cannot be locked: it doesn't exist, is not writable, or the disk is full. */
export class DataDirUnusable extends OperatorError {}

/**
 * The locks of this process. Without a reference, the garbage collector would close the connection and release its lock.
 */
const held = new Set<Sqlite>()

/** SQLite's locks: any number of readers, or one writer. The default `journal_mode` would leave a second file. */
const HOLDS = {
  // SQLite silently takes no lock on a read-only file. The write to `user_version` fails then; it stays in memory.
  alone:
    'PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE; PRAGMA user_version = 1',
  shared: 'PRAGMA journal_mode = MEMORY; BEGIN; SELECT 1 FROM sqlite_schema',
}

/** Offset of SQLite's locks in a file, in bytes. */
const FIRST_LOCK = 0x40000000

/** Returns ` (pid 1234)` for a process that has locked the file; empty on systems that do not report it. */
function holderOf(file: string): string {
  try {
    const { ino } = statSync(file)
    for (const line of readFileSync('/proc/locks', 'latin1').split('\n')) {
      const [, pid, inode, start] = / (\d+) [^ :]+:[^ :]+:(\d+) (\d+) /.exec(line) ?? []
      if (Number(inode) === ino && Number(start) >= FIRST_LOCK && pid !== '0') return ` (pid ${pid})`
    }
  } catch {
    // Not Linux.
  }
  return ''
}

/**
 * Locks a data directory for this process, exclusively or shared, and returns a function that unlocks it. The operating
 * system releases the lock when the process ends or is killed. A shared file system needs POSIX locks (NFS 4, CephFS).
 * A machine that loses the file system loses its lock: so a shared lock refuses commands, but does not protect data.
 * @param advice what to do when another process holds the lock
 * @throws DataDirInUse when another process holds a conflicting lock
 * @throws DataDirUnusable when the lock's file can't be opened or written
 */
export function lockDataDir(
  dataDir: string,
  hold: keyof typeof HOLDS = 'alone',
  advice?: string,
): () => void {
  const file = join(dataDir, 'lock.db')
  let db: Sqlite | undefined
  try {
    db = connect(file, { timeout: 0 })
    db.exec(HOLDS[hold])
  } catch (error) {
    db?.close()
    if (isBusy(error)) {
      const problem = `DATA_DIR: another process${holderOf(file)} uses ${dataDir}`
      throw new DataDirInUse(advice === undefined ? problem : `${problem}: ${advice}`, { cause: error })
    }
    const reason = db === undefined || !(error instanceof Error) ? 'it cannot be opened' : error.message
    throw new DataDirUnusable(`${file} cannot be locked: ${reason}`, { cause: error })
  }
  const locked = db
  held.add(locked)
  return () => {
    if (held.delete(locked)) locked.close()
  }
}
