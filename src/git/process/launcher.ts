/**
 * Starts processes from a small process, the launcher. To start one, the system copies the page tables of the parent: in a
 * server of 300 MB this blocks the event loop for 40 ms. The streams of a started process are sockets between it and the
 * server; its data does not pass through the launcher.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay, setImmediate as nextIteration } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { rejectWhenOutOfDescriptors } from '../../http/connections/descriptor-limit.ts'
import { program } from '../../storage/project-files.ts'
import { removeOrphanedLaunchers } from './orphaned-launchers.ts'
import { removeOrphanedTemporaryDirectories } from './temporary-directories.ts'

export interface Launch {
  program: string
  args: readonly string[]
  env: NodeJS.ProcessEnv
  /** Number of streams: at least the three standard ones. */
  streams: number
  /** Whether it has a low priority, which falls further after long work. */
  givesWay: boolean
}

/** The end of a process: one of the two is null. */
export interface Exit {
  code: number | null
  signal: string | null
}

export interface Launched {
  pid: number
  streams: Socket[]
  /** Resolves when it has ended. Output may still be in flight. */
  exited: Promise<Exit>
  /** Stops it from keeping this process alive. */
  unref(): void
}

/** Length of a stream's header: the number of its process, and its own. */
const HEAD_BYTES = 13

export type Request = Launch & { id: number }

/** The process runs, failed to start, or has ended. `isCutOff`: the launcher's socket was removed. */
export type Message = { id: number } & ({ pid: number } | Failure | { exit: Exit })

interface Failure {
  failed: string
  /** The system's error code. */
  code?: string
  isCutOff?: boolean
}

/** A process could not be started. `code` and `syscall` are as in system errors. */
class LaunchFailed extends Error {
  readonly code: string | undefined
  readonly syscall = 'spawn'

  constructor({ failed, code }: Failure) {
    super(failed)
    this.code = code
  }
}

/** This process has too many open files to accept the streams. */
const STREAMS_CUT_OFF: Failure = { failed: 'its streams were cut off', code: 'EMFILE' }

/** The launcher's socket was removed, so it can't start processes. Running ones continue. */
class LauncherCutOff extends Error {}

function isMessage(value: unknown): value is Message {
  return typeof value === 'object' && value !== null && 'id' in value && typeof value.id === 'number'
}

/** A requested process that has not ended. */
interface Requested {
  streams: Socket[]
  wanted: number
  pid?: number
  isStarted: boolean
  hasEnded: boolean
  keepsAlive: boolean
  /** The process runs, and all of its streams are connected. */
  started(pid: number): void
  failed(reason: Error): void
  ended(exit: Exit): void
}

const PROGRAM = fileURLToPath(program('git/process/launcher-process'))

/** Time limit for the end of an ended launcher's processes, in milliseconds. */
const ORPHAN_MS = 5000
/**
 * The streams of a process are connected before it starts. When they are missing this many milliseconds later, and no
 * other stream arrived during the last STREAMS_ITERATIONS iterations of the event loop, they count as lost.
 */
const STREAMS_MS = 1000
const STREAMS_ITERATIONS = 5
/** Maximum length of a socket's path on all systems. */
const MAX_PATH = 100

