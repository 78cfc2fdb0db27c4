/**
 * Remembers on disk which repositories have a push that git may have carried out and the log may not know
 * of yet: a marker is there from before git gets its first byte until the moved refs are recorded.
 */
import { randomUUID } from 'node:crypto'
import { mkdir, open, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { flush, isMissing } from '../disk.ts'
import { signalGroup } from './child-process.ts'
import { removeLeftovers } from './stale-locks.ts'

export interface PushMarker {
  /** Which repository; the caller's own key for it. */
  key: string
  file: string
}

export interface PushJournal {
  /** Writes a marker; it is on disk when this resolves. `pid` is git's process, leader of its group. */
  begin(key: string, pid: number): Promise<PushMarker>
  /** Takes the marker away: all that the push did is recorded, or it did nothing. */
  finish(marker: PushMarker): Promise<void>
  /** Leaves the marker for the next recovery: what the push did is not recorded. */
  abandon(marker: PushMarker): void
  /**
   * Markers of pushes that nobody in this process is busy with: those of a process that died, and the
   * abandoned ones. For each the caller calls `settle`, compares the repository's refs with the log,
   * records what differs, and calls `finish`.
   */
  unfinished(): Promise<PushMarker[]>
  /**
   * Resolves when the git process of a push is gone, which is waited for at most about 12 seconds, and what
   * it left (locks, half-received objects) is removed. Call it for markers of an earlier process
   * before requests are served.
   */
  settle(marker: PushMarker, dir: string): Promise<void>
}

const KEY = /^[A-Za-z0-9_.]{1,100}$/
const MARKER = /^([A-Za-z0-9_.]{1,100})-[0-9a-f-]{36}\.json$/
const PATIENCE = 10_000
const GRACE = 2_000

/** Opens (or makes) the journal in a directory; one process at a time may have it open. */
export async function openPushJournal(
  directory: string,
  { patience = PATIENCE }: { patience?: number } = {},
): Promise<PushJournal> {
  await mkdir(directory, { recursive: true })
  // Locks that are older than this were made for a process that had the journal before us.
  const openedAt = Date.now()
  const busy = new Set<string>()

  return {
    async begin(key, pid) {
      if (!KEY.test(key)) throw new TypeError('a push key is letters, digits, _ and .')
      const file = join(directory, `${key}-${randomUUID()}.json`)
      busy.add(file)
      try {
        const handle = await open(file, 'wx')
        try {
          await handle.writeFile(JSON.stringify({ key, pid }))
          await handle.sync()
        } finally {
          await handle.close()
        }
        await flush(directory)
      } catch (error) {
        await rm(file, { force: true }).catch(() => undefined)
        busy.delete(file)
        throw error
      }
      return { key, file }
    },

    async finish({ file }) {
      // A marker that outlives a power cut costs one comparison; so its end needs no flushing.
      try {
        await rm(file, { force: true })
      } finally {
        busy.delete(file)
      }
    },

    abandon({ file }) {
      busy.delete(file)
    },

    async unfinished() {
      const markers: PushMarker[] = []
      for (const name of (await readdir(directory)).sort()) {
        const key = MARKER.exec(name)?.[1]
        const file = join(directory, name)
        if (key !== undefined && !busy.has(file)) markers.push({ key, file })
      }
      return markers
    },

    async settle({ file }, dir) {
      const pid = await readPid(file)
      const outlivedUs = pid !== undefined && (await isReceivePack(pid, dir))
      if (outlivedUs) await endOfProcess(pid, dir, patience)
      await removeLeftovers(dir, outlivedUs ? Date.now() : openedAt)
    },
  }
}

/** Undefined when the marker was not written to its end: then git was given nothing. */
async function readPid(file: string): Promise<number | undefined> {
  try {
    const content: unknown = JSON.parse(await readFile(file, 'utf8'))
    if (typeof content !== 'object' || content === null || !('pid' in content)) return undefined
    return Number.isSafeInteger(content.pid) && typeof content.pid === 'number' && content.pid > 1
      ? content.pid
      : undefined
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return undefined
    throw error
  }
}

/** The process may be gone and its number belong to somebody else, whom we must not end. */
async function isReceivePack(pid: number, dir: string): Promise<boolean> {
  try {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0')
    return words.includes('receive-pack') && words.includes(dir)
  } catch {
    // Gone, or a system without /proc, where a process that we can't name is left alone.
    return false
  }
}

/** git's input is closed since its parent died, so mostly it ends by itself. */
async function endOfProcess(pid: number, dir: string, patience: number): Promise<void> {
  if (await isGoneWithin(pid, dir, patience)) return
  // Asked kindly first: git then takes its locks away itself.
  signalGroup(pid, 'SIGTERM')
  if (await isGoneWithin(pid, dir, GRACE)) return
  signalGroup(pid, 'SIGKILL')
  await isGoneWithin(pid, dir, GRACE)
}

async function isGoneWithin(pid: number, dir: string, time: number): Promise<boolean> {
  const end = Date.now() + time
  while (await isReceivePack(pid, dir)) {
    if (Date.now() >= end) return false
    await pause(20)
  }
  return true
}
