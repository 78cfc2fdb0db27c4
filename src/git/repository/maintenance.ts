/**
 * Keeps a repository fast and small: packs loose objects, rolls packs up, and removes what no ref has reached for two
 * weeks. It runs beside pushes, merges, clones and forks; `docs/decisions/git-maintenance.md` says why each step may.
 * Call it once at a time for a repository.
 */
import { opendir, rm, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { flush, isAbandoned, namesIn, timeOfFiles, unlessMissing, writtenAt } from '../../storage/disk.ts'
import { objectReaders } from '../objects/object-readers.ts'
import type { GitConfig } from '../process/environment.ts'
import { gitOutput } from '../process/run.ts'
import { freeLocks, removeObjects } from './leftovers.ts'
import { eachLooseObject, looseObjects, type PackFiles, packsOf } from './object-counts.ts'

/**
 * What is done with the objects. `light`: packs what is loose, and rolls up small packs. `full`: one pack of all that refs
 * reach, with a bitmap.
 */
export type MaintenanceKind = 'none' | 'light' | 'full'

const MAINTENANCE_STEPS = ['clean', 'refs', 'commit graph', 'loose objects', 'packs'] as const
export type MaintenanceStep = (typeof MAINTENANCE_STEPS)[number]

export interface MaintenanceOptions {
  /** `due`: what the files ask for. */
  kind?: 'due' | 'full'
  /**
   * Runs work that locks all refs at once, for a moment: no push or merge may move a ref meanwhile. The locks that
   * a crash leaves must be removed before anything else moves one.
   */
  inRefsTurn(work: () => Promise<void>): Promise<void>
  /** Files of git that were last written before this time (milliseconds since 1970) are nobody's any more. */
  orphanedBefore?: number
  signal?: AbortSignal | undefined
  onStep?: (step: MaintenanceStep) => void
}

const HOUR = 3600_000
const DAY = 24 * HOUR
/** Loose objects that are worth a pack. */
const MANY_LOOSE = 1000
/** Packs that are worth to be rolled up: each one is asked for each object. */
const MANY_PACKS = 10
/** Loose refs that are worth one file. Fewer are read faster one by one. */
const MANY_REFS = 1000
/** A full repack is due when the other packs have so much of what the main one has. */
const GROWTH = 1 / 2
/** No setting lets one push or merge take more than a day: what one relies on was in use within this time. */
const IN_USE_MS = 25 * HOUR
/** What no ref has reached for this long is removed. */
export const UNREACHABLE_DAYS = 14
/** A step of a very large repository takes hours. */
const STEP_TIMEOUT = 12 * HOUR

const CONFIG: GitConfig = [
  // It gives way to others, so it must not have a thread for each processor, nor all the memory of its limit.
  ['pack.threads', '1'],
  ['pack.windowMemory', '128m'],
  ['pack.deltaCacheSize', '64m'],
  ['repack.writeBitmaps', 'false'],
]

/** What the objects of a repository ask for. `packs`: the largest first. */
export function maintenanceDue(loose: number, packs: readonly PackFiles[], now: number): MaintenanceKind {
  const ordinary = packs.filter(({ isCruft }) => !isCruft)
  const main = ordinary.find(({ hasBitmap }) => hasBitmap)
  const others = ordinary.filter((pack) => pack !== main)
  const cruft = packs.filter(({ isCruft }) => isCruft)
  const hasExpired = cruft.some(({ writtenAt: at }) => at < now - UNREACHABLE_DAYS * DAY - IN_USE_MS)
  if (hasExpired) return 'full'
  if (loose < MANY_LOOSE && others.length < MANY_PACKS) return 'none'
  if (main === undefined) return 'full'
  const beside = others.reduce((bytes, pack) => bytes + pack.bytes, 0)
  return beside >= main.bytes * GROWTH ? 'full' : 'light'
}

/**
 * Packs many loose refs, and does with the objects what is due, or all. Resolves to what was done with them. Killed at
 * any point, it leaves a repository that has all of its objects, and files that the next maintenance removes.
 *
 * @throws RepositoryMissing, GitUnavailable, GitFailed, GitTooSlow, or the signal's reason
 */
export async function maintainRepository(
  dir: string,
  { kind = 'due', inRefsTurn, orphanedBefore, signal, onStep = () => {} }: MaintenanceOptions,
): Promise<MaintenanceKind> {
  const options = { dir, config: CONFIG, queue: 'held', timeout: STEP_TIMEOUT, signal } as const
  const run = (...args: string[]) => gitOutput(args, options)

  onStep('clean')
  await removeLeft(dir, orphanedBefore)
  onStep('refs')
  if ((await looseRefs(dir)) >= MANY_REFS) {
    await inRefsTurn(async () => {
      await freeLocks(dir, ['packed-refs'])
      // Without the signal: a stop waits for this moment, so that no lock of it stays.
      await gitOutput(['pack-refs', '--all', '--prune'], { ...options, signal: undefined, timeout: 60_000 })
      await flush(dir)
    })
  }
  const due =
    kind === 'full' ? 'full' : maintenanceDue(await looseObjects(dir), await packsOf(dir), timeOfFiles())
  if (due === 'none') return due

  const isFull = await leavingNothing(dir, () => repack(dir, due, run, onStep))
  // They hold on to the files of packs that are gone.
  void objectReaders.close(dir)
  return isFull ? 'full' : due
}

type Run = (...args: string[]) => Promise<Buffer>

/** Resolves to whether the repository has one pack of all that refs reach. */
async function repack(
  dir: string,
  due: MaintenanceKind,
  run: Run,
  onStep: (step: MaintenanceStep) => void,
): Promise<boolean> {
  onStep('loose objects')
  // Walks from the refs, so git knows the paths of what it packs, and finds good deltas. To roll up loose objects
  // without paths makes packs that are many times as large.
  await run('repack', '-d', '-q')
  if (due === 'light') {
    onStep('packs')
    await run('repack', '-d', '-q', '--geometric=2')
  }
  // Small packs with many objects may have taken the main one with them.
  const isFull = due === 'full' || !(await packsOf(dir)).some(({ hasBitmap }) => hasBitmap)
  if (isFull) {
    onStep('commit graph')
    // Before anything is removed, and from the refs: so it names nothing that will be missing.
    await run('commit-graph', 'write', '--reachable', '--no-progress')
    onStep('packs')
    await repackAll(dir, run)
  }
  return isFull
}

/**
 * Removes the unfinished packs of repacks that failed. git leaves them: on a disk that is nearly full the first one would
 * take the rest of it, until nobody can use its file any more.
 */
async function leavingNothing<T>(dir: string, work: () => Promise<T>): Promise<T> {
  const before = new Set(await unfinishedPacks(dir))
  try {
    return await work()
  } catch (error) {
    for (const path of await unfinishedPacks(dir).catch(() => [])) {
      if (!before.has(path)) await rm(path, { force: true }).catch(() => undefined)
    }
    throw error
  }
}

/** Only repacks make these here: pushes have a quarantine, and copies of history a staging area. */
const UNFINISHED_PACK = /^tmp_(?:pack|idx|rev|mtimes|bitmap)_|^\.tmp-\d+-pack-/

async function unfinishedPacks(dir: string): Promise<string[]> {
  const directory = join(dir, 'objects', 'pack')
  return (await namesIn(directory))
    .filter((name) => UNFINISHED_PACK.test(name))
    .map((name) => join(directory, name))
}

/**
 * Packs all that refs reach as one pack, and the rest as a cruft pack in which each object has a time. First sets the
 * times of all that is not in a cruft pack yet to now: so the two weeks begin when an object was first seen without a
 * ref. Only what was in a cruft pack for more than a day is removed, since work that is under way may have found it
 * before, elsewhere. git writes again what it finds in a cruft pack alone.
 */
async function repackAll(dir: string, run: Run): Promise<void> {
  const now = timeOfFiles()
  const touch = async (path: string) => void (await unlessMissing(utimes(path, new Date(now), new Date(now))))
  const pathOf = (name: string) => join(dir, 'objects', 'pack', name)
  for (const { name, isCruft, writtenAt: at } of await packsOf(dir)) {
    // It is from before the clock was set back. Without its times it is a pack like others.
    if (isCruft && at > now + IN_USE_MS) await rm(pathOf(`${name}.mtimes`), { force: true })
  }
  const packs = await packsOf(dir)
  for (const { name, isCruft } of packs) if (!isCruft) await touch(pathOf(`${name}.pack`))
  await eachLooseObject(dir, touch)
  const cruft = packs.filter(({ isCruft }) => isCruft)
  const mayExpire = cruft.length > 0 && cruft.every(({ writtenAt: at }) => at < now - IN_USE_MS)
  // A number of days would be counted by git's own clock, which may have been set forward meanwhile.
  const expiresAt = Math.floor((now - UNREACHABLE_DAYS * DAY) / 1000)
  const expiration = mayExpire ? [`--cruft-expiration=@${expiresAt} +0000`] : []
  await run('repack', '-d', '-q', '--cruft', ...expiration, '--write-bitmap-index')
}

async function looseRefs(dir: string): Promise<number> {
  let count = 0
  const directories = [join(dir, 'refs')]
  for (let next = directories.pop(); next !== undefined; next = directories.pop()) {
    for await (const entry of (await unlessMissing(opendir(next))) ?? []) {
      if (entry.isDirectory()) directories.push(join(next, entry.name))
      else count += 1
    }
  }
  return count
}

/**
 * Packs under these names are being made by `git repack`, and by nobody else. One that a killed server has left running
 * fails without them, before it removes anything.
 */
const REPACK_TEMPORARY = /^\.tmp-\d+-pack-/
/** A push keeps its pack from being rolled up until its refs have moved. */
const KEPT = /^pack-[0-9a-f]{40}\.keep$/

/** Removes what killed processes have left: objects and packs that were being made, and locks of the commit graph. */
async function removeLeft(dir: string, leftBefore = Number.NEGATIVE_INFINITY): Promise<void> {
  const isLeft = (written: number) => written < leftBefore || isAbandoned(written)
  await removeObjects(dir, isLeft)
  const packDirectory = join(dir, 'objects', 'pack')
  for (const name of await namesIn(packDirectory)) {
    const path = join(packDirectory, name)
    if (REPACK_TEMPORARY.test(name)) await rm(path, { force: true })
    else if (KEPT.test(name) && isLeft((await writtenAt(path)) ?? Date.now())) await rm(path, { force: true })
  }
  await rm(join(dir, 'objects', 'info', 'commit-graph.lock'), { force: true })
}
