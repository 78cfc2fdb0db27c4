/**
 * Files that every start creates in a data directory before it opens its stores. A restore or an import may fill a
 * directory with only these.
 */
import { rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { HOOKS } from '../../git/push/push-hook.ts'
import { FORMAT_FILE } from '../../storage/data-format.ts'
import { hasCode, namesIn, unlessMissing } from '../../storage/disk.ts'
import { BackupProblem } from './manifest.ts'

/** Whether this name directly in a data directory holds only that. */
export async function isStartupFile(dataDir: string, name: string): Promise<boolean> {
  if (name === FORMAT_FILE) return true
  return name === 'git' && (await namesIn(join(dataDir, name))).every((inside) => inside === HOOKS)
}

/**
 * Removes them for the new directories. Each start creates the hooks again.
 * @throws BackupProblem when a directory cannot be removed, such as a mount point
 */
export async function removeStartupFiles(dataDir: string): Promise<void> {
  const git = join(dataDir, 'git')
  await rm(join(git, HOOKS), { recursive: true, force: true })
  await unlessMissing(rmdir(git)).catch((error: unknown) => {
    throw pathOccupied(git, error)
  })
}

/** The problem that something of the operator's is where restored files belong. */
export function pathOccupied(path: string, error: unknown): BackupProblem {
  const why = hasCode(error, 'EBUSY')
    ? 'is a mount point'
    : hasCode(error, 'ENOTDIR')
      ? 'is a link'
      : `stays where it is (${error instanceof Error ? error.message : String(error)})`
  return new BackupProblem(
    `DATA_DIR: ${path} ${why}, so nothing was restored: take it away, restore, and move the new one to its disk`,
    { cause: error },
  )
}
