/**
 * The journal of pushes: records on disk which repositories have a push that git may have applied and the log may lack.
 * A marker is written before git gets its first byte, and removed when the moved refs are recorded.
 */
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { flush, isAbandoned, unlessMissing, writtenAt } from '../../storage/disk.ts'
import { recordNow } from '../../storage/steady-clock.ts'
import { endOrphanedProcesses, isReceivePack, refCommandsIn } from '../process/orphaned-processes.ts'
import { removeAbandoned, removeLeftovers } from '../repository/leftovers.ts'

export interface PushMarker {
  /** The caller's key of the repository. */
  key: string
  file: string
}

/** Content of a marker's file. */
interface Content {
  /** The git process that leads its group, if any. */
  pid: number | undefined
  /** The server that wrote the marker; undefined for a server without other nodes. */
  owner: string | undefined
  /** The scope of the process id: a boot of the host, and the container. */
  place: string | undefined
  /** The caller's data for finishing the work. */
  note: string | undefined
}

/** The servers that share the journal. */
export interface Owners {
  /** The name of this server in its markers. */
  self(): string
  /** Whether the server that wrote a marker has ended, so that another server may settle its pushes. */
  isGone(owner: string): Promise<boolean>
}

/** A push that git has applied and the log lacks. */
export interface UnrecordedPush {
  /** The caller's key of the repository. */
  key: string
  reason: string
}

export type PushJournal = Awaited<ReturnType<typeof openPushJournal>>

const KEY = /^[A-Za-z0-9_.]{1,100}$/
const MARKER = /^([A-Za-z0-9_.]{1,100})-[0-9a-f-]{36}\.json$/
/** A server without other nodes writes no owner. The note is base64url. */
const CONTENT =
  /^\{"key":"[^"]*","pid":(?<pid>\d{1,15})(,"owner":"(?<owner>[^"]*)")?(,"place":"(?<place>[^"]*)")?(,"note":"(?<note>[\w-]*)")?\}$/
/** Time limit for git to end without a signal, in milliseconds. */
const TIMEOUT_MS = 10_000
/** Time in which a git process on another host may still move refs after its server has ended, in milliseconds. */
const ELSEWHERE_MS = 60_000

/**
 * Opens (or creates) the journal in a directory. Several processes may have it open only if `owners` knows all of them.
 */
