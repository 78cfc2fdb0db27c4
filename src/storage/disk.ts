/** Helpers for files and directories: whether they exist, and how they survive a power cut. */
import { randomUUID } from 'node:crypto'
import { access, mkdir, open, opendir, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { steadyClock } from './steady-clock.ts'

/** Flushes a file, or the names in a directory, to disk. Does nothing when it no longer exists. */
export async function flush(path: string): Promise<void> {
  const handle = await unlessMissing(open(path, 'r'))
  try {
    await handle?.sync()
  } finally {
    await handle?.close()
  }
}

/** The directories that this process has made, or is making, whose names may not be on disk yet. */
const unflushed = new Set<string>()

/**
 * Makes a directory; its parent must exist. Resolves to whether its name may not be on disk yet: then whoever has put
 * something there calls `flushNames`. True also for a directory that other work of this process has just made.
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
 * Makes the directories of a path below a directory, but never that one: it may be deleted at any time. Resolves to those
 * whose names may not be on disk yet, for `flushNames`.
 */
export async function makeBelow(directory: string, path: string): Promise<string[]> {
  const made: string[] = []
  let current = directory
  for (const name of path.split('/')) {
    current = join(current, name)
    if (await makeDirectory(current)) made.push(current)
  }
  return made
}

/** Flushes the names of directories, as of those that `makeDirectory` has made. */
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

/** What `work` gives; undefined when it fails because a file or directory does not exist. */
export async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** The names in a directory; an empty list when the directory does not exist. */
export async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of (await unlessMissing(opendir(directory))) ?? []) names.push(name)
  return names
}

/** The paths of all files in a directory and in those in it; none when it does not exist. */
export async function* filesBelow(directory: string): AsyncGenerator<string> {
  for await (const entry of (await unlessMissing(opendir(directory))) ?? []) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) yield* filesBelow(path)
    else yield path
  }
}

/** Whether a file or directory exists at this path. */
export async function exists(path: string): Promise<boolean> {
  return (await unlessMissing(access(path).then(() => true))) ?? false
}

/** When a file or directory was last written, in milliseconds since 1970; undefined when it does not exist. */
export async function writtenAt(path: string): Promise<number | undefined> {
  return (await unlessMissing(stat(path)))?.mtimeMs
}

/** The time now by the clock of a directory's file system, which may be on another machine. */
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

/** No setting lets one piece of work take more than a day. One hour more is more than a clock may be off meanwhile. */
const ABANDONED_MS = 25 * 60 * 60_000

const clock = steadyClock()
/** By how much the clock of the file system is behind ours, in milliseconds. */
let behind = 0

/**
 * Compares our clock with that of the file system, from which files get their times. Call it at start. When the directory
 * cannot be written (the disk is full), the clocks are taken for the same.
 */
export async function compareClocks(directory: string): Promise<void> {
  const there = await timeOfFilesIn(directory).catch(() => clock())
  behind = Math.max(0, clock() - there)
}

/**
 * The time now with which the times of files are compared to tell what is old, in milliseconds since 1970. It is rather too
 * early than too late: nothing that is fresh looks old because our clock is ahead of the file system's, or was set forward.
 */
export const timeOfFiles = () => clock() - behind

/** Whether a time (milliseconds since 1970) is so long ago that no server works any more on what was written then. */
export const isAbandoned = (written: number) => written < timeOfFiles() - ABANDONED_MS
