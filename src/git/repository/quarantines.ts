/** Removes the half-received objects of pushes that were ended from outside, when no push can be using them. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn } from '../../storage/disk.ts'

/** git's own name for the place of the objects of a push that it has not accepted yet. */
const QUARANTINE = 'tmp_objdir-incoming-'

/** How many pushes into a repository are running, and how many have ever begun. */
interface Pushes {
  running: number
  begun: number
}

const pushes = new Map<string, Pushes>()

/**
 * Runs a push into the repository at `dir`. `work` calls `brokenOff` when git was ended by a signal: it may have had no
 * time to clean up. If another push is running then, what is left stays until the next one that is ended, or the
 * next start. With `isShared`, other servers may receive pushes, too: then it stays until it is old (`leftovers.ts`).
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
      // A push that has begun meanwhile may own one of them.
      if (own.begun !== begun) return
      for (const name of left) await rm(join(objects, name), { recursive: true, force: true })
    })
  } finally {
    own.running -= 1
    if (own.running === 0) pushes.delete(dir)
  }
}
