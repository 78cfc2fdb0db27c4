/** Helpers for files and directories: whether they exist, and how they survive a power cut. */
import { access, open, opendir } from 'node:fs/promises'

/** Flushes a file, or the names in a directory, to disk. Does nothing when it no longer exists. */
export async function flush(path: string): Promise<void> {
  try {
    const handle = await open(path, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

export function isMissing(error: unknown): boolean {
  return hasCode(error, 'ENOENT')
}

/** The names in a directory; an empty list when the directory does not exist. */
export async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = []
  try {
    for await (const { name } of await opendir(directory)) names.push(name)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  return names
}

/** Whether a file or directory exists at this path. */
export async function exists(path: string): Promise<boolean> {
  try {
    await access(path)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
