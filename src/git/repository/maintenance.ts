/**
 * Keeps a repository fast and small: packs loose objects, combines packs, and removes objects that have been unreachable
 * for two weeks. It runs concurrently with pushes, merges, clones and forks; `docs/decisions/git-maintenance.md` explains
 * why each step is safe. One call at a time for a repository.
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
 * `light`: packs loose objects, and combines small packs. `full`: writes one pack of all reachable objects, with a bitmap.
 */
export type MaintenanceKind = 'none' | 'light' | 'full'

const MAINTENANCE_STEPS = ['clean', 'refs', 'commit graph', 'loose objects', 'packs'] as const
export type MaintenanceStep = (typeof MAINTENANCE_STEPS)[number]

export interface MaintenanceOptions {
  /** `due`: as the files require. */
  kind?: 'due' | 'full'
  /**
   * Runs work that briefly locks all refs: no push or merge may move a ref meanwhile. After a crash, its locks must be
   * removed before a ref moves.
   */
  withRefLock(work: () => Promise<void>): Promise<void>
  /** Git's files that were last written before this time (milliseconds since 1970) are orphaned. */
  orphanedBefore?: number
  signal?: AbortSignal | undefined
  onStep?: (step: MaintenanceStep) => void
}

const HOUR = 3600_000
const DAY = 24 * HOUR
/** Number of loose objects from which they are packed. */
const MANY_LOOSE = 1000
/** Number of packs from which they are combined: git searches each pack for each object. */
const MANY_PACKS = 10
/** Number of loose refs from which they are packed. Fewer are faster to read one by one. */
const MANY_REFS = 1000
/** Size of the other packs, relative to the main pack, at which a full repack is due. */
const GROWTH = 1 / 2
/** Maximum time that a push or merge uses an object, in milliseconds. Settings limit it to a day. */
const IN_USE_MS = 25 * HOUR
/** Days after which unreachable objects are removed. */
export const UNREACHABLE_DAYS = 14
/** Time limit of a step in a very large repository, in milliseconds. */
const STEP_TIMEOUT = 12 * HOUR

const CONFIG: GitConfig = [
  // Background work: one thread, and little of the memory limit.
  ['pack.threads', '1'],
  ['pack.windowMemory', '128m'],
  ['pack.deltaCacheSize', '64m'],
  ['repack.writeBitmaps', 'false'],
]

/** Returns the maintenance that is due. `packs`: the largest first. */
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
 * Packs many loose refs, and maintains the objects as due, or fully. Resolves to the kind of maintenance that was done. If
 * killed at any point, it leaves a complete repository, and files that the next maintenance removes.
 * @throws RepositoryMissing, GitUnavailable, GitFailed, GitTooSlow, or the signal's reason
 */
export async function maintainRepository(
  dir: string,
  { kind = 'due', withRefLock, orphanedBefore, signal, onStep = () => {} }: MaintenanceOptions,
): Promise<MaintenanceKind> {
  const options = { dir, config: CONFIG, queue: 'held', timeout: STEP_TIMEOUT, signal } as const
  const run = (...args: string[]) => gitOutput(args, options)

  onStep('clean')
  await removeLeft(dir, orphanedBefore)
  onStep('refs')
  if ((await looseRefs(dir)) >= MANY_REFS) {
    await withRefLock(async () => {
      await freeLocks(dir, ['packed-refs'])
      // Without the signal: a shutdown waits for this, so that it leaves no lock.
      await gitOutput(['pack-refs', '--all', '--prune'], { ...options, signal: undefined, timeout: 60_000 })
      await flush(dir)
    })
  }
  const due =
    kind === 'full' ? 'full' : maintenanceDue(await looseObjects(dir), await packsOf(dir), timeOfFiles())
  if (due === 'none') return due

  const isFull = await removingUnfinishedPacks(dir, () => repack(dir, due, run, onStep))
  // The readers keep the files of removed packs open.
  void objectReaders.close(dir)
  return isFull ? 'full' : due
}

type Run = (...args: string[]) => Promise<Buffer>

