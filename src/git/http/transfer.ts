/** Starts a git process that streams to and from a client on the network. */
import { endSoon, startProcess } from '../process/child-process.ts'
import { type GitConfig, gitEnvironment } from '../process/environment.ts'
import { standardShare, type TransferShare } from '../process/limits.ts'

export interface TransferOptions {
  /** The client's `Git-Protocol` header; only `version=0`, `1` and `2` are passed on. */
  protocol?: string | undefined
  /** Ends the transfer. */
  signal?: AbortSignal | undefined
  /** Adds a fourth stream, for requests of the hook to this server: see `push-hook.ts`. */
  asks?: boolean
  /** Keeps unread output after the process has ended: see `startProcess`. */
  keepsOutput?: boolean
  /** The client's share of the server's resources. */
  share?: TransferShare
}

export type Transfer = Awaited<ReturnType<typeof startTransfer>>

/** Starts `git ARGS`. Waits for a slot first. @throws SlotsFull, GitUnavailable */
export async function startTransfer(
  args: readonly string[],
  options: TransferOptions & { config: GitConfig; env?: Record<string, string> },
) {
  const { slots, client } = options.share ?? standardShare
  const release = await slots.take(client, options.signal)
  return await startTransferNow(args, { ...options, release })
}

/** Starts `git ARGS` in a slot that the caller has taken. `release` is called once, when the process has ended. */
export async function startTransferNow(
  args: readonly string[],
  {
    protocol,
    asks = false,
    keepsOutput = false,
    config,
    env = {},
    release,
  }: TransferOptions & { config: GitConfig; env?: Record<string, string>; release: () => void },
) {
  try {
    const version = protocol?.split(':').findLast((token) => /^version=[012]$/.test(token))
    const more = version === undefined ? env : { ...env, GIT_PROTOCOL: version }
    const child = await startProcess('git', args, gitEnvironment(config, more), {
      channel: asks,
      givesWay: true,
      keepsOutput,
    })
    const { pid, stdin, stdout, channel } = child
    let isStopped = false
    const ended = child.ended.then((exit) => {
      release()
      return { ...exit, stderr: child.stderr() }
    })
    return {
      pid,
      stdin,
      stdout,
      /** The fourth stream, both ways. */
      channel,
      /** Resolves when the process has ended and its output has been read. `code` is null after a signal. */
      ended,
      /** Ends the process and its helper processes. Does nothing when it has ended. */
      stop() {
        stdin.destroy()
        stdout.destroy()
        if (isStopped) return
        isStopped = true
        endSoon(child)
      },
    }
  } catch (error) {
    release()
    throw error
  }
}
