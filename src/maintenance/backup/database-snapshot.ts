/** Copies an SQLite database at one moment during concurrent writes. */
import { rm } from 'node:fs/promises'
import { openSqliteReader } from '../../storage/sqlite/reader.ts'
import { isBroken } from '../../storage/sqlite/sqlite.ts'
import { BackupProblem } from './manifest.ts'

/** How long to wait for a lock, in milliseconds. */
const LOCK_WAIT_MS = 30_000

export class SnapshotFailed extends BackupProblem {
  /** Whether the original is damaged or not a database. */
  readonly isBroken: boolean

  constructor(file: string, cause: Error) {
    super(`${file} can't be copied: ${cause.message}`, { cause })
    this.isBroken = isBroken(cause)
  }
}

/**
 * Copies the database in `from`, which must exist, to `to`. Replaces an existing file. Does not flush. `VACUUM INTO`
 * reads in one transaction: it does not block writers and does not see their later changes. Deleted data is not copied.
 * @throws SnapshotFailed
 */
export async function snapshotDatabase(from: string, to: string): Promise<void> {
  await rm(to, { force: true })
  const reader = openSqliteReader(from, LOCK_WAIT_MS)
  try {
    await reader.value('VACUUM INTO ?', [to])
  } catch (error) {
    throw new SnapshotFailed(from, error instanceof Error ? error : new Error(String(error)))
  } finally {
    await reader.close()
  }
}
