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

/** Whether the entry `name` of a data directory has only startup files. */
export async function isStartupFile(dataDir: string, name: string): Promise<boolean> {
  if (name === FORMAT_FILE) return true
  return name === 'git' && (await namesIn(join(dataDir, name))).every((inside) => inside === HOOKS)
}

/**
 * Removes the startup files before restored ones are moved in. Each start creates the hooks again.
 * @throws BackupProblem when a directory cannot be removed, such as a mount point
 */
export async function removeStartupFiles(dataDir: string): Promise<void> {
  const git = join(dataDir, 'git')
  await rm(join(git, HOOKS), { recursive: true, force: true })
  await unlessMissing(rmdir(git)).catch((error: unknown) => {
    throw pathOccupied(git, error)
  })
}

/** Returns the problem of a path that a restored file cannot replace. */
export function pathOccupied(path: string, error: unknown): BackupProblem {
  const why = hasCode(error, 'EBUSY')
    ? 'is a mount point'
    : hasCode(error, 'ENOTDIR')
      ? 'is a link'
      : `cannot be moved (${error instanceof Error ? error.message : String(error)})`
  return new BackupProblem(
    `DATA_DIR: ${path} ${why}, so nothing was restored: remove it, restore, and move the restored one to its disk`,
    { cause: error },
  )
}
