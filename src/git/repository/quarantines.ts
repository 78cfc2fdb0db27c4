/** Removes the half-received objects of killed pushes, when no push can be using them. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn } from '../../storage/disk.ts'

/** Prefix of git's quarantine directories. */
const QUARANTINE = 'tmp_objdir-incoming-'

/** Number of running pushes into a repository, and of those started so far. */
interface Pushes {
  running: number
  begun: number
}

const pushes = new Map<string, Pushes>()

/**
 * Runs a push into the repository at `dir`. `work` calls `brokenOff` when a signal ended git, which may have had no time to
 * clean up. If another push is running then, the leftovers stay until the next push that is killed, or the next start. With
 * `isShared`, other servers may receive pushes, too: then leftovers stay until they are old (`leftovers.ts`).
 */
export async function withQuarantine<T>(
  dir: string,
  isShared: boolean,
  work: (brokenOff: () => Promise<void>) => Promise<T>,
): Promise<T> {
  const own = pushes.get(dir) ?? { running: 0, begun: 0 }
  pushes.set(dir, own)
  own.running += 1
  own.begun += 1
  try {
    return await work(async () => {
      const { begun } = own
      if (isShared || own.running > 1) return
      const objects = join(dir, 'objects')
      const left = (await namesIn(objects)).filter((name) => name.startsWith(QUARANTINE))
      // A push that has started meanwhile may own one of them.
      if (own.begun !== begun) return
      for (const name of left) await rm(join(objects, name), { recursive: true, force: true })
    })
  } finally {
    own.running -= 1
    if (own.running === 0) pushes.delete(dir)
  }
}
