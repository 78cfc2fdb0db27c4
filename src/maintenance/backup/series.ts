/**
 * A series of backups in one directory, each in a directory named for its time; only the newest ones are kept. Other
 * files in the directory are not touched. `lock.db` in it excludes concurrent backups.
 */
import { readdir, realpath, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { createDirectories } from '../../config/create-directories.ts'
import { OperatorError } from '../../errors/operator-error.ts'
import { DataDirInUse, lockDataDir } from '../../storage/data-lock.ts'
import { exists, flush, hasCode, namesIn } from '../../storage/disk.ts'
import type { BackupInSeries, BackupResult } from './backup.ts'
import { BackupProblem, MANIFEST, type Manifest, readManifest } from './manifest.ts'
import { BACKUP_NAMES, leftoversIn, requireOutside } from './target.ts'

/** Sorts by time: `2026-11-22T18-20-05Z`, in UTC. */
const DATED = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ$/
/** A backup that is being created or removed. */
const UNFINISHED = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.(?:partial|removing)$/
const REMOVING = '.removing'
const SIXTEENTHS = 16

export interface SeriesOptions {
  /** The directory of the series. It is created when missing. */
  seriesDir: string
  dataDir: string
  /** Number of backups to keep, including the new one: 1 or more. */
  keep: number
  /** Creates one backup: a copy or an export. */
  make: (directory: string, series: BackupInSeries) => Promise<BackupResult>
}

export interface SeriesResult extends BackupResult {
  /** The names of the kept backups, oldest first. */
  kept: string[]
  /** The names of the removed backups. */
  removed: string[]
  /** Directories with a backup's name that are damaged or not backups. They are never removed. */
  unusable: string[]
}

/**
 * Creates the next backup of a series, then removes the oldest ones beyond `keep`, unless the new backup lacks files or
 * found damage in the previous one: an older one may have the lost files.
 * @throws BackupProblem and errors of `make`; then all older backups are unchanged
 */
export async function nextInSeries({
  seriesDir: given,
  dataDir,
  keep,
  make,
}: SeriesOptions): Promise<SeriesResult> {
  const seriesDir = await openSeriesDir(given, dataDir)
  const unlock = lockSeriesDir(seriesDir)
  try {
    await removeUnfinished(seriesDir)
    const { whole } = await backupsIn(seriesDir)
    const before = whole.at(-1)
    const directory = join(seriesDir, await nextName(seriesDir))
    const created = await make(directory, {
      earlier: before && join(seriesDir, before.name),
      reread: ((before?.manifest.series?.reread ?? -1) + 1) % SIXTEENTHS,
    }).catch((error: unknown) => {
      throw isFull(error)
        ? new BackupProblem(`no space left for a backup in ${seriesDir}; the older ones are unchanged`, {
            cause: error,
          })
        : error
    })
    const isSound = created.missing.length === 0 && created.damaged.length === 0
    const removed = isSound ? await removeOldest(seriesDir, keep) : []
    const { whole: kept, unusable } = await backupsIn(seriesDir)
    return { ...created, kept: kept.map(({ name }) => name), removed, unusable }
  } finally {
    unlock()
  }
}

/** Returns the newest backup of a series. @throws BackupProblem without a usable one */
export async function newestIn(seriesDir: string): Promise<string> {
  const newest = (await datedIn(seriesDir)).at(-1)
  if (newest === undefined) throw new BackupProblem(`${seriesDir} has no backup`)
  const directory = join(seriesDir, newest)
  // An older one is not used silently: its restore would lose later changes.
  await readManifest(directory)
  return directory
}

/** Whether a directory has backups of a series, and is not a backup itself. */
export async function isSeries(directory: string): Promise<boolean> {
  return !(await exists(join(directory, MANIFEST))) && (await datedIn(directory)).length > 0
}

/** The names of backups in a directory, oldest first. */
export const datedIn = async (seriesDir: string): Promise<string[]> =>
  (await namesIn(seriesDir)).filter((name) => DATED.test(name)).sort()

async function openSeriesDir(given: string, dataDir: string): Promise<string> {
  const directory = resolve(given)
  await createDirectories(directory)
  const seriesDir = await realpath(directory)
  await requireOutside(seriesDir, dataDir)
  if (!(await exists(join(seriesDir, MANIFEST)))) return seriesDir
  throw new BackupProblem(`${seriesDir} is itself a backup: name a directory for the series`)
}

function lockSeriesDir(seriesDir: string): () => void {
  try {
    return lockDataDir(seriesDir)
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error
    throw new BackupProblem(`another backup to ${seriesDir} is under way`, { cause: error })
  }
}

/** Removes the leftovers of a killed run, by name, and only directories with nothing but a backup's files. */
async function removeUnfinished(seriesDir: string): Promise<void> {
  for (const name of (await namesIn(seriesDir)).filter((name) => UNFINISHED.test(name))) {
    const path = join(seriesDir, name)
    const isOurs = await isLeftover(path)
    if (isOurs) await rm(path, { recursive: true, force: true })
  }
}

async function isLeftover(path: string): Promise<boolean> {
  try {
    // A removal deletes a backup's files last; a new backup begins with its lock.
    const names = await readdir(path)
    if (path.endsWith(REMOVING)) return names.every((name) => BACKUP_NAMES.has(name))
    if (names.length > 0) await leftoversIn(path)
    return true
  } catch (error) {
    if (error instanceof BackupProblem || hasCode(error, 'ENOTDIR')) return false
    throw error
  }
}

interface WholeBackup {
  name: string
  manifest: Manifest
}

/** The whole backups of this series, oldest first. */
async function backupsIn(seriesDir: string): Promise<{ whole: WholeBackup[]; unusable: string[] }> {
  const whole: WholeBackup[] = []
  const unusable: string[] = []
  for (const name of await datedIn(seriesDir)) {
    try {
      const manifest = await readManifest(join(seriesDir, name))
      if (manifest.series !== undefined) whole.push({ name, manifest })
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error
      unusable.push(name)
    }
  }
  return { whole, unusable }
}

/** Returns a name for the current time, or for one second after the newest backup if the clock is behind it. */
async function nextName(seriesDir: string): Promise<string> {
  const nameOf = (time: number) => `${new Date(time).toISOString().slice(0, 19).replaceAll(':', '-')}Z`
  const newest = (await datedIn(seriesDir)).at(-1)
  const now = nameOf(Date.now())
  if (newest === undefined || newest < now) return now
  const [day = '', time = ''] = newest.split('T')
  return nameOf(Date.parse(`${day}T${time.replaceAll('-', ':')}`) + 1000)
}

async function removeOldest(seriesDir: string, keep: number): Promise<string[]> {
  const { whole } = await backupsIn(seriesDir)
  const removed = whole.slice(0, Math.max(0, whole.length - keep)).map(({ name }) => name)
  for (const name of removed) {
    const removing = join(seriesDir, `${name}${REMOVING}`)
    await rename(join(seriesDir, name), removing)
    // Without a manifest it does not count as a backup, even if the removal is interrupted.
    await rm(join(removing, MANIFEST))
    await flush(removing)
    await flush(seriesDir)
    await rm(removing, { recursive: true, force: true })
  }
  return removed
}

/** Whether a disk or quota was full. SQLite reports this only in its message. */
const isFull = (error: unknown) =>
  hasCode(error, 'ENOSPC') ||
  hasCode(error, 'EDQUOT') ||
  (error instanceof Error && /database or disk is full/.test(error.message))
