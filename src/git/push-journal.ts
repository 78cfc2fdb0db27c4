/**
 * The journal of pushes: records on disk which repositories have a push that git may have done and that the log may
 * not know yet. A marker is written before git gets its first byte, and removed when the moved refs are recorded.
 */
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { flush, unlessMissing } from '../disk.ts'
import { signalGroup } from './child-process.ts'
import { removeLeftovers } from './leftovers.ts'

export interface PushMarker {
  /** The caller's key of the repository. */
  key: string
  file: string
}

/** A push that git has done and that the log does not have. */
export interface UnrecordedPush {
  /** The caller's key of the repository. */
  key: string
  reason: string
}

export type PushJournal = Awaited<ReturnType<typeof openPushJournal>>

const KEY = /^[A-Za-z0-9_.]{1,100}$/
const MARKER = /^([A-Za-z0-9_.]{1,100})-[0-9a-f-]{36}\.json$/
/** How long git may take to end without a signal. */
const TIMEOUT_MS = 10_000
/** How long git may take to end after a signal. */
const GRACE_MS = 2_000

/** Opens (or makes) the journal in a directory; one process at a time may have it open. */
export async function openPushJournal(directory: string, { timeout = TIMEOUT_MS } = {}) {
  await mkdir(directory, { recursive: true })
  // Locks that are older than this belong to an earlier process.
  const openedAt = Date.now()
  const busy = new Set<string>()
  /** Why the last recovery could not record a push, by the file of its marker. */
  const failures = new Map<string, UnrecordedPush>()

  return {
    /** Writes a marker; it is on disk when this resolves. `pid` is the git process that leads its group. */
    async begin(key: string, pid: number): Promise<PushMarker> {
      if (!KEY.test(key)) throw new TypeError('a push key is letters, digits, _ and .')
      const file = join(directory, `${key}-${randomUUID()}.json`)
      busy.add(file)
      try {
        await writeFile(file, JSON.stringify({ key, pid }), { flag: 'wx', flush: true })
        await flush(directory)
      } catch (error) {
        await rm(file, { force: true }).catch(() => undefined)
        busy.delete(file)
        throw error
      }
      return { key, file }
    },

    /** Removes the marker: the push is recorded, or it did nothing. */
    async finish({ file }: PushMarker): Promise<void> {
      // No flush: when the marker reappears after a power cut, it only costs one comparison.
      try {
        await rm(file, { force: true })
      } finally {
        busy.delete(file)
        failures.delete(file)
      }
    },

    /** Notes why the push of a marker cannot be recorded now. Whether the reason is new. */
    failed({ key, file }: PushMarker, reason: string): boolean {
      const isNew = failures.get(file)?.reason !== reason
      failures.set(file, { key, reason })
      return isNew
    },

    /** The pushes that the last recovery could not record. */
    unrecorded: (): UnrecordedPush[] => [...failures.values()],

    /** Leaves the marker for the next recovery: the push is not recorded. */
    abandon({ file }: PushMarker): void {
      busy.delete(file)
    },

    /**
     * The markers of pushes that this process is not working on: those of earlier processes, and abandoned ones.
     * For each marker, the caller calls `settle`, compares the repository's refs with the log, records the
     * differences, and calls `finish`.
     */
    async unfinished(): Promise<PushMarker[]> {
      const markers: PushMarker[] = []
      for (const name of (await readdir(directory)).sort()) {
        const key = MARKER.exec(name)?.[1]
        const file = join(directory, name)
        if (key !== undefined && !busy.has(file)) markers.push({ key, file })
      }
      return markers
    },

    /**
     * Waits up to 10 seconds until the git process of a push has ended, and then ends it. Then removes what it left:
     * locks and half-received objects. Call this for markers of an earlier process before requests are served.
     */
    async settle({ file }: PushMarker, dir: string): Promise<void> {
      const pid = await readPid(file)
      const isRunning = pid !== undefined && (await isReceivePack(pid, dir))
      if (isRunning) await endProcess(pid, dir, timeout)
      await removeLeftovers(dir, isRunning ? Date.now() : openedAt)
    },
  }
}

/** The process id in a marker; undefined when the marker is not complete. Then git received nothing. */
async function readPid(file: string): Promise<number | undefined> {
  const text = (await unlessMissing(readFile(file, 'utf8'))) ?? ''
  const pid = Number(/^\{"key":"[^"]*","pid":(\d{1,15})\}$/.exec(text)?.[1])
  return pid > 1 ? pid : undefined
}

/** Whether this process is git receiving a push. After git has ended, another process may get the same id. */
async function isReceivePack(pid: number, dir: string): Promise<boolean> {
  try {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0')
    return words.includes('receive-pack') && words.includes(dir)
  } catch {
    // It has ended, or the system has no /proc. Never end a process that we can't identify.
    return false
  }
}

/** Ends git. Waits first: git's input is closed since its parent died, so it mostly ends without a signal. */
async function endProcess(pid: number, dir: string, timeout: number): Promise<void> {
  if (await endsWithin(pid, dir, timeout)) return
  // SIGTERM first: git then removes its own locks.
  signalGroup(pid, 'SIGTERM')
  if (await endsWithin(pid, dir, GRACE_MS)) return
  signalGroup(pid, 'SIGKILL')
  await endsWithin(pid, dir, GRACE_MS)
}

async function endsWithin(pid: number, dir: string, time: number): Promise<boolean> {
  const end = Date.now() + time
  while (await isReceivePack(pid, dir)) {
    if (Date.now() >= end) return false
    await pause(20)
  }
  return true
}
