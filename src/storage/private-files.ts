/** The files of an installation are their owner's alone: they hold private repositories and hashes of passwords. */
import { chmod, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, namesIn } from './disk.ts'

/** What group and others may do. */
const OTHERS = 0o077

/** What is directly in a data directory. The directory itself may be anyone's place, so its own mode is left alone. */
const OURS =
  /^(events|views|secrets|lock)\.db(-wal|-shm|-journal)?$|^(git|attachments|pushes|restoring|format\.json)$/

/** Whether a name directly in a data directory is one of ours. */
export const isDataDirEntry = (name: string) => OURS.test(name)

/** From now on, all files that this process and its children make are for their owner alone. */
export function makePrivateFiles(): void {
  process.umask(OTHERS)
}

/**
 * Takes the rights of group and others from what is directly in a data directory: it may have been copied with the
 * machine's umask. What is deeper is out of their reach then. Resolves to the paths that it could not change, because
 * they are another user's.
 */
export async function restrictDataDir(dataDir: string): Promise<string[]> {
  const kept: string[] = []
  for (const name of await namesIn(dataDir)) {
    if (!isDataDirEntry(name)) continue
    const path = join(dataDir, name)
    try {
      const { mode } = await stat(path)
      if ((mode & OTHERS) !== 0) await chmod(path, mode & 0o7777 & ~OTHERS)
    } catch (error) {
      if (hasCode(error, 'ENOENT')) continue
      if (!hasCode(error, 'EPERM') && !hasCode(error, 'EROFS')) throw error
      kept.push(path)
    }
  }
  return kept
}
