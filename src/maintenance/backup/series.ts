/**
 * A series of backups in one directory. Each is a directory named for its time; only the newest ones are kept. The
 * directory may have other files: they are left alone. `lock.db` in it lets one backup work at a time.
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
/** A backup that is being made, or that is being removed. */
const UNFINISHED = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.(?:partial|removing)$/
const REMOVING = '.removing'
const SIXTEENTHS = 16

export interface SeriesOptions {
  /** The directory of the series. It is made when it does not exist. */
  place: string
  dataDir: string
  /** How many backups stay, with the new one: 1 or more. */
  keep: number
  /** Makes one backup: a copy or an export. */
  make: (directory: string, series: BackupInSeries) => Promise<BackupResult>
}

export interface SeriesResult extends BackupResult {
  /** The backups that are there now, oldest first. */
  kept: string[]
  /** The names of those that were removed. */
  removed: string[]
  /** Directories with a backup's name that are damaged or not backups. They are never removed. */
  unusable: string[]
}

/**
 * Makes the next backup of a series, then removes the oldest ones beyond `keep`. Removes none when the new backup lacks
 * files or found damage in the previous one: an older one may have the lost files.
 * @throws BackupProblem and errors of `make`; then all older backups are unchanged
 */
export async function nextInSeries({
  place: given,
  dataDir,
  keep,
  make,
}: SeriesOptions): Promise<SeriesResult> {
  const place = await openPlace(given, dataDir)
  const unlock = lockPlace(place)
  try {
    await removeUnfinished(place)
    const { whole } = await backupsIn(place)
    const before = whole.at(-1)
    const directory = join(place, await nextName(place))
    const made = await make(directory, {
      earlier: before && join(place, before.name),
      reread: ((before?.manifest.series?.reread ?? -1) + 1) % SIXTEENTHS,
    }).catch((error: unknown) => {
      throw isFull(error)
        ? new BackupProblem(`no space left for a backup in ${place}; the older ones are as they were`, {
            cause: error,
          })
        : error
    })
    const isSound = made.missing.length === 0 && made.damaged.length === 0
    const removed = isSound ? await removeOldest(place, keep) : []
    const { whole: kept, unusable } = await backupsIn(place)
    return { ...made, kept: kept.map(({ name }) => name), removed, unusable }
  } finally {
    unlock()
  }
}

/** Returns the newest backup of a series. @throws BackupProblem without a usable one */
export async function newestIn(place: string): Promise<string> {
  const newest = (await datedIn(place)).at(-1)
  if (newest === undefined) throw new BackupProblem(`${place} has no backup`)
  const directory = join(place, newest)
  // An older one is not used silently: its restore would lose later changes.
  await readManifest(directory)
  return directory
}

/** Whether a directory has backups of a series, and is not a backup itself. */
export async function isSeries(directory: string): Promise<boolean> {
  return !(await exists(join(directory, MANIFEST))) && (await datedIn(directory)).length > 0
}

/** The names in a directory that are those of backups, oldest first. */
export const datedIn = async (place: string): Promise<string[]> =>
  (await namesIn(place)).filter((name) => DATED.test(name)).sort()

async function openPlace(given: string, dataDir: string): Promise<string> {
  const directory = resolve(given)
  await createDirectories(directory)
  const place = await realpath(directory)
  await requireOutside(place, dataDir)
  if (!(await exists(join(place, MANIFEST)))) return place
  throw new BackupProblem(`${place} is itself a backup: name a directory for the series`)
}

function lockPlace(place: string): () => void {
  try {
    return lockDataDir(place)
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error
    throw new BackupProblem(`another backup to ${place} is under way`, { cause: error })
  }
}

/** Removes the leftovers of a killed run, by name, and only directories with nothing but a backup's files. */
async function removeUnfinished(place: string): Promise<void> {
  for (const name of (await namesIn(place)).filter((name) => UNFINISHED.test(name))) {
    const path = join(place, name)
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
async function backupsIn(place: string): Promise<{ whole: WholeBackup[]; unusable: string[] }> {
  const whole: WholeBackup[] = []
  const unusable: string[] = []
  for (const name of await datedIn(place)) {
    try {
      const manifest = await readManifest(join(place, name))
      if (manifest.series !== undefined) whole.push({ name, manifest })
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error
      unusable.push(name)
    }
  }
  return { whole, unusable }
}

/** The name of the time, or of the second after the newest backup when the clock stands before it. */
async function nextName(place: string): Promise<string> {
  const nameOf = (time: number) => `${new Date(time).toISOString().slice(0, 19).replaceAll(':', '-')}Z`
  const newest = (await datedIn(place)).at(-1)
  const now = nameOf(Date.now())
  if (newest === undefined || newest < now) return now
  const [day = '', time = ''] = newest.split('T')
  return nameOf(Date.parse(`${day}T${time.replaceAll('-', ':')}`) + 1000)
}

async function removeOldest(place: string, keep: number): Promise<string[]> {
  const { whole } = await backupsIn(place)
  const removed = whole.slice(0, Math.max(0, whole.length - keep)).map(({ name }) => name)
  for (const name of removed) {
    const going = join(place, `${name}${REMOVING}`)
    await rename(join(place, name), going)
    // Without its manifest it does not count as a backup, even if the removal is interrupted.
    await rm(join(going, MANIFEST))
    await flush(going)
    await flush(place)
    await rm(going, { recursive: true, force: true })
  }
  return removed
}

/** Whether a disk or quota was full. SQLite tells it only in its message. */
const isFull = (error: unknown) =>
  hasCode(error, 'ENOSPC') ||
  hasCode(error, 'EDQUOT') ||
  (error instanceof Error && /database or disk is full/.test(error.message))
