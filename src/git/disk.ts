/** Making what was done to directories survive a power cut, which git leaves to the file system's good will. */
import { open } from 'node:fs/promises'

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
