/** Helpers for all git processes: collect standard error, send signals, explain failures. */
import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { GitUnavailable, RepositoryMissing } from './errors.ts'

const MAX_STDERR = 64 * 1024

/** Collects a process's standard error. The returned function gives the last 64 KB of it. */
export function collectStderr(child: ChildProcessWithoutNullStreams): () => string {
  let tail = Buffer.alloc(0)
  child.stderr.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-MAX_STDERR)
  })
  return () => tail.toString('utf8')
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

const NO_REPOSITORY = /not a git repository|does not appear to be a git repository/
const NO_RESOURCES =
  /No space left on device|Disk quota exceeded|Read-only file system|Too many open files|Cannot allocate memory|out of memory|Resource temporarily unavailable/i

/**
 * Throws when git's standard error shows that no command could have worked here and now.
 *
 * @throws RepositoryMissing, GitUnavailable when the machine lacks disk space, memory or the like
 */
export function throwIfUnusable(stderr: string, dir: string | undefined): void {
  if (NO_REPOSITORY.test(stderr)) throw new RepositoryMissing(`no repository at ${dir ?? 'that place'}`)
  const lack = NO_RESOURCES.exec(stderr)
  if (lack !== null) throw new GitUnavailable(`git can't work now: ${lack[0]}`)
}
