/**
 * Finds and ends orphaned git processes of killed servers. Such a process may still move refs, so refs cannot be compared
 * with the log before it has ended. Systems without /proc report none.
 */
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { signalGroup } from './child-process.ts'

/** Commands besides a push that change refs. All of them are short. */
const REF_COMMANDS = ['update-ref', 'pack-refs', 'symbolic-ref']
/** Time limit for git to end after a signal, in milliseconds. */
const GRACE_MS = 2_000
const PAUSE_MS = 20

/** Whether this process is git receiving a push: process ids are reused. */
export async function isReceivePack(pid: number, dir: string): Promise<boolean> {
  const words = await wordsOf(pid)
  return words.includes('receive-pack') && words.includes(dir)
}

/** Returns the processes of this host that change refs of the repository, except pushes. */
export async function refCommandsIn(dir: string): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc').catch(() => [])) {
    const pid = Number(name)
    if (Number.isInteger(pid) && (await isRefCommand(pid, dir))) found.push(pid)
  }
  return found
}

async function isRefCommand(pid: number, dir: string): Promise<boolean> {
  const [program, command = ''] = await wordsOf(pid)
  if (program !== 'git' || !REF_COMMANDS.includes(command)) return false
  const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
  return environment.split('\0').includes(`GIT_DIR=${dir}`)
}

/**
 * Returns the program and its arguments; empty for an ended process, or without /proc: an unknown process is never ended.
 */
async function wordsOf(pid: number): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return text.split('\0')
}

/**
 * Waits up to `timeout` milliseconds for the processes that `running` returns, and then ends them. Resolves to whether any
 * was found.
 */
export async function endOrphanedProcesses(
  running: () => Promise<number[]>,
  timeout: number,
): Promise<boolean> {
  if ((await running()).length === 0) return false
  // Their input has closed with their server, so they mostly end without a signal.
  if (await endWithin(running, timeout)) return true
  // SIGTERM first: git then removes its own locks.
  for (const pid of await running()) signalGroup(pid, 'SIGTERM')
  if (await endWithin(running, GRACE_MS)) return true
  for (const pid of await running()) signalGroup(pid, 'SIGKILL')
  await endWithin(running, GRACE_MS)
  return true
}

async function endWithin(running: () => Promise<number[]>, time: number): Promise<boolean> {
  const end = performance.now() + time
  while ((await running()).length > 0) {
    if (performance.now() >= end) return false
    await pause(PAUSE_MS)
  }
  return true
}
