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
/** Time from SIGTERM to SIGKILL, in milliseconds. */
const GRACE_MS = 5_000

export interface GitProcess {
  pid: number
  stdin: Socket
  stdout: Socket
  /** A duplex stream after the standard ones. Only with `channel`. */
  channel: Socket | undefined
  /** The last 64 KB of standard error. */
  stderr(): string
  hasEnded(): boolean
  /** Resolves when the process has ended and its output has been read. */
  ended: Promise<Exit>
  /** Stops the process and its streams from keeping this process alive. */
  unref(): void
}

/**
 * Starts a program with limited memory. `channel`: with a duplex stream besides the standard ones. `givesWay`: with low
 * priority. `keepsOutput`: its output waits for a reader even after its end. The caller must read or destroy the output.
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
  // Notices when the process closes its input early. Its exit code and output have the reason.
  stdin.resume()
  let hasEnded = false
  const ended = exited.then(async (exit) => {
    hasEnded = true
    seenEnd(exit)
    stdin.destroy()
    // Output without a reader is dropped. Readers take the rest at their own pace.
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
    // It has ended meanwhile.
  }
}

/** Kills a process and its group at once, unless it has ended. */
export function killNow({ pid, hasEnded }: GitProcess): void {
  if (!hasEnded()) signalGroup(pid, 'SIGKILL')
}

/** Terminates a process and its group, unless it has ended. On SIGTERM git removes its locks and unfinished files. */
export function endSoon({ pid, hasEnded, ended }: GitProcess): void {
  if (hasEnded()) return
  signalGroup(pid, 'SIGTERM')
  const lastResort = setTimeout(() => signalGroup(pid, 'SIGKILL'), GRACE_MS)
  void ended.then(() => clearTimeout(lastResort))
}

const NO_REPOSITORY = /not a git repository|does not appear to be a git repository/
/** Files by which git recognizes a repository. */
const REPOSITORY = ['HEAD', 'objects', 'refs']
const NO_SPACE = /No space left on device|Disk quota exceeded|File too large/
/** Messages of git and of the C library. */
export const NO_MEMORY = /Cannot allocate memory|out of memory/i

/** The end of a process. */
export interface Ending {
  /** Null when a signal ended it. */
  code: number | null
  /** The signal that ended it, if known. */
  signal?: string | null
  /** The last 64 KB. */
  stderr: string
}

/**
 * Returns the error when standard error shows that no command could have worked: a missing repository, or a lack of memory,
 * disk space or files.
 */
export async function unusable({ stderr }: Ending, dir?: string): Promise<Error | undefined> {
  if (NO_REPOSITORY.test(stderr))
    return (await unreadable(dir)) ?? new RepositoryMissing(`no repository at ${dir ?? 'that place'}`)
  if (NO_MEMORY.test(stderr)) {
    limitReached('git_memory')
    return new GitOutputTooLarge('git needs more memory than it may have')
  }
  const lack = NO_SPACE.exec(stderr)?.[0] ?? hostFailureIn(stderr)
  if (lack === undefined) return undefined
  const cause = new Error(stderr.trim().slice(-500))
  return new GitUnavailable(`git can't work now: ${lack}`, { cause })
}

/**
 * git prints the same message for an unreadable repository, or one on a failing disk. Returns undefined for a missing one.
 */
async function unreadable(dir: string | undefined): Promise<GitUnavailable | undefined> {
  if (dir === undefined) return undefined
  try {
    for (const name of REPOSITORY) await access(join(dir, name), constants.R_OK)
    return undefined
  } catch (error) {
    return isMissing(error) ? undefined : new GitUnavailable(`${dir} can't be read`, { cause: error })
  }
}

/** Creates the error for a git process that failed unexpectedly. */
export async function failureOf(args: readonly string[], ending: Ending, dir?: string): Promise<Error> {
  const problem = await unusable(ending, dir)
  if (problem !== undefined) return problem
  if (ending.code === null) return new GitUnavailable(`git ${args[0]} was ended by a signal`)
  return new GitFailed(args, ending.code, ending.stderr)
}
