/** Refuses a data directory that a restore or an import has begun to fill but not finished. */
import { join } from 'node:path'
import { DataDirInUse } from './data-lock.ts'
import { exists } from './disk.ts'

/** The directory exists from before the first file is restored until after the last file is in its place. */
export const RESTORING = 'restoring'

/** The file in that directory that only an import has. */
export const IMPORT_STATE = 'import.json'

/** The file in that directory of a restore that has begun to replace other data. Its own files are all there. */
export const REPLACEMENT = 'replace.json'

/**
 * Calls `unlock` and throws when the directory is half restored. A caller without the lock passes no
 * `unlock`: it can't know whether the restore is still running.
 *
 * @throws DataDirInUse
 */
export async function refuseUnfinishedRestore(dataDir: string, unlock?: () => void): Promise<void> {
  if (!(await exists(join(dataDir, RESTORING)))) return
  unlock?.()
  const is = unlock === undefined ? 'is not done or was cut off' : 'was cut off'
  const isImport = await exists(join(dataDir, RESTORING, IMPORT_STATE))
  throw new DataDirInUse(
    isImport
      ? `DATA_DIR: an import into ${dataDir} ${is}; run the same import again`
      : (await exists(join(dataDir, RESTORING, REPLACEMENT)))
        ? `DATA_DIR: a restore into ${dataDir} ${is}; run it again, which finishes it`
        : `DATA_DIR: a restore into ${dataDir} ${is}; empty the directory and restore again`,
  )
}
