/**
 * Finds and ends git processes that outlived their server. Until such a process has ended it may move refs, so nobody can
 * compare them with the log. On systems without /proc none is found.
 */
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { signalGroup } from './child-process.ts'

/** The commands that change refs besides a push. All of them are short. */
const OF_REFS = ['update-ref', 'pack-refs', 'symbolic-ref']
/** How long git may take to end after a signal. */
const GRACE_MS = 2_000
const PAUSE_MS = 20

/** Whether this process is git receiving a push. After git has ended, another process may get the same id. */
export async function isReceivePack(pid: number, dir: string): Promise<boolean> {
  const words = await wordsOf(pid)
  return words.includes('receive-pack') && words.includes(dir)
}

/** The processes of this machine that change refs of the repository, other than pushes. */
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
  if (program !== 'git' || !OF_REFS.includes(command)) return false
  const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
  return environment.split('\0').includes(`GIT_DIR=${dir}`)
}

/**
 * The program and its arguments. Empty when it has ended, or the system has no /proc: nobody ends a process that is not known.
 */
async function wordsOf(pid: number): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return text.split('\0')
}

/**
 * Waits up to `timeout` milliseconds until none of the processes runs, and then ends them. `running` finds them. Resolves to
 * whether there was one.
 */
export async function endOrphanedProcesses(
  running: () => Promise<number[]>,
  timeout: number,
): Promise<boolean> {
  if ((await running()).length === 0) return false
  // Their input is closed since their server died, so they mostly end without a signal.
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
