/** Keeps disk space free: refuses large writes early, so that the log can always be written. */
import { statfs } from 'node:fs/promises'
import { limitReached } from '../errors/limits.ts'
import { Refused, refuse } from '../errors/refusal.ts'

/** A directory that may be on a separate disk. */
export type Place = (typeof PLACES)[number]
const PLACES = ['data', 'git', 'attachments'] as const

export interface FreeSpace {
  /**
   * Checks that the reserve is free in all directories, also after `more` bytes are written to `place`.
   * @throws Refused (insufficient storage)
   */
  require(place: Place, more?: number): Promise<void>
}

/** Lifetime of a cached measurement, in milliseconds. */
const FRESH_MS = 1000
/** Minimum number of free inodes; a disk with fewer counts as full. */
const MIN_FREE_FILES = 1000

/**
 * Watches the file systems of these directories. `reserve` is the number of bytes that stay free on each; 0 disables the
 * check. A file system that does not report its free space always passes.
 */
export function watchFreeSpace(
  directories: Readonly<Record<Place, string>>,
  reserve: number,
  { freshMs = FRESH_MS, read = freeBytes } = {},
): FreeSpace {
  let known: { at: number; free: Promise<{ at: Place; bytes: number }[]> } | undefined

  const readAll = () => Promise.all(PLACES.map(async (at) => ({ at, bytes: await read(directories[at]) })))

  function free(): Promise<{ at: Place; bytes: number }[]> {
    const now = performance.now()
    if (known === undefined || now - known.at >= freshMs) known = { at: now, free: readAll() }
    return known.free
  }

  return {
    async require(place, more = 0) {
      if (reserve === 0) return
      const hasSpace = (await free()).every(({ at, bytes }) => bytes - (at === place ? more : 0) >= reserve)
      if (hasSpace) return
      limitReached('free_space')
      throw new Refused(
        refuse.insufficientStorage("the server's disk is nearly full; nothing was changed, try again later"),
      )
    },
  }
}

/** Free bytes; 0 when the file system is out of inodes. */
async function freeBytes(directory: string): Promise<number> {
  try {
    const { bavail, bsize, files, ffree } = await statfs(directory)
    // Some file systems allocate inodes on demand and report 0.
    return files > 0 && ffree < MIN_FREE_FILES ? 0 : bavail * bsize
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
