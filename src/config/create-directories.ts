/**
 * Creates a directory and its parents in a child process: a file system that does not answer would block a thread of
 * this process forever, and with it the exit. Node's `mkdir` never returns for a path in /proc.
 */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { open, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { OperatorError } from '../errors/operator-error.ts'
import { hasCode } from '../storage/disk.ts'
import { isDiskFull } from '../storage/disk-full.ts'
import { ConfigError } from './config.ts'

/** Timeout for a file system, in milliseconds. */
const TIMEOUT_MS = 60_000

/** Thrown for a missing or unwritable directory. The message begins with a path and has the reason. */
class PathProblem extends OperatorError {}

/** @throws PathProblem */
export async function createDirectories(path: string, withinMs = TIMEOUT_MS): Promise<void> {
  const output = await mkdirError(path, withinMs)
  if (output === undefined) {
    throw new PathProblem(`${path} is on a file system that does not answer: check its disk or network`)
  }
  const problem = await problemAt(path, output)
  if (problem !== undefined) throw new PathProblem(problem)
}

/** Creates the data directory. @throws ConfigError */
export async function createDataDir(dataDir: string, withinMs?: number): Promise<void> {
  await createDirectories(dataDir, withinMs).catch((error: unknown) => {
    if (!(error instanceof PathProblem)) throw error
    const problem = `cannot be used: ${error.message}; or set DATA_DIR to another directory`
    throw new ConfigError('DATA_DIR', problem, { cause: error })
  })
}

/** Returns the error output of `mkdir`; undefined on timeout. */
async function mkdirError(path: string, withinMs: number): Promise<string | undefined> {
  const child = spawn('mkdir', ['-p', '--', path], {
    env: { ...process.env, LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = new AbortController()
  const late = delay(withinMs, undefined, { signal: ended.signal }).catch(() => undefined)
  try {
    const output = Promise.all([text(child.stderr), once(child, 'close')]).then(([words]) => words)
    return await Promise.race([output, late])
  } finally {
    ended.abort()
    // The child may hang in the file system. It must not keep this process alive.
    child.kill('SIGKILL')
    child.unref()
    child.stderr.destroy()
  }
}

/** Returns why a directory is not writable; undefined for a writable one. */
async function problemAt(path: string, output: string): Promise<string | undefined> {
  if (output !== '') {
    const ancestor = await existingAncestor(path)
    if (!ancestor.isDirectory) return `${ancestor.path} is not a directory`
    if (output.includes('Permission denied')) return mayNotWrite(ancestor.path)
    return `${path} cannot be created in ${ancestor.path}: ${output.trim().split(': ').at(-1)}`
  }
  // Named like SQLite's files for the lock, which may exist in an "empty" directory.
  const probe = join(path, `lock.db-${randomUUID()}`)
  try {
    await (await open(probe, 'wx')).close()
    await rm(probe)
    return undefined
  } catch (error) {
    if (isDiskFull(error)) return undefined
    if (hasCode(error, 'EACCES')) return mayNotWrite(path)
    if (hasCode(error, 'EROFS')) return `${path} is on a read-only disk: mount it for writing`
    throw error
  }
}

const mayNotWrite = (path: string) => {
  const user = process.geteuid?.() ?? 'of this process'
  return `the user ${user} may not write in ${path}: allow it (chown ${user} ${path})`
}

/** Returns the nearest existing ancestor of a path. */
async function existingAncestor(path: string): Promise<{ path: string; isDirectory: boolean }> {
  const found = await stat(path).catch((error: unknown) => {
    // If the user may not enter a directory, report that directory.
    if (['ENOENT', 'ENOTDIR', 'EACCES'].some((code) => hasCode(error, code))) return undefined
    throw error
  })
  return found === undefined ? existingAncestor(dirname(path)) : { path, isDirectory: found.isDirectory() }
}
