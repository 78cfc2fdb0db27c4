/** Starts git and ssh-keygen: never through a shell, never with the machine's configuration, never too often at once. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { createSlots } from '../turns.ts'
import { GitFailed, GitOutputTooLarge, GitUnavailable, RepositoryMissing } from './errors.ts'

const MEGABYTE = 1024 * 1024
const DEFAULT_MAX_OUTPUT = 64 * MEGABYTE
const DEFAULT_TIMEOUT = 120_000
const MAX_STDERR = 64 * 1024

const cores = availableParallelism()
const commandSlots = createSlots(Math.max(4, 2 * cores))
/** Clones, fetches and pushes: they last as long as their client is slow, so they don't share slots with commands. */
export const transferSlots = createSlots(Math.max(16, 8 * cores))

export type GitConfig = readonly (readonly [key: string, value: string])[]

const CONFIG: GitConfig = [
  // The rights on a repository are ours to decide; the owner of its files says nothing.
  ['safe.directory', '*'],
  // An acknowledged ref must be there after a power cut, and so must all that it leads to.
  ['core.fsync', 'committed,loose-object,pack-metadata,reference'],
  // Nothing may start by itself beside a command, and no hook may ever run.
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  ['receive.autogc', 'false'],
  ['core.hooksPath', '/dev/null'],
  ['core.attributesFile', '/dev/null'],
  ['core.quotePath', 'false'],
  // Two writers of one ref wait for each other; the compare-and-swap then says who was first.
  ['core.filesRefLockTimeout', '3000'],
  ['core.packedRefsTimeout', '10000'],
  // Larger blobs are streamed by git, not held and compared.
  ['core.bigFileThreshold', '32m'],
]

/** The whole environment of a git process. */
export function gitEnvironment(
  config: GitConfig = [],
  more: Readonly<Record<string, string>> = {},
): NodeJS.ProcessEnv {
  const environment: NodeJS.ProcessEnv = {
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    // refs/replace/* can be pushed; it must not change what a commit id means.
    GIT_NO_REPLACE_OBJECTS: '1',
    // Refs are read and flushed as files; a git that makes reftables by default must not.
    GIT_DEFAULT_REF_FORMAT: 'files',
    LC_ALL: 'C',
    TZ: 'UTC',
  }
  for (const name of ['PATH', 'TMPDIR', 'LD_LIBRARY_PATH']) {
    const value = process.env[name]
    if (value !== undefined) environment[name] = value
  }
  const all = [...CONFIG, ...config]
  environment.GIT_CONFIG_COUNT = String(all.length)
  all.forEach(([key, value], i) => {
    environment[`GIT_CONFIG_KEY_${i}`] = key
    environment[`GIT_CONFIG_VALUE_${i}`] = value
  })
  return { ...environment, ...more }
}

const commandEnvironment = gitEnvironment()

export interface GitOptions {
  /** Absolute path of the bare repository; left out for commands that need none. */
  dir?: string
  input?: string | Uint8Array
  /** Settings for this command; they win over those that every command gets. */
  config?: GitConfig
  env?: Readonly<Record<string, string>>
  /** Bytes of standard output, default 64 MB; more ends the command with `GitOutputTooLarge`. */
  maxOutput?: number
  /** Takes the output as it comes, instead of it being held; `maxOutput` does not apply then. */
  onOutput?: (chunk: Buffer) => void
  /** Milliseconds that the command may run, default 120,000; more ends it with `GitUnavailable`. */
  timeout?: number
  signal?: AbortSignal
}

export interface GitResult {
  code: number
  /** Empty when `onOutput` took it. */
  stdout: Buffer
  /** The last 64 KB. */
  stderr: string
}

/**
 * Runs one git command and resolves with its exit code, whatever that is.
 *
 * @throws GitOutputTooLarge, GitUnavailable, RepositoryMissing, or the signal's reason
 */
export async function git(args: readonly string[], options: GitOptions = {}): Promise<GitResult> {
  const result = await run('git', args, options)
  if (result.code !== 0) throwIfHopeless(result.stderr, options.dir)
  return result
}

