/** File permissions: only the owner may read the data (private repositories, password hashes). */
import { chmod, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, namesIn } from './disk.ts'

/** Permission bits of group and others. */
const GROUP_AND_OTHERS = 0o077

/** Entries of a data directory. The directory itself may also be used otherwise, so its own mode stays. */
const DATA_DIR_ENTRIES =
  /^(events|views|secrets|lock)\.db(-wal|-shm|-journal)?$|^(git|attachments|pushes|restoring|format\.json)$/

/** Whether the entry of a data directory belongs to Mergelog. */
export const isDataDirEntry = (name: string) => DATA_DIR_ENTRIES.test(name)

/** Makes all new files of this process and its children private to their owner. */
export function makePrivateFiles(): void {
  process.umask(GROUP_AND_OTHERS)
}

/**
 * Removes the permissions of group and others from the entries of a data directory, which may have been copied with the
 * host's umask. This protects deeper files too. Resolves to the paths that another user owns, which it could not
 * change.
 */
export async function restrictDataDir(dataDir: string): Promise<string[]> {
  const unchanged: string[] = []
  for (const name of await namesIn(dataDir)) {
    if (!isDataDirEntry(name)) continue
    const path = join(dataDir, name)
    try {
      const { mode } = await stat(path)
      if ((mode & GROUP_AND_OTHERS) !== 0) await chmod(path, mode & 0o7777 & ~GROUP_AND_OTHERS)
    } catch (error) {
      if (hasCode(error, 'ENOENT')) continue
      if (!hasCode(error, 'EPERM') && !hasCode(error, 'EROFS')) throw error
      unchanged.push(path)
    }
  }
  return unchanged
}
