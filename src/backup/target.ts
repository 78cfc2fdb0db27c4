/** Where a backup comes to be: under another name until all of it is there. */
import { mkdir, readdir, realpath, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { DataDirInUse, lockDataDir } from '../data-lock.ts'
import { exists, hasCode } from '../disk.ts'
import { BackupProblem, DATA, MANIFEST, SUMS, SUMS_DRAFT } from './manifest.ts'

/** The lock's file, and what SQLite has beside it. */
export const isLock = (name: string) => name.startsWith('lock.db')

/** What a backup puts beside its lock before it is done. */
const OURS = new Set([DATA, SUMS, SUMS_DRAFT, MANIFEST])

/** The directory that the backup becomes, its parent made. @throws BackupProblem */
export async function usableTarget(directory: string, dataDir: string): Promise<string> {
  const given = resolve(directory)
  await mkdir(dirname(given), { recursive: true })
  // A link to an empty directory stands for that one.
  const isThere = await exists(given)
  const target = isThere ? await realpath(given) : join(await realpath(dirname(given)), basename(given))
  const fromData = relative(await realpath(dataDir), target)
  if (fromData === '' || (fromData !== '..' && !fromData.startsWith(`..${sep}`))) {
    throw new BackupProblem(`${target} is in DATA_DIR: a backup must lie elsewhere`)
  }
  if (!isThere) return target
  const names = await readdir(target).catch((error: unknown) => {
    throw hasCode(error, 'ENOTDIR') ? new BackupProblem(`${target} is no directory`) : error
  })
  if (names.length > 0) throw new BackupProblem(`${target} is not empty`)
  const [own, parent] = await Promise.all([stat(target), stat(dirname(target))])
  if (own.dev !== parent.dev) {
    throw new BackupProblem(`${target} is a mount point: name a directory in it that is not there yet`)
  }
  return target
}

/**
 * Takes the directory that the work is done in, empty; resolves to the release. What a backup that was killed
 * has left there is removed, and nothing else.
 *
 * @throws BackupProblem
 */
export async function takePartial(partial: string, target: string): Promise<() => void> {
  // There are secrets in it.
  await mkdir(partial, { mode: 0o700 }).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error
  })
  // Before the lock, which would put a file there.
  await remainsIn(partial)
  try {
    const release = lockDataDir(partial)
    try {
      for (const name of await remainsIn(partial)) {
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

/** What is left of a backup, its lock aside. @throws BackupProblem when something there is none of a backup's */
async function remainsIn(partial: string): Promise<string[]> {
  const names = (await readdir(partial)).sort()
  const remains = names.filter((name) => !isLock(name))
  // A backup begins with its lock: without one even a directory named as ours is somebody else's.
  const foreign = remains.find((name) => !OURS.has(name) || remains.length === names.length)
  if (foreign === undefined) return remains
  throw new BackupProblem(
    `${partial}, where the backup would be made, has ${foreign}, which no backup has left there: move it away`,
  )
}
