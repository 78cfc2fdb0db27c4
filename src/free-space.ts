/** Keeps room on the disk: what takes much of it is refused early, so that the log can always be written. */
import { statfs } from 'node:fs/promises'
import { limitReached } from './limits.ts'
import { Refused, refuse } from './refusal.ts'

export interface FreeSpace {
  /**
   * Checks that `more` bytes can be written and the reserve is still free.
   * @throws Refused (insufficient storage)
   */
  require(more?: number): Promise<void>
}

/** For how long the free space is taken to be what it was, in milliseconds. */
const FRESH_MS = 1000

/**
 * Watches the file system of a directory. `reserve`: the bytes that stay free; 0 checks nothing. A file system that
 * cannot tell its free space refuses nothing here.
 */
export function watchFreeSpace(
  directory: string,
  reserve: number,
  { freshMs = FRESH_MS, read = freeBytes } = {},
): FreeSpace {
  let known: { at: number; free: Promise<number> } | undefined

  function free(): Promise<number> {
    const now = performance.now()
    if (known === undefined || now - known.at >= freshMs) known = { at: now, free: read(directory) }
    return known.free
  }

  return {
    async require(more = 0) {
      if (reserve === 0 || (await free()) - more >= reserve) return
      limitReached('free_space')
      throw new Refused(
        refuse.insufficientStorage("the server's disk is nearly full; nothing was changed, try again later"),
      )
    },
  }
}

async function freeBytes(directory: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(directory)
    return bavail * bsize
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
