/** Helpers for files and directories: existence, and durability after a power cut. */
import { randomUUID } from 'node:crypto'
import { access, mkdir, open, opendir, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { steadyClock } from './steady-clock.ts'

/** Flushes a file, or the entries of a directory, to disk. Does nothing for a missing one. */
export async function flush(path: string): Promise<void> {
  const handle = await unlessMissing(open(path, 'r'))
  try {
    await handle?.sync()
  } finally {
    await handle?.close()
  }
}

/** Directories created by this process whose names may not be on disk yet. */
const unflushed = new Set<string>()

/**
 * Creates a directory; its parent must exist. Resolves to whether its name may not be on disk yet: then the caller calls
 * `flushNames` after writing into it. Also true for a directory that concurrent work of this process has just created.
 */
export async function makeDirectory(path: string): Promise<boolean> {
  if (await exists(path)) return unflushed.has(path)
  unflushed.add(path)
  try {
    await mkdir(path)
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return true
    unflushed.delete(path)
    throw error
  }
  return true
}

/**
 * Creates the directories of a path below a directory, but never that directory itself: it may be deleted at any time.
 * Resolves to those whose names may not be on disk yet, for `flushNames`.
 */
export async function makeBelow(directory: string, path: string): Promise<string[]> {
  const created: string[] = []
  let current = directory
  for (const name of path.split('/')) {
    current = join(current, name)
    if (await makeDirectory(current)) created.push(current)
  }
  return created
}

/** Flushes the names of directories that `makeDirectory` has created. */
export async function flushNames(directories: Iterable<string>): Promise<void> {
  const all = [...directories]
  for (const parent of new Set(all.map(dirname))) await flush(parent)
  for (const directory of all) unflushed.delete(directory)
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

export function isMissing(error: unknown): boolean {
  return hasCode(error, 'ENOENT')
}

/** Resolves as `work` does; to undefined when it fails because a file or directory does not exist. */
export async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** Returns the names in a directory; an empty list for a missing one. */
export async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of (await unlessMissing(opendir(directory))) ?? []) names.push(name)
  return names
}

/** Yields the paths of all files below a directory; nothing for a missing one. */
export async function* filesBelow(directory: string): AsyncGenerator<string> {
  for await (const entry of (await unlessMissing(opendir(directory))) ?? []) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) yield* filesBelow(path)
    else yield path
  }
}

export async function exists(path: string): Promise<boolean> {
  return (await unlessMissing(access(path).then(() => true))) ?? false
}

/** Last modification of a file or directory, in milliseconds since 1970; undefined for a missing one. */
export async function writtenAt(path: string): Promise<number | undefined> {
  return (await unlessMissing(stat(path)))?.mtimeMs
}

/** The time by the clock of a directory's file system, which may be on another machine. */
export async function timeOfFilesIn(directory: string): Promise<number> {
  const path = join(directory, `tmp_time_${randomUUID()}`)
  const handle = await open(path, 'wx')
  try {
    return (await handle.stat()).mtimeMs
  } finally {
    await handle.close()
    await rm(path, { force: true })
  }
}

/** Age of abandoned files, in milliseconds: the longest timeout of a setting is a day; one hour is for clock skew. */
const ABANDONED_MS = 25 * 60 * 60_000

const clock = steadyClock()
/** How far the file system's clock is behind ours, in milliseconds. */
let behind = 0

/**
 * Compares our clock with the file system's, which sets the times of files. Call it at start. When the directory is not
 * writable (a full disk), assumes equal clocks.
 */
export async function compareClocks(directory: string): Promise<void> {
  const fileTime = await timeOfFilesIn(directory).catch(() => clock())
  behind = Math.max(0, clock() - fileTime)
}

/**
 * The time for comparison with file times, in milliseconds since 1970. It may be too early, never too late: a fresh
 * file never looks old because our clock is ahead of the file system's, or was set forward.
 */
export const timeOfFiles = () => clock() - behind

/** Whether files of this time (milliseconds since 1970) are too old for a running server to use them. */
export const isAbandoned = (written: number) => written < timeOfFiles() - ABANDONED_MS