/** Resolves to whether the repository has a single pack of all reachable objects. */
async function repack(
  dir: string,
  due: MaintenanceKind,
  run: Run,
  onStep: (step: MaintenanceStep) => void,
): Promise<boolean> {
  onStep('loose objects')
  // Walks from the refs, so that git knows the paths and finds good deltas. Combining loose objects without paths makes
  // packs many times as large.
  await run('repack', '-d', '-q')
  if (due === 'light') {
    onStep('packs')
    await run('repack', '-d', '-q', '--geometric=2')
  }
  // Small packs with many objects may have been combined with the main pack.
  const isFull = due === 'full' || !(await packsOf(dir)).some(({ hasBitmap }) => hasBitmap)
  if (isFull) {
    onStep('commit graph')
    // Before objects are removed, and from the refs: so the graph never names a missing commit.
    await run('commit-graph', 'write', '--reachable', '--no-progress')
    onStep('packs')
    await repackAll(dir, run)
  }
  return isFull
}

/**
 * Removes the unfinished packs of failed repacks, which git leaves: on a nearly full disk the first one would use up the
 * rest.
 */
async function removingUnfinishedPacks<T>(dir: string, work: () => Promise<T>): Promise<T> {
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

/** Only repacks create these here: pushes use a quarantine, and copies of history a staging area. */
const UNFINISHED_PACK = /^tmp_(?:pack|idx|rev|mtimes|bitmap)_|^\.tmp-\d+-pack-/

async function unfinishedPacks(dir: string): Promise<string[]> {
  const directory = join(dir, 'objects', 'pack')
  return (await namesIn(directory))
    .filter((name) => UNFINISHED_PACK.test(name))
    .map((name) => join(directory, name))
}

/**
 * Packs all reachable objects as one pack, and the rest as a cruft pack with a time for each object. First sets the times
 * of all objects outside cruft packs to now: so the two weeks begin when an object was first seen unreachable. Only objects
 * that were in a cruft pack for more than a day are removed, because work in flight may have found younger ones elsewhere.
 * git rewrites an object that it finds only in a cruft pack.
 */
async function repackAll(dir: string, run: Run): Promise<void> {
  const now = timeOfFiles()
  const touch = async (path: string) => void (await unlessMissing(utimes(path, new Date(now), new Date(now))))
  const pathOf = (name: string) => join(dir, 'objects', 'pack', name)
  for (const { name, isCruft, writtenAt: at } of await packsOf(dir)) {
    // The pack was written before the clock was set back. Without its times it is an ordinary pack.
    if (isCruft && at > now + IN_USE_MS) await rm(pathOf(`${name}.mtimes`), { force: true })
  }
  const packs = await packsOf(dir)
  for (const { name, isCruft } of packs) if (!isCruft) await touch(pathOf(`${name}.pack`))
  await eachLooseObject(dir, touch)
  const cruft = packs.filter(({ isCruft }) => isCruft)
  const mayExpire = cruft.length > 0 && cruft.every(({ writtenAt: at }) => at < now - IN_USE_MS)
  // git would count a number of days by its own clock, which may have been set forward meanwhile.
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

/** Names that only `git repack` uses. An orphaned repack fails without these files, before it removes anything. */
const REPACK_TEMPORARY = /^\.tmp-\d+-pack-/
/** A push protects its pack from being combined until its refs have moved. */
const KEPT = /^pack-[0-9a-f]{40}\.keep$/

/** Removes leftovers of killed processes: unfinished objects and packs, and locks of the commit graph. */
async function removeLeft(dir: string, orphanedBefore = Number.NEGATIVE_INFINITY): Promise<void> {
  const isOrphaned = (written: number) => written < orphanedBefore || isAbandoned(written)
  await removeObjects(dir, isOrphaned)
  const packDirectory = join(dir, 'objects', 'pack')
  for (const name of await namesIn(packDirectory)) {
    const path = join(packDirectory, name)
    if (REPACK_TEMPORARY.test(name)) await rm(path, { force: true })
    else if (KEPT.test(name) && isOrphaned((await writtenAt(path)) ?? Date.now()))
      await rm(path, { force: true })
  }
  await rm(join(dir, 'objects', 'info', 'commit-graph.lock'), { force: true })
}
