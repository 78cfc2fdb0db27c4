/**
 * Says who uses a data directory. With an embedded store one server does: two would overwrite each other's views. Servers
 * whose stores are elsewhere share one. Commands that need it for themselves refuse beside either.
 */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../errors/operator-error.ts'
import { connect, isBusy, type Sqlite } from './sqlite/sqlite.ts'

/** What a command says that needs the directory for itself. */
export const STOP_THE_SERVER = 'stop the server first'

export class DataDirInUse extends OperatorError {}

/** The directory cannot be locked: it doesn't exist, it may not be written, or the disk is full. */
export class DataDirUnusable extends OperatorError {}

/** The locks that this process holds. The garbage collector closes a connection that nothing refers to: its lock would be lost. */
const held = new Set<Sqlite>()

/**
 * SQLite's locks: any number of readers, or one writer. `journal_mode` is set because the default would leave a file
 * beside it.
 */
const HOLDS = {
  // SQLite silently takes no lock on a file that it may only read. A write fails then; it stays in memory.
  alone:
    'PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE; PRAGMA user_version = 1',
  shared: 'PRAGMA journal_mode = MEMORY; BEGIN; SELECT 1 FROM sqlite_schema',
}

/** Where SQLite's locks begin in a file. */
const FIRST_LOCK = 0x40000000

/** ` (pid 1234)` for a process that has locked the file; empty where the system does not tell. */
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
 * Locks a data directory for this process, or shares it with others that do the same, and returns a function that
 * releases it. When the process ends or is killed, the operating system releases the lock.
 *
 * On a shared file system this needs one with POSIX locks (NFS 4, CephFS). They hold between machines as long as the
 * machine stays in touch with the file system: so a shared hold keeps commands away, but it protects no data.
 *
 * @param advice what to do when another process has it
 * @throws DataDirInUse when another process has it; for a shared hold, when one has it alone
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
      const said = `DATA_DIR: another process${holderOf(file)} uses ${dataDir}`
      throw new DataDirInUse(advice === undefined ? said : `${said}: ${advice}`, { cause: error })
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
