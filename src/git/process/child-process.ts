/** Helpers for all git processes: start them, send signals, explain failures. */
import { access, constants } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { limitReached } from '../../errors/limits.ts'
import { isMissing } from '../../storage/disk.ts'
import { hostFailureIn } from '../../storage/host-failure.ts'
import { GitFailed, GitOutputTooLarge, GitUnavailable, RepositoryMissing } from './errors.ts'
import { type Exit, launch } from './launcher.ts'
import { withMemoryLimit } from './memory-limit.ts'
import { commandIn, processStarts } from './process-watch.ts'

const MAX_STDERR = 64 * 1024
/** From SIGTERM to SIGKILL. */
const GRACE_MS = 5_000

export interface GitProcess {
  pid: number
  stdin: Socket
  stdout: Socket
  /** The stream after the standard ones, both ways. Only with `channel`. */
  channel: Socket | undefined
  /** The last 64 KB of its standard error. */
  stderr(): string
  /** Whether it has ended. */
  hasEnded(): boolean
  /** Resolves when it has ended and its output has been read. */
  ended: Promise<Exit>
  /** From now on, neither it nor its streams keep our process alive. */
  unref(): void
}

/**
 * Starts a program, with limited memory. `channel`: gives it a stream besides the standard ones. `givesWay`: others get
 * processors first. `keepsOutput`: its output waits for a reader, also when it has ended before. Whoever starts it reads
 * the output or destroys it.
 *
 * @throws GitUnavailable when it can't be started
 */
export async function startProcess(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { channel: hasChannel = false, givesWay = false, keepsOutput = false } = {},
): Promise<GitProcess> {
  const [command, words] = withMemoryLimit(program, args)
  const count = hasChannel ? 4 : 3
  const wanted = { program: command, args: words, env, streams: count, givesWay }
  const seenEnd = processStarts(program === 'git' ? commandIn(args) : program)
  const { pid, streams, exited, unref } = await launch(wanted).catch((error: Error) => {
    seenEnd({ code: null, signal: null })
    throw cannotStart(error, program)
  })
  const [stdin, stdout, stderr, channel] = streams
  if (stdin === undefined || stdout === undefined || stderr === undefined) {
    throw cannotStart(new Error('a stream is missing'), program)
  }
  let tail = Buffer.alloc(0)
  stderr.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-MAX_STDERR)
  })
  // Nothing comes from there but the end: it may close its input before it has read all. Its exit code and output tell
  // why.
  stdin.resume()
  let hasEnded = false
  const ended = exited.then(async (exit) => {
    hasEnded = true
    seenEnd(exit)
    stdin.destroy()
    // What nobody reads is dropped. Readers that are there take the rest at their own pace.
    for (const stream of streams) if (!(keepsOutput && stream === stdout)) stream.resume()
    await Promise.all(streams.map(closed))
    return exit
  })
  return {
    pid,
    stdin,
    stdout,
    channel,
    stderr: () => tail.toString('utf8'),
    hasEnded: () => hasEnded,
    ended,
    unref() {
      unref()
      for (const stream of streams) stream.unref()
    },
  }
}

const closed = (stream: Socket) =>
  new Promise<void>((resolve) => {
    if (stream.closed) resolve()
    else stream.once('close', () => resolve())
  })

function cannotStart(error: Error, program = 'git'): GitUnavailable {
  return new GitUnavailable(`${program} can't be started: ${error.message}`, { cause: error })
}

/** Sends a signal to a process that leads a group, and to all processes of the group. */
export function signalGroup(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // It ended in the meantime.
  }
}

/** Kills a process and its group at once, unless it has ended. */
export function killNow({ pid, hasEnded }: GitProcess): void {
  if (!hasEnded()) signalGroup(pid, 'SIGKILL')
}

/** Ends a process and its group, unless it has ended. At SIGTERM git removes its locks and what it was writing. */
export function endSoon({ pid, hasEnded, ended }: GitProcess): void {
  if (hasEnded()) return
  signalGroup(pid, 'SIGTERM')
  const lastResort = setTimeout(() => signalGroup(pid, 'SIGKILL'), GRACE_MS)
  void ended.then(() => clearTimeout(lastResort))
}

const NO_REPOSITORY = /not a git repository|does not appear to be a git repository/
/** What git looks at to tell whether a directory is a repository. */
const REPOSITORY = ['HEAD', 'objects', 'refs']
const NO_ROOM = /No space left on device|Disk quota exceeded|File too large/
/** git's own words, and those of the system's library. */
export const NO_MEMORY = /Cannot allocate memory|out of memory/i

/** How a process has ended. */
export interface Ending {
  /** Null when a signal ended it. */
  code: number | null
  /** The signal that ended it, where the caller asks for it. */
  signal?: string | null
  /** The last 64 KB. */
  stderr: string
}

/** The error when git's standard error shows that no command could have worked here and now. */
export async function unusable({ stderr }: Ending, dir?: string): Promise<Error | undefined> {
  if (NO_REPOSITORY.test(stderr))
    return (await unreadable(dir)) ?? new RepositoryMissing(`no repository at ${dir ?? 'that place'}`)
  if (NO_MEMORY.test(stderr)) {
    limitReached('git_memory')
    return new GitOutputTooLarge('git needs more memory than it may have')
  }
  const lack = NO_ROOM.exec(stderr)?.[0] ?? hostFailureIn(stderr)
  if (lack === undefined) return undefined
  const said = new Error(stderr.trim().slice(-500))
  return new GitUnavailable(`git can't work now: ${lack}`, { cause: said })
}

/** git says the same of a repository that it may not read, or whose disk does not answer. Undefined when it is not there. */
async function unreadable(dir: string | undefined): Promise<GitUnavailable | undefined> {
  if (dir === undefined) return undefined
  try {
    for (const name of REPOSITORY) await access(join(dir, name), constants.R_OK)
    return undefined
  } catch (error) {
    return isMissing(error) ? undefined : new GitUnavailable(`${dir} can't be read`, { cause: error })
  }
}

/** The error for a git process that should not have ended like this. */
export async function failureOf(args: readonly string[], ending: Ending, dir?: string): Promise<Error> {
  const problem = await unusable(ending, dir)
  if (problem !== undefined) return problem
  if (ending.code === null) return new GitUnavailable(`git ${args[0]} was ended by a signal`)
  return new GitFailed(args, ending.code, ending.stderr)
}
