/**
 * Runs single commands of git and ssh-keygen: without a shell, without the host's configuration, and a limited number at
 * the same time.
 */
import { availableParallelism } from 'node:os'
import { createSemaphore, type Semaphore } from '../../concurrency/semaphore.ts'
import { limitReached } from '../../errors/limits.ts'
import { type Ending, endSoon, startProcess, unusable } from './child-process.ts'
import { type GitConfig, gitEnvironment } from './environment.ts'
import { GitFailed, GitOutputTooLarge, GitTookTooLong, GitTooSlow, GitUnavailable } from './errors.ts'

const MEGABYTE = 1024 * 1024
const DEFAULT_MAX_OUTPUT = 64 * MEGABYTE
const DEFAULT_TIMEOUT = 120_000

/**
 * Commands and queries have separate queues, so that queries do not delay a merge. One repository can take neither all
 * slots of a queue nor all its places for waiting.
 */
const slotsOf = (name: 'git_commands' | 'git_queries', size: number, waiting: number) =>
  createSemaphore({ name, size, share: Math.max(1, size - 1), waiting, waitingShare: waiting / 2 })
const QUEUES = {
  command: slotsOf('git_commands', Math.max(4, 2 * availableParallelism()), 4096),
  query: slotsOf('git_queries', Math.max(2, availableParallelism()), 256),
}

/** The slots of each queue, for metrics. */
export const queueSlots: Readonly<Record<'command' | 'query', Pick<Semaphore, 'size' | 'counts'>>> = QUEUES

const commandEnvironment = gitEnvironment()

export interface GitOptions {
  /** Absolute path of the bare repository; unset for commands without a repository. */
  dir?: string
  input?: string | Uint8Array
  /** Settings for this command, which override the defaults. */
  config?: GitConfig
  env?: Readonly<Record<string, string>>
  /** Maximum standard output in bytes, default 64 MB. More ends the command with `GitOutputTooLarge`. */
  maxOutput?: number
  /** Consumes the output as a stream. Then nothing is buffered, and `maxOutput` does not apply. */
  onOutput?: (chunk: Buffer) => void
  /** The queue: `command` for changes (default), or `query`. `held`: the caller has a slot already. */
  queue?: keyof typeof QUEUES | 'held'
  /** Time limit in milliseconds, default 120,000. More ends a command with `GitUnavailable`, a query with `GitTooSlow`. */
  timeout?: number
  signal?: AbortSignal | undefined
}

export interface GitResult extends Ending {
  code: number
  /** Empty with `onOutput`. */
  stdout: Buffer
}

/**
 * Runs one git command. Resolves with its exit code, also when the code is not 0.
 * @throws GitOutputTooLarge, GitTooSlow, GitUnavailable, RepositoryMissing, SlotsFull, or the signal's reason
 */
export async function git(args: readonly string[], options: GitOptions = {}): Promise<GitResult> {
  const result = await run('git', args, options)
  const problem = result.code === 0 ? undefined : await unusable(result, options.dir)
  if (problem !== undefined) throw problem
  return result
}

/**
 * Runs `ssh-keygen`, which makes and checks signatures. Resolves with its exit code, also when the code is not 0.
 * It has no agent and no terminal, so it can't ask for a passphrase.
 * @throws GitOutputTooLarge, GitUnavailable
 */
export async function sshKeygen(args: readonly string[], options: GitOptions = {}): Promise<GitResult> {
  return await run('ssh-keygen', args, { timeout: 20_000, ...options })
}

/**
 * Runs one git command and returns its standard output. Any exit code but 0 is an error.
 * @throws GitFailed, and the errors of `git`
 */
export async function gitOutput(args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
  const { code, stdout, stderr } = await git(args, options)
  if (code !== 0) throw new GitFailed(args, code, stderr)
  return stdout
}

/**
 * Runs one git command and returns the lines of its standard output. Any exit code but 0 is an error.
 * @throws GitFailed, and the errors of `git`
 */
export async function gitLines(args: readonly string[], options: GitOptions): Promise<string[]> {
  const text = (await gitOutput(args, options)).toString('utf8')
  return text.split('\n').filter((line) => line !== '')
}

async function run(program: string, args: readonly string[], options: GitOptions): Promise<GitResult> {
  const { queue = 'command', dir = '' } = options
  const release = queue === 'held' ? undefined : await QUEUES[queue].take(dir, options.signal)
  try {
    return await runNow(program, args, options)
  } finally {
    release?.()
  }
}

async function runNow(program: string, args: readonly string[], options: GitOptions): Promise<GitResult> {
  const {
    queue = 'command',
    dir,
    input,
    config,
    env,
    maxOutput = DEFAULT_MAX_OUTPUT,
    onOutput,
    signal,
  } = options
  signal?.throwIfAborted()
  const base = config === undefined ? commandEnvironment : gitEnvironment(config)
  const child = await startProcess(
    program,
    args,
    { ...base, ...(dir === undefined ? {} : { GIT_DIR: dir }), ...env },
    { givesWay: queue !== 'command' },
  )
  const chunks: Buffer[] = []
  let size = 0
  let failure: { reason: unknown } | undefined

  const stop = (reason: unknown) => {
    if (failure !== undefined) return
    failure = { reason }
    endSoon(child)
    child.stdout.destroy()
  }
  const aborted = () => stop(signal?.reason)
  if (signal?.aborted) aborted()
  else signal?.addEventListener('abort', aborted, { once: true })
  const timeout = options.timeout ?? DEFAULT_TIMEOUT
  const timer = setTimeout(() => {
    limitReached('git_time')
    const message = `${program} ${args[0]} took more than ${timeout} ms`
    stop(queue === 'command' ? new GitTookTooLong(message) : new GitTooSlow(message))
  }, timeout)

  child.stdout.on('data', (chunk: Buffer) => {
    if (failure !== undefined) return
    try {
      if (onOutput !== undefined) return onOutput(chunk)
    } catch (error) {
      return stop(error)
    }
    size += chunk.length
    if (size > maxOutput) {
      limitReached('git_output_bytes')
      stop(new GitOutputTooLarge(`${program} ${args[0]} gave more than ${maxOutput} bytes`))
    } else chunks.push(chunk)
  })
  if (input !== undefined) child.stdin.write(input)
  child.stdin.end()
  const { code, signal: killedBy } = await child.ended
  clearTimeout(timer)
  signal?.removeEventListener('abort', aborted)
  if (failure !== undefined) throw failure.reason
  if (code === null) throw new GitUnavailable(`${program} ${args[0]} was ended by ${killedBy}`)
  return { code, stdout: Buffer.concat(chunks), stderr: child.stderr() }
}
