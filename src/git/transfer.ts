/** Starts a git process that streams to and from a client on the network. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { createSlots } from '../turns.ts'
import { cannotStart, collectStderr, signalGroup } from './child-process.ts'
import { type GitConfig, gitEnvironment } from './environment.ts'

/** Clones, fetches and pushes last as long as their client is slow, so they don't share slots with commands. */
const transferSlots = createSlots(Math.max(16, 8 * availableParallelism()))
/** From SIGTERM to SIGKILL. */
const GRACE_MS = 5_000

export interface TransferOptions {
  /** The client's `Git-Protocol` header; only `version=0`, `1` and `2` are passed on. */
  protocol?: string | undefined
  /** Ends the transfer. */
  signal?: AbortSignal | undefined
}

export interface Transfer {
  pid: number
  stdin: ChildProcessWithoutNullStreams['stdin']
  stdout: ChildProcessWithoutNullStreams['stdout']
  /** Resolves when the process has ended and its output has been read. `code` is null when a signal ended it. */
  ended: Promise<{ code: number | null; stderr: string }>
  /** Ends the process and its helper processes. Does nothing when it has ended. */
  stop(): void
}

/** Starts `git ARGS`. Waits first while too many transfers are running. */
export async function startTransfer(
  args: readonly string[],
  {
    protocol,
    signal,
    config,
    env = {},
  }: TransferOptions & { config: GitConfig; env?: Record<string, string> },
): Promise<Transfer> {
  const release = await transferSlots.take(signal)
  try {
    const version = protocolVersion(protocol)
    const child = spawn('git', args, {
      cwd: '/',
      env: gitEnvironment(config, version === undefined ? env : { ...env, GIT_PROTOCOL: version }),
      stdio: 'pipe',
      // A group of its own, so that one signal reaches git's helpers too, and Ctrl-C does not.
      detached: true,
    })
    const stderr = collectStderr(child)
    // git may end before it has read all input. Its exit code and output tell why.
    child.stdin.on('error', () => undefined)
    const closed = once(child, 'close')
    // When the start fails, the wait below throws. `closed` rejects too, but nobody waits for it.
    closed.catch(() => undefined)
    await once(child, 'spawn').catch((error: Error) => {
      throw cannotStart(error)
    })
    const { pid } = child
    if (pid === undefined) throw cannotStart(new Error('it has no process id'))

    let hasExited = false
    let lastResort: NodeJS.Timeout | undefined
    child.once('exit', () => {
      hasExited = true
    })
    const ended = closed.then(() => {
      clearTimeout(lastResort)
      release()
      return { code: child.exitCode, stderr: stderr() }
    })
    return {
      pid,
      stdin: child.stdin,
      stdout: child.stdout,
      ended,
      stop() {
        child.stdin.destroy()
        child.stdout.destroy()
        if (hasExited) return
        signalGroup(pid, 'SIGTERM')
        lastResort ??= setTimeout(() => {
          if (!hasExited) signalGroup(pid, 'SIGKILL')
        }, GRACE_MS)
      },
    }
  } catch (error) {
    release()
    throw error
  }
}

/** The part of a `Git-Protocol` header that is passed on to git. */
function protocolVersion(header: string | undefined): string | undefined {
  return header?.split(':').findLast((token) => /^version=[012]$/.test(token))
}
