/** Helpers for files and directories: whether they exist, and how they survive a power cut. */
import { access, open, opendir, stat } from 'node:fs/promises'

/** Flushes a file, or the names in a directory, to disk. Does nothing when it no longer exists. */
export async function flush(path: string): Promise<void> {
  const handle = await unlessMissing(open(path, 'r'))
  try {
    await handle?.sync()
  } finally {
    await handle?.close()
  }
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

/** Whether a file or directory exists at this path. */
export async function exists(path: string): Promise<boolean> {
  return (await unlessMissing(access(path).then(() => true))) ?? false
}

/** No setting lets one piece of work take more than a day. One hour more is more than clocks may differ. */
const ABANDONED_MS = 25 * 60 * 60_000

/** When a file or directory was last written, in milliseconds since 1970; undefined when it does not exist. */
export async function writtenAt(path: string): Promise<number | undefined> {
  return (await unlessMissing(stat(path)))?.mtimeMs
}

/** Whether a time (milliseconds since 1970) is so long ago that no server works any more on what was written then. */
export const isAbandoned = (written: number) => written < Date.now() - ABANDONED_MS