/** Starts the launcher. `gone` is called when it can't start further processes. */
async function startLauncher(gone: () => void) {
  const processes = new Map<number, Requested>()
  let lastId = 0
  let isRetired = false
  /** Number of streams that have arrived, and the newest process that they belong to. */
  let arrivals = 0
  let newestArrival = 0

  const path = await socketPath()
  const server = createServer((stream) => {
    arrivals += 1
    stream.on('error', () => undefined)
    readHead(stream, (id, place) => {
      newestArrival = Math.max(newestArrival, id)
      const requested = processes.get(id)
      if (requested === undefined) {
        stream.destroy()
        return
      }
      requested.streams[place] = stream
      startIfComplete(requested)
    })
  })
  rejectWhenOutOfDescriptors(server)
  server.listen(path).unref()
  await once(server, 'listening')
  // Each process gets its own environment. Node itself may need this variable to find its libraries.
  const { LD_LIBRARY_PATH } = process.env
  const child = spawned()
  child.unref()
  keepAlive()

  function spawned() {
    try {
      return spawn(process.execPath, [PROGRAM, path], {
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
        detached: true,
        env: { ...(LD_LIBRARY_PATH !== undefined && { LD_LIBRARY_PATH }) },
      })
    } catch (error) {
      close()
      throw error
    }
  }

  function close(): void {
    server.close()
    void rm(dirname(path), { recursive: true, force: true }).catch(() => undefined)
  }

  /** Only referenced processes keep this process alive. */
  function keepAlive(): void {
    if (processes.values().some(({ keepsAlive }) => keepsAlive)) child.channel?.ref()
    else child.channel?.unref()
  }

  function startIfComplete(requested: Requested): void {
    const { pid, streams, wanted } = requested
    if (pid === undefined || Object.keys(streams).length < wanted) return
    requested.isStarted = true
    requested.started(pid)
  }

  function take(id: number): Requested | undefined {
    const requested = processes.get(id)
    processes.delete(id)
    if (isRetired && processes.size === 0 && child.connected) child.disconnect()
    keepAlive()
    return requested
  }

  function fail(id: number, reason: Error): void {
    const requested = take(id)
    for (const stream of requested?.streams ?? []) stream?.destroy()
    requested?.failed(reason)
  }

  /** Fails a process whose streams were lost. It may be waiting for input that can't come. */
  async function requireStreams(id: number, requested: Requested): Promise<void> {
    await delay(STREAMS_MS, undefined, { ref: false })
    // One stream arrives per iteration, in the order of the processes. When a busy server starts many at once, later ones
    // have to wait.
    for (let still = 0; still < STREAMS_ITERATIONS && !requested.isStarted; ) {
      const before = arrivals
      await nextIteration()
      still = arrivals > before && newestArrival <= id ? 0 : still + 1
    }
    if (requested.isStarted || processes.get(id) !== requested) return
    if (requested.pid !== undefined && !requested.hasEnded) void endOrphans(requested.pid)
    fail(id, new LaunchFailed(STREAMS_CUT_OFF))
  }

  /** Another launcher takes over. This one ends with its last process. */
  function retire(): void {
    isRetired = true
    gone()
  }

  child.on('message', (message) => {
    if (!isMessage(message)) return
    const requested = processes.get(message.id)
    if (requested === undefined) return
    if ('failed' in message && message.isCutOff === true) {
      retire()
      fail(message.id, new LauncherCutOff(message.failed))
    } else if ('failed' in message) fail(message.id, new LaunchFailed(message))
    else if ('exit' in message) {
      requested.hasEnded = true
      requested.ended(message.exit)
    } else {
      requested.pid = message.pid
      startIfComplete(requested)
      if (!requested.isStarted) void requireStreams(message.id, requested)
    }
  })

  let hasEnded = false
  function end(reason: string): void {
    if (hasEnded) return
    hasEnded = true
    gone()
    close()
    for (const [id, requested] of [...processes]) {
      const { pid, isStarted } = requested
      const orphansEnd = pid === undefined ? undefined : endOrphans(pid)
      if (isStarted) void orphansEnd?.then(() => requested.ended({ code: null, signal: 'SIGKILL' }))
      else fail(id, new Error(reason))
    }
  }
  child.on('error', (error) => end(error.message))
  child.on('exit', (code, signal) => end(`the launcher was ended by ${signal ?? code}`))

  return {
    launch({ streams: wanted, ...launch }: Launch): Promise<Launched> {
      return new Promise((resolve, reject) => {
        lastId += 1
        const id = lastId
        let ended: (exit: Exit) => void = () => undefined
        const exited = new Promise<Exit>((settle) => {
          ended = settle
        })
        const requested: Requested = {
          streams: [],
          wanted,
          isStarted: false,
          hasEnded: false,
          keepsAlive: true,
          failed: reject,
          ended,
          started(pid) {
            // It may have ended already.
            void exited.then(() => take(id))
            resolve({
              pid,
              streams: requested.streams,
              exited,
              unref() {
                requested.keepsAlive = false
                keepAlive()
              },
            })
          },
        }
        processes.set(id, requested)
        keepAlive()
        const request: Request = { id, streams: wanted, ...launch }
        child.send(request, (error) => {
          if (error !== null) fail(id, error)
        })
      })
    },
  }
}

const PREFIX = 'mergelog-launcher-'

/** Parent directory of the sockets' directories. */
const place = () => (join(tmpdir(), PREFIX).length < MAX_PATH - 20 ? tmpdir() : '/tmp')

/** Creates a socket path in a private directory. */
async function socketPath(): Promise<string> {
  return join(await mkdtemp(join(place(), PREFIX)), 'socket')
}

/** Consumes the header of a stream, and leaves the rest to its reader. */
function readHead(stream: Socket, found: (id: number, place: number) => void): void {
  stream.on('readable', function read() {
    const head: Buffer | null = stream.read(HEAD_BYTES)
    if (head === null) return
    stream.off('readable', read)
    const text = head.toString('latin1')
    found(Number(text.slice(0, -1)), Number(text.slice(-1)))
  })
}

/** Kills a process group whose launcher has ended. Resolves when it is gone. */
async function endOrphans(pid: number): Promise<void> {
  for (let waited = 0; waited < ORPHAN_MS; waited += 20) {
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {
      return
    }
    await delay(20)
  }
}

let current: ReturnType<typeof startLauncher> | undefined

function running() {
  const launcher = startLauncher(() => {
    if (current === launcher) current = undefined
  })
  launcher.catch(() => {
    if (current === launcher) current = undefined
  })
  return launcher
}

/**
 * Starts a process that leads a group. The launcher is started at the first call, and again after it has ended or its
 * socket was removed: many hosts clean up old temporary files.
 * @throws an error with the system's reason when the process can't be started
 */
export async function launch(wanted: Launch): Promise<Launched> {
  try {
    return await launchBy(current ?? running(), wanted)
  } catch (error) {
    if (error instanceof LauncherCutOff) return await launchBy(current ?? running(), wanted)
    throw error
  }
}

async function launchBy(launcher: ReturnType<typeof startLauncher>, wanted: Launch): Promise<Launched> {
  current = launcher
  return await (await launcher).launch(wanted)
}

/** Starts the launcher while this process is still small, and removes the temporary files of killed servers. */
export async function prepareLaunches(): Promise<void> {
  current ??= running()
  await current
  await Promise.all([removeOrphanedLaunchers(place(), PREFIX), removeOrphanedTemporaryDirectories()])
}
