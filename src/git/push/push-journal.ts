/**
 * The journal of pushes: records on disk which repositories have a push that git may have done and that the log may
 * not know yet. A marker is written before git gets its first byte, and removed when the moved refs are recorded.
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

/** What a marker's file says. */
interface Content {
  /** The git process that leads its group; undefined when there was none. */
  pid: number | undefined
  /** The server that wrote the marker; undefined when it was alone. */
  owner: string | undefined
  /** Where the process id means something: the machine since its start, and the container. */
  place: string | undefined
  /** What the caller needs to finish the work. */
  note: string | undefined
}

/** The servers that use the same journal. */
export interface Owners {
  /** The name of this server in its markers. */
  self(): string
  /** Whether the server that wrote a marker has ended, so that another one may settle its pushes. */
  isGone(owner: string): Promise<boolean>
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
/** A server alone writes no owner. The note is base64url. */
const CONTENT =
  /^\{"key":"[^"]*","pid":(?<pid>\d{1,15})(,"owner":"(?<owner>[^"]*)")?(,"place":"(?<place>[^"]*)")?(,"note":"(?<note>[\w-]*)")?\}$/
/** How long git may take to end without a signal. */
const TIMEOUT_MS = 10_000
/** How long a git process may still move refs on another machine, after its server has ended. */
const ELSEWHERE_MS = 60_000

/**
 * Opens (or makes) the journal in a directory. One process at a time may have it open, unless each one that has is among
 * the `owners` of the others.
 */
export async function openPushJournal(
  directory: string,
  { timeout = TIMEOUT_MS, owners }: { timeout?: number; owners?: Owners | undefined } = {},
) {
  await mkdir(directory, { recursive: true })
  const place = await placeOfProcesses()
  // Locks that are older than this belong to an earlier process.
  const openedAt = recordNow()
  const busy = new Set<string>()
  /** Why the last recovery could not record a push, by the file of its marker. */
  const failures = new Map<string, UnrecordedPush>()
  /** When to look again at a push whose git process nobody can see from here, by the file of its marker. */
  const again = new Map<string, number>()

  async function isOthers(file: string, gone: Map<string, boolean>): Promise<boolean> {
    if (owners === undefined) return false
    const content = await contentOf(file)
    // Another server is writing it, or stopped before it was written.
    if (content === undefined) return !isAbandoned((await writtenAt(file)) ?? Date.now())
    const { owner } = content
    if (owner === undefined || owner === owners.self()) return false
    const isGone = gone.get(owner) ?? (await owners.isGone(owner))
    gone.set(owner, isGone)
    return !isGone
  }

  /**
   * Waits up to 10 seconds for git processes that outlived their server, and then ends them: those that change refs, and the
   * push of the process `pid`. Then removes what they left. With other servers, call it in the turn of the repository's refs.
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
     * Writes a marker; it is on disk when this resolves. `pid` is the git process that leads its group. `note`: what
     * `noteOf` gives to whoever recovers it.
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
     * Removes the marker: the push is recorded, or it did nothing. The marker of work of which a git process may still
     * run on another machine stays for a minute; then it is unfinished once more.
     */
    async finish({ file }: PushMarker): Promise<void> {
      if (again.get(file) === Number.POSITIVE_INFINITY) {
        again.set(file, performance.now() + ELSEWHERE_MS)
        failures.delete(file)
        return
      }
      // No flush: when the marker reappears after a power cut, it only costs one comparison.
      try {
        await rm(file, { force: true })
      } finally {
        busy.delete(file)
        failures.delete(file)
        again.delete(file)
      }
    },

    /** The note in a marker, if it has one. */
    async noteOf({ file }: PushMarker): Promise<string | undefined> {
      return noteIn(await contentOf(file))
    },

    /** The notes in all markers of a repository, also of work that is under way. */
    async notesOf(key: string): Promise<string[]> {
      const notes: string[] = []
      for (const name of await readdir(directory)) {
        if (MARKER.exec(name)?.[1] !== key) continue
        const note = noteIn(await contentOf(join(directory, name)))
        if (note !== undefined) notes.push(note)
      }
      return notes
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
     * The markers of pushes that nobody is working on: those of servers that are gone, and own abandoned ones. `of`:
     * only those of this repository.
     * For each marker, the caller calls `settle`, compares the repository's refs with the log, records the
     * differences, and calls `finish`.
     */
    async unfinished(of?: string): Promise<PushMarker[]> {
      const markers: PushMarker[] = []
      const gone = new Map<string, boolean>()
      for (const name of (await readdir(directory)).sort()) {
        const key = MARKER.exec(name)?.[1]
        const file = join(directory, name)
        if (key === undefined || (of !== undefined && of !== key) || busy.has(file)) continue
        if ((again.get(file) ?? 0) > performance.now() || (await isOthers(file, gone))) continue
        markers.push({ key, file })
      }
      return markers
    },

    /**
     * Has all git processes of the work of a marker ended, as `clean`, and removes what they left: locks and half-received
     * objects. Call this for markers of an earlier process before requests are served; with other servers, in the turn of
     * the repository's refs.
     */
    async settle({ file }: PushMarker, dir: string): Promise<void> {
      const { pid, place: there } = (await contentOf(file)) ?? {}
      const isElsewhere = there !== undefined && there !== place
      if (isElsewhere && owners !== undefined && !again.has(file)) again.set(file, Number.POSITIVE_INFINITY)
      await clean(dir, isElsewhere ? undefined : pid)
    },
  }
}

/** What a marker says; undefined when it is not complete. Then git received nothing. */
async function contentOf(file: string): Promise<Content | undefined> {
  const text = (await unlessMissing(readFile(file, 'utf8'))) ?? ''
  const found = CONTENT.exec(text)?.groups
  if (found === undefined) return undefined
  const pid = Number(found.pid)
  return { pid: pid > 1 ? pid : undefined, owner: found.owner, place: found.place, note: found.note }
}

const noteIn = (content: Content | undefined) =>
  content?.note === undefined ? undefined : Buffer.from(content.note, 'base64url').toString()

/** Tells apart machines, their starts, and containers: each has process ids of its own. Undefined without /proc. */
async function placeOfProcesses(): Promise<string | undefined> {
  try {
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
    return `${boot.trim()} ${await readlink('/proc/self/ns/pid')}`
  } catch {
    return undefined
  }
}
