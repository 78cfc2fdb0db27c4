/**
 * Runs single commands of git and ssh-keygen: never through a shell, never with the machine's configuration, and a
 * limited number at the same time.
 */
import { availableParallelism } from 'node:os'
import { createSlots } from '../turns.ts'
import { cannotStart, type Ending, killNow, startProcess, unusable } from './child-process.ts'
import { type GitConfig, gitEnvironment } from './environment.ts'
import { GitFailed, GitOutputTooLarge, GitUnavailable } from './errors.ts'

const MEGABYTE = 1024 * 1024
const DEFAULT_MAX_OUTPUT = 64 * MEGABYTE
const DEFAULT_TIMEOUT = 120_000

const commandSlots = createSlots(Math.max(4, 2 * availableParallelism()))

const commandEnvironment = gitEnvironment()

export interface GitOptions {
  /** Absolute path of the bare repository; not set for commands without a repository. */
  dir?: string
  input?: string | Uint8Array
  /** Settings for this command. They win over the settings that every command gets. */
  config?: GitConfig
  env?: Readonly<Record<string, string>>
  /** Most bytes of standard output, default 64 MB. More ends the command with `GitOutputTooLarge`. */
  maxOutput?: number
  /** Takes the output while it arrives. Nothing is held then, and `maxOutput` does not apply. */
  onOutput?: (chunk: Buffer) => void
  /** Milliseconds that the command may run, default 120,000. More ends it with `GitUnavailable`. */
  timeout?: number
  signal?: AbortSignal
}

export interface GitResult extends Ending {
  code: number
  /** Empty when `onOutput` took it. */
  stdout: Buffer
}

/**
 * Runs one git command. Resolves with its exit code, also when the code is not 0.
 *
 * @throws GitOutputTooLarge, GitUnavailable, RepositoryMissing, or the signal's reason
 */
export async function git(args: readonly string[], options: GitOptions = {}): Promise<GitResult> {
  const result = await run('git', args, options)
  const problem = result.code === 0 ? undefined : unusable(result, options.dir)
  if (problem !== undefined) throw problem
  return result
}

/**
 * Runs `ssh-keygen`, which makes and checks signatures. Resolves with its exit code, also when the code is not 0.
 * It has no agent and no terminal, so it can't ask for a passphrase.
 *
 * @throws GitOutputTooLarge, GitUnavailable
 */
export async function sshKeygen(args: readonly string[], options: GitOptions = {}): Promise<GitResult> {
  return await run('ssh-keygen', args, { timeout: 20_000, ...options })
}

/**
 * Runs one git command and gives its standard output. Any exit code but 0 is an error.
 *
 * @throws GitFailed, and what `git` throws
 */
export async function gitOutput(args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
  const { code, stdout, stderr } = await git(args, options)
  if (code !== 0) throw new GitFailed(args, code, stderr)
  return stdout
}

/**
 * Runs one git command and gives the lines of its standard output. Any exit code but 0 is an error.
 *
 * @throws GitFailed, and what `git` throws
 */
export async function gitLines(args: readonly string[], options: GitOptions): Promise<string[]> {
  const text = (await gitOutput(args, options)).toString('utf8')
  return text.split('\n').filter((line) => line !== '')
}

async function run(program: string, args: readonly string[], options: GitOptions): Promise<GitResult> {
  const release = await commandSlots.take(options.signal)
  try {
    return await runNow(program, args, options)
  } finally {
    release()
  }
}

function runNow(program: string, args: readonly string[], options: GitOptions): Promise<GitResult> {
  const { dir, input, config, env, maxOutput = DEFAULT_MAX_OUTPUT, onOutput, signal } = options
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const base = config === undefined ? commandEnvironment : gitEnvironment(config)
    const { child, stderr } = startProcess(program, args, {
      ...base,
      ...(dir === undefined ? {} : { GIT_DIR: dir }),
      ...env,
    })
    const chunks: Buffer[] = []
    let size = 0
    let failure: unknown

    const stop = (reason: unknown) => {
      failure ??= reason
      killNow(child)
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
    child.stdin.end(input)
  })
}
