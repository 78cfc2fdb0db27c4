/** Refuses a data directory with an unfinished restore or import. */
import { join } from 'node:path'
import { DataDirInUse } from './data-lock.ts'
import { exists } from './disk.ts'

/** Directory that exists until the last restored file is moved to its final path. */
export const RESTORING = 'restoring'

/** File in that directory that marks an import. */
export const IMPORT_STATE = 'import.json'

/**
 * File in that directory that marks a restore that has begun to replace data. All restored files are in the directory.
 */
export const REPLACEMENT = 'replace.json'

/**
 * Calls `unlock` and throws when the directory has an unfinished restore. A caller without the lock passes no `unlock`:
 * then the restore may still be running.
 * @throws DataDirInUse
 */
export async function refuseUnfinishedRestore(dataDir: string, unlock?: () => void): Promise<void> {
  if (!(await exists(join(dataDir, RESTORING)))) return
  unlock?.()
  const is = unlock === undefined ? 'is running or was cut off' : 'was cut off'
  const isImport = await exists(join(dataDir, RESTORING, IMPORT_STATE))
  throw new DataDirInUse(
    isImport
      ? `DATA_DIR: an import into ${dataDir} ${is}; run the same import again`
      : (await exists(join(dataDir, RESTORING, REPLACEMENT)))
        ? `DATA_DIR: a restore into ${dataDir} ${is}; run the same restore again to finish it`
        : `DATA_DIR: a restore into ${dataDir} ${is}; empty the directory and restore again`,
  )
}
