/** Helpers for all git processes: start them, send signals, explain failures. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { GitFailed, GitOutputTooLarge, GitUnavailable, RepositoryMissing } from './errors.ts'
import { withMemoryLimit } from './memory-limit.ts'

const MAX_STDERR = 64 * 1024

/**
 * Starts a program, with limited memory. `stderr` gives the last 64 KB of its standard error. `more`: streams besides the
 * standard ones.
 */
export function startProcess(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  more: readonly 'pipe'[] = [],
): { child: ChildProcessWithoutNullStreams; stderr: () => string } {
  // A group of its own, so that one signal reaches its helper processes too, and Ctrl-C does not.
  const [command, words] = withMemoryLimit(program, args)
  const stdio = ['pipe', 'pipe', 'pipe', ...more] as const
  const child = spawn(command, words, { cwd: '/', env, stdio: [...stdio], detached: true })
  let tail = Buffer.alloc(0)
  child.stderr.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-MAX_STDERR)
  })
  // It may end before it has read all input. Its exit code and output tell why.
  child.stdin.on('error', () => undefined)
  return { child, stderr: () => tail.toString('utf8') }
}

export function cannotStart(error: Error, program = 'git'): GitUnavailable {
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

/** Whether a process that was started has not ended. */
export function isRunning({ pid, exitCode, signalCode }: ChildProcessWithoutNullStreams): boolean {
  return pid !== undefined && exitCode === null && signalCode === null
}

/** Kills a process and its group at once, unless it has ended. */
export function killNow(child: ChildProcessWithoutNullStreams): void {
  if (child.pid !== undefined && isRunning(child)) signalGroup(child.pid, 'SIGKILL')
}

const NO_REPOSITORY = /not a git repository|does not appear to be a git repository/
const NO_RESOURCES =
  /No space left on device|Disk quota exceeded|Read-only file system|Too many open files|Resource temporarily unavailable/i
/** git's own words, and those of the system's library. */
export const NO_MEMORY = /Cannot allocate memory|out of memory/i

/** How a process has ended. */
export interface Ending {
  /** Null when a signal ended it. */
  code: number | null
  /** The last 64 KB. */
  stderr: string
}

/** The error when git's standard error shows that no command could have worked here and now. */
export function unusable({ stderr }: Ending, dir?: string): Error | undefined {
  if (NO_REPOSITORY.test(stderr)) return new RepositoryMissing(`no repository at ${dir ?? 'that place'}`)
  if (NO_MEMORY.test(stderr)) return new GitOutputTooLarge('git needs more memory than it may have')
  const lack = NO_RESOURCES.exec(stderr)
  return lack === null ? undefined : new GitUnavailable(`git can't work now: ${lack[0]}`)
}

/** The error for a git process that should not have ended like this. */
export function failureOf(args: readonly string[], ending: Ending, dir?: string): Error {
  const problem = unusable(ending, dir)
  if (problem !== undefined) return problem
  if (ending.code === null) return new GitUnavailable(`git ${args[0]} was ended by a signal`)
  return new GitFailed(args, ending.code, ending.stderr)
}
