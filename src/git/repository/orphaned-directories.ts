/** Removes orphaned temporary directories of killed servers. */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writtenAt } from '../../storage/disk.ts'

/**
 * Removes the directories in `directory` whose names begin with `prefix` and that `isOrphaned` accepts, by path and time of
 * the last modification (milliseconds since 1970). Directories that cannot be removed stay: another user may own them.
 */
export async function removeOrphanedDirectories(
  directory: string,
  prefix: string,
  isOrphaned: (path: string, modifiedAt: number) => boolean | Promise<boolean>,
): Promise<void> {
  const names = await readdir(directory).catch(() => [])
  for (const name of names.filter((one) => one.startsWith(prefix))) {
    const path = join(directory, name)
    try {
      const modifiedAt = await writtenAt(path)
      if (modifiedAt !== undefined && (await isOrphaned(path, modifiedAt)))
        await rm(path, { recursive: true, force: true })
    } catch {
      // Another user's.
    }
  }
}