/**
 * Runs one `ssh-keygen`, which makes and checks the signatures that git only carries, and resolves with
 * its exit code, whatever that is. It finds neither an agent nor a terminal to ask for a passphrase.
 *
 * @throws GitOutputTooLarge, GitUnavailable
 */
export async function sshKeygen(args: readonly string[], options: GitOptions = {}): Promise<GitResult> {
  return await run('ssh-keygen', args, { timeout: 20_000, ...options })
}

/**
 * Runs one git command that has no other good end than exit code 0; gives its standard output.
 *
 * @throws GitFailed, and all that `git` throws
 */
export async function gitOutput(args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
  const { code, stdout, stderr } = await git(args, options)
  if (code !== 0) throw new GitFailed(args, code, stderr)
  return stdout
}

type Program = 'git' | 'ssh-keygen'

async function run(program: Program, args: readonly string[], options: GitOptions): Promise<GitResult> {
  const release = await commandSlots.take(options.signal)
  try {
    return await runNow(program, args, options)
  } finally {
    release()
  }
}

function runNow(program: Program, args: readonly string[], options: GitOptions): Promise<GitResult> {
  const { dir, input, config, env, maxOutput = DEFAULT_MAX_OUTPUT, onOutput, signal } = options
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const base = config === undefined ? commandEnvironment : gitEnvironment(config)
    const child = spawn(program, args, {
      cwd: '/',
      env: { ...base, ...(dir === undefined ? {} : { GIT_DIR: dir }), ...env },
      stdio: 'pipe',
      // A group of its own, so that one signal reaches git's helpers too, and Ctrl-C does not.
      detached: true,
    })
    const chunks: Buffer[] = []
    let size = 0
    let failure: unknown
    const stderr = collectStderr(child)

    const stop = (reason: unknown) => {
      failure ??= reason
      if (child.pid !== undefined && child.exitCode === null) signalGroup(child.pid, 'SIGKILL')
      child.stdout.destroy()
    }
    const aborted = () => stop(signal?.reason)
    signal?.addEventListener('abort', aborted, { once: true })
    const timeout = options.timeout ?? DEFAULT_TIMEOUT
    const timer = setTimeout(() => {
      stop(new GitUnavailable(`${program} ${args[0]} took more than ${timeout} ms`))
    }, timeout)

    child.stdout.on('data', (chunk: Buffer) => {
      if (failure !== undefined) return
      try {
        if (onOutput !== undefined) return onOutput(chunk)
      } catch (error) {
        return stop(error)
      }
      size += chunk.length
      if (size > maxOutput)
        stop(new GitOutputTooLarge(`${program} ${args[0]} gave more than ${maxOutput} bytes`))
      else chunks.push(chunk)
    })
    const end = (conclude: () => void) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
      conclude()
    }
    child.on('error', (error) => end(() => reject(cannotStart(error, program))))
    child.on('close', (code, killedBy) => {
      end(() => {
        if (failure !== undefined) reject(failure)
        else if (code === null) reject(new GitUnavailable(`${program} ${args[0]} was ended by ${killedBy}`))
        else resolve({ code, stdout: Buffer.concat(chunks), stderr: stderr() })
      })
    })
    // A command that fails early leaves its input unread; its exit code tells why.
    child.stdin.on('error', () => undefined)
    child.stdin.end(input)
  })
}

/** Keeps the end of what a process writes to standard error. */
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

/** Signals a process that leads a group, and its helpers with it. */
export function signalGroup(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // It ended in the meantime.
  }
}

const NO_REPOSITORY = /not a git repository|does not appear to be a git repository/
const NO_MEANS =
  /No space left on device|Disk quota exceeded|Read-only file system|Too many open files|Cannot allocate memory|out of memory|Resource temporarily unavailable/i

/** Throws when git failed for a reason that has nothing to do with the question. */
export function throwIfHopeless(stderr: string, dir: string | undefined): void {
  if (NO_REPOSITORY.test(stderr)) throw new RepositoryMissing(`no repository at ${dir ?? 'that place'}`)
  const lack = NO_MEANS.exec(stderr)
  if (lack !== null) throw new GitUnavailable(`git can't work now: ${lack[0]}`)
}
