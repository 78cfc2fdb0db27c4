/** A data directory that a restore has begun to fill and has not finished: nobody may take it for a whole one. */
import { join } from 'node:path'
import { DataDirInUse } from '../data-lock.ts'
import { exists } from '../disk.ts'

/** There from before the first file is until after the last one is in its place. */
export const RESTORING = 'restoring'

/**
 * Calls `unlock` and throws when the directory is half restored. Who has no lock can't tell whether the restore is
 * still under way.
 *
 * @throws DataDirInUse
 */
export async function refuseHalfRestored(dataDir: string, unlock?: () => void): Promise<void> {
  if (!(await exists(join(dataDir, RESTORING)))) return
  unlock?.()
  const is = unlock === undefined ? 'is not done or was cut off' : 'was cut off'
  throw new DataDirInUse(`DATA_DIR: a restore into ${dataDir} ${is}; empty the directory and restore again`)
}
