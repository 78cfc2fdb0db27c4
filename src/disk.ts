/** Files and directories beside git: whether they are there, and that they survive a power cut. */
import { access, open, opendir } from 'node:fs/promises'

/** Flushes a file, or the names in a directory. One that is gone by now needs no flushing. */
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

/** The names in a directory; none when the directory does not exist. */
export async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = []
  try {
    for await (const { name } of await opendir(directory)) names.push(name)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  return names
}

/** Whether there is something at that path. */
export async function exists(path: string): Promise<boolean> {
  try {
    await access(path)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
