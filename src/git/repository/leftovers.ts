/** Removes files that git processes leave behind when they are killed during a write. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import {
  filesBelow,
  isAbandoned,
  namesIn,
  timeOfFilesIn,
  unlessMissing,
  writtenAt,
} from '../../storage/disk.ts'

/**
 * Age of an orphaned lock, in milliseconds. git holds the lock of a single ref only briefly; longer ones are held under the
 * lock of the repository's refs.
 */
const LOCK_MS = 5_000
const LOCK_PAUSE_MS = 50
/** Files that git locks together with refs: HEAD with its branch, the packed refs with a deleted ref. */
export const LOCKED_WITH_REFS = ['HEAD', 'packed-refs']
/** git's draft of the packed refs. While it exists, git does not pack refs, even without a lock. */
const HALF_PACKED = 'packed-refs.new'
/** Maximum number of locks examined by name. For more refs, all locks of the repository are examined. */
const MAX_NAMES = 100

/**
 * Removes orphaned locks of these files: refs and `LOCKED_WITH_REFS`. Call it before git moves refs, which a lock prevents.
 * No other process may hold such a lock for longer than a moment, so for packed refs, branches and tags the caller must
 * hold the lock of the repository's refs. Waits up to 5 seconds for locks that may still be in use. Never rejects: git
 * reports the error.
 */
export async function freeLocks(dir: string, files: readonly string[]): Promise<void> {
  const end = performance.now() + LOCK_MS + LOCK_PAUSE_MS
  try {
    for await (const path of locksOf(dir, files)) {
      while (!(await isFreed(dir, path)) && performance.now() < end) await pause(LOCK_PAUSE_MS)
    }
  } catch {
    // The disk is full, or does not answer.
  }
}

async function* locksOf(dir: string, files: readonly string[]): AsyncGenerator<string> {
  const few = files.length > MAX_NAMES ? LOCKED_WITH_REFS : files
  for (const name of few) yield join(dir, `${name}.lock`)
  if (few.includes('packed-refs')) yield join(dir, HALF_PACKED)
  if (files.length > MAX_NAMES) yield* locksBelow(dir)
}

/** Whether the lock is gone: it was missing, or an old one has been removed. */
async function isFreed(dir: string, path: string): Promise<boolean> {
  const written = await writtenAt(path)
  if (written === undefined) return true
  const now = await timeOfFilesIn(join(dir, 'objects', 'pack'))
  if (written >= now - LOCK_MS && !isOfLaterClock(written, now)) return false
  await rm(path, { force: true })
  return true
}

/**
 * Removes locks of refs and half-received objects that were last written before `before` (milliseconds since 1970). Their
 * processes must have ended. Call it under the lock of the repository's refs. `locksBefore` is the time for locks and may
 * be later: all locks are taken under that lock, but pushes receive objects without it.
 */
export async function removeLeftovers(dir: string, before: number, locksBefore = before): Promise<void> {
  const now = Date.now()
  await removeLocks(dir, (written) => written < locksBefore || isOfLaterClock(written, now))
  await removeObjects(dir, (written) => written < before)
}

/** Whether a lock was written before the clock was set back. It would stay until the clock reaches that time again. */
const isOfLaterClock = (written: number, now: number) => written > now + LOCK_MS

/**
 * Removes leftovers of a repository that other servers use, too. Call it under the lock of its refs: then all locks of
 * branches and tags are orphaned. Objects stay until they are too old for any server to be receiving them.
 */
export async function removeAbandoned(dir: string): Promise<void> {
  const now = await unlessMissing(timeOfFilesIn(join(dir, 'objects', 'pack')))
  // The repository was deleted.
  if (now === undefined) return
  await removeLocks(dir, (written) => written < now - LOCK_MS || isOfLaterClock(written, now))
  await removeObjects(dir, isAbandoned)
}

/** Decides by the last modification, in milliseconds since 1970. */
type IsOld = (written: number) => boolean

async function removeLocks(dir: string, isOld: IsOld): Promise<void> {
  for (const name of [...LOCKED_WITH_REFS.map((file) => `${file}.lock`), HALF_PACKED])
    await removeOld(join(dir, name), isOld)
  for await (const path of locksBelow(dir)) await removeOld(path, isOld)
}

async function* locksBelow(dir: string): AsyncGenerator<string> {
  for await (const path of filesBelow(join(dir, 'refs'))) if (path.endsWith('.lock')) yield path
}

/** Removes unfinished objects: quarantines, staging areas, packs and single objects. */
export async function removeObjects(dir: string, isOld: IsOld): Promise<void> {
  const objects = join(dir, 'objects')
  const names = await namesIn(objects)
  const removeIn = async (directory: string, prefix: string) => {
    for (const name of await namesIn(directory)) {
      if (name.startsWith(prefix)) await removeOld(join(directory, name), isOld)
    }
  }
  await removeIn(objects, 'tmp_objdir-')
  await removeIn(join(objects, 'pack'), 'tmp_')
  for (const fan of names.filter((name) => FAN_OUT.test(name))) await removeIn(join(objects, fan), 'tmp_')
}

/** The directories of loose objects. */
const FAN_OUT = /^[0-9a-f]{2}$/

async function removeOld(path: string, isOld: IsOld): Promise<void> {
  const written = await writtenAt(path)
  if (written !== undefined && isOld(written)) await rm(path, { recursive: true, force: true })
}
