/** The directory of a new backup. Until the backup is complete, its name is `<name>.partial`. */
import { mkdir, readdir, realpath, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { createDirectories } from '../../config/create-directories.ts'
import { DataDirInUse, lockDataDir } from '../../storage/data-lock.ts'
import { exists, hasCode } from '../../storage/disk.ts'
import { BackupProblem, DATA, EARLIER_SUMS, MANIFEST, SUMS, SUMS_DRAFT } from './manifest.ts'

/** Whether a file belongs to the lock: its database and SQLite's files for it. */
export const isLock = (name: string) => name.startsWith('lock.db')

/** The names in the directory of a backup, without its lock. */
export const BACKUP_NAMES = new Set([DATA, SUMS, SUMS_DRAFT, EARLIER_SUMS, MANIFEST])

/** Resolves to the real path of the backup's directory and creates its parent. @throws BackupProblem */
export async function checkedTarget(directory: string, dataDir: string): Promise<string> {
  const given = resolve(directory)
  await createDirectories(dirname(given))
  // Follow a symbolic link to an empty directory.
  const isThere = await exists(given)
  const target = isThere ? await realpath(given) : join(await realpath(dirname(given)), basename(given))
  await requireOutside(target, dataDir)
  if (!isThere) return target
  const names = await readdir(target).catch((error: unknown) => {
    throw hasCode(error, 'ENOTDIR') ? new BackupProblem(`${target} is not a directory`) : error
  })
  if (names.length > 0) throw new BackupProblem(`${target} is not empty`)
  const [own, parent] = await Promise.all([stat(target), stat(dirname(target))])
  if (own.dev !== parent.dev) {
    throw new BackupProblem(`${target} is a mount point: name a new directory in it`)
  }
  return target
}

/** @throws BackupProblem when the target is inside of the data directory */
export async function requireOutside(target: string, dataDir: string): Promise<void> {
  const fromData = relative(await realpath(dataDir), target)
  if (fromData === '' || (fromData !== '..' && !fromData.startsWith(`..${sep}`))) {
    throw new BackupProblem(`${target} is in DATA_DIR: a backup must be outside of it`)
  }
}

/**
 * Creates, locks and empties the directory of the unfinished backup. Removes only the files of an earlier killed
 * backup. Resolves to the function that releases the lock.
 *
 * @throws BackupProblem
 */
export async function lockPartial(partial: string, target: string): Promise<() => void> {
  // The backup contains secrets.
  await mkdir(partial, { mode: 0o700 }).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error
  })
  // Check before locking, which creates a file there.
  await leftoversIn(partial)
  try {
    const release = lockDataDir(partial)
    try {
      for (const name of await leftoversIn(partial)) {
        await rm(join(partial, name), { recursive: true, force: true })
      }
    } catch (error) {
      release()
      throw error
    }
    return release
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error
    throw new BackupProblem(`another backup to ${target} is under way`, { cause: error })
  }
}

/** Returns the files of an earlier backup, without its lock. @throws BackupProblem for any other file */
export async function leftoversIn(partial: string): Promise<string[]> {
  const names = (await readdir(partial)).sort()
  const files = names.filter((name) => !isLock(name))
  // A backup creates its lock first, so files without a lock are not from a backup.
  const foreign = files.find((name) => !BACKUP_NAMES.has(name) || files.length === names.length)
  if (foreign === undefined) return files
  throw new BackupProblem(
    `${partial}, the directory of the unfinished backup, has ${foreign}, which is not from a backup: move it away`,
  )
}
