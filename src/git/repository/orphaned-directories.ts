/** Removes what killed servers left in a directory for temporary files: nobody else knows of it. */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writtenAt } from '../../storage/disk.ts'

/**
 * Removes the directories in `directory` whose names begin with `prefix` and that `isLeft` says nobody uses. `made`: when
 * one was last written, in milliseconds since 1970. What cannot be removed stays: it may be another user's.
 */
export async function removeOrphanedDirectories(
  directory: string,
  prefix: string,
  isLeft: (path: string, made: number) => boolean | Promise<boolean>,
): Promise<void> {
  const names = await readdir(directory).catch(() => [])
  for (const name of names.filter((one) => one.startsWith(prefix))) {
    const path = join(directory, name)
    try {
      const made = await writtenAt(path)
      if (made !== undefined && (await isLeft(path, made))) await rm(path, { recursive: true, force: true })
    } catch {
      // It is not ours.
    }
  }
}