export async function openPushJournal(
  directory: string,
  { timeout = TIMEOUT_MS, owners }: { timeout?: number; owners?: Owners | undefined } = {},
) {
  await mkdir(directory, { recursive: true })
  const place = await placeOfProcesses()
  // Older locks belong to an earlier process.
  const openedAt = recordNow()
  const busy = new Set<string>()
  /** By marker file: why the last recovery could not record the push. */
  const failures = new Map<string, UnrecordedPush>()
  /** By marker file: when to retry a push whose git process may run on another host. */
  const retryAt = new Map<string, number>()

  async function belongsToLiveServer(file: string, gone: Map<string, boolean>): Promise<boolean> {
    if (owners === undefined) return false
    const content = await contentOf(file)
    // Another server is writing it, or ended during the write.
    if (content === undefined) return !isAbandoned((await writtenAt(file)) ?? Date.now())
    const { owner } = content
    if (owner === undefined || owner === owners.self()) return false
    const isGone = gone.get(owner) ?? (await owners.isGone(owner))
    gone.set(owner, isGone)
    return !isGone
  }

  /**
   * Waits up to 10 seconds for orphaned git processes and then ends them: those that change refs, and the push of the
   * process `pid`. Then removes their leftovers. With other servers, call it under the lock of the repository's refs.
   */
  async function clean(dir: string, pid?: number): Promise<void> {
    const running = async () => [
      ...(pid !== undefined && (await isReceivePack(pid, dir)) ? [pid] : []),
      ...(await refCommandsIn(dir)),
    ]
    const wasRunning = await endOrphanedProcesses(running, timeout)
    await (owners === undefined
      ? removeLeftovers(dir, openedAt(), wasRunning ? Date.now() : openedAt())
      : removeAbandoned(dir))
  }

  return {
    clean,

    /**
     * Writes a marker; it is on disk when this resolves. `pid` is the git process that leads its group. `note` is returned
     * by `noteOf` during recovery.
     */
    async begin(key: string, pid: number, note?: string): Promise<PushMarker> {
      if (!KEY.test(key)) throw new TypeError('a push key is letters, digits, _ and .')
      const file = join(directory, `${key}-${randomUUID()}.json`)
      busy.add(file)
      try {
        const encoded = note === undefined ? undefined : Buffer.from(note).toString('base64url')
        const content = JSON.stringify({ key, pid, owner: owners?.self(), place, note: encoded })
        await writeFile(file, content, { flag: 'wx', flush: true })
        await flush(directory)
      } catch (error) {
        await rm(file, { force: true }).catch(() => undefined)
        busy.delete(file)
        throw error
      }
      return { key, file }
    },

    /**
     * Removes the marker: the push is recorded, or it changed nothing. If a git process of this work may still run on
     * another host, the marker stays for a minute and is then unfinished again.
     */
    async finish({ file }: PushMarker): Promise<void> {
      if (retryAt.get(file) === Number.POSITIVE_INFINITY) {
        retryAt.set(file, performance.now() + ELSEWHERE_MS)
        failures.delete(file)
        return
      }
      // Not flushed: when the marker reappears after a power cut, it only costs one comparison.
      try {
        await rm(file, { force: true })
      } finally {
        busy.delete(file)
        failures.delete(file)
        retryAt.delete(file)
      }
    },

    /** Returns the note of a marker, if any. */
    async noteOf({ file }: PushMarker): Promise<string | undefined> {
      return noteIn(await contentOf(file))
    },

    /** Returns the notes of all markers of a repository, including work in flight. */
    async notesOf(key: string): Promise<string[]> {
      const notes: string[] = []
      for (const name of await readdir(directory)) {
        if (MARKER.exec(name)?.[1] !== key) continue
        const note = noteIn(await contentOf(join(directory, name)))
        if (note !== undefined) notes.push(note)
      }
      return notes
    },

    /** Stores why the push of a marker cannot be recorded now. Returns whether the reason is new. */
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
     * Returns the markers without a live owner: those of servers that have ended, and own abandoned ones; with `of` only
     * those of that repository. For each marker, the caller calls `settle`, compares the repository's refs with the log,
     * records the differences, and calls `finish`.
     */
    async unfinished(of?: string): Promise<PushMarker[]> {
      const markers: PushMarker[] = []
      const gone = new Map<string, boolean>()
      for (const name of (await readdir(directory)).sort()) {
        const key = MARKER.exec(name)?.[1]
        const file = join(directory, name)
        if (key === undefined || (of !== undefined && of !== key) || busy.has(file)) continue
        if ((retryAt.get(file) ?? 0) > performance.now() || (await belongsToLiveServer(file, gone))) continue
        markers.push({ key, file })
      }
      return markers
    },

    /**
     * Ends all git processes of a marker's work, as `clean` does, and removes their leftovers: locks and half-received
     * objects. For markers of an earlier process, call it before requests are served; with other servers, under the lock of
     * the repository's refs.
     */
    async settle({ file }: PushMarker, dir: string): Promise<void> {
      const { pid, place: there } = (await contentOf(file)) ?? {}
      const isElsewhere = there !== undefined && there !== place
      if (isElsewhere && owners !== undefined && !retryAt.has(file))
        retryAt.set(file, Number.POSITIVE_INFINITY)
      await clean(dir, isElsewhere ? undefined : pid)
    },
  }
}

/** Reads a marker; undefined for an incomplete one, for which git received nothing. */
async function contentOf(file: string): Promise<Content | undefined> {
  const text = (await unlessMissing(readFile(file, 'utf8'))) ?? ''
  const found = CONTENT.exec(text)?.groups
  if (found === undefined) return undefined
  const pid = Number(found.pid)
  return { pid: pid > 1 ? pid : undefined, owner: found.owner, place: found.place, note: found.note }
}

const noteIn = (content: Content | undefined) =>
  content?.note === undefined ? undefined : Buffer.from(content.note, 'base64url').toString()

/** Identifies the boot of the host and the container: process ids are unique within both. Undefined without /proc. */
async function placeOfProcesses(): Promise<string | undefined> {
  try {
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
    return `${boot.trim()} ${await readlink('/proc/self/ns/pid')}`
  } catch {
    return undefined
  }
}
