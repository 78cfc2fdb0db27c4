/** Keeps room on the disks: what takes much of it is refused early, so that the log can always be written. */
import { statfs } from 'node:fs/promises'
import { limitReached } from '../errors/limits.ts'
import { Refused, refuse } from '../errors/refusal.ts'

/** What may have a disk of its own. */
export type Place = (typeof PLACES)[number]
const PLACES = ['data', 'git', 'attachments'] as const

export interface FreeSpace {
  /**
   * Checks that `more` bytes can be written at a place, and the reserve is still free there and at all other places.
   * @throws Refused (insufficient storage)
   */
  require(place: Place, more?: number): Promise<void>
}

/** For how long the free space is taken to be what it was, in milliseconds. */
const FRESH_MS = 1000
/** With fewer files that can still be made, a disk is as good as full. */
const MIN_FREE_FILES = 1000

/**
 * Watches the file systems of these directories. `reserve`: the bytes that stay free on each; 0 checks nothing. A file
 * system that cannot tell its free space refuses nothing here.
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
      const hasRoom = (await free()).every(({ at, bytes }) => bytes - (at === place ? more : 0) >= reserve)
      if (hasRoom) return
      limitReached('free_space')
      throw new Refused(
        refuse.insufficientStorage("the server's disk is nearly full; nothing was changed, try again later"),
      )
    },
  }
}

/** How many bytes can still be written; none where no further file can be made. */
async function freeBytes(directory: string): Promise<number> {
  try {
    const { bavail, bsize, files, ffree } = await statfs(directory)
    // Some file systems make room for files as they come: they say that they have none.
    return files > 0 && ffree < MIN_FREE_FILES ? 0 : bavail * bsize
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
