/** Passes the output of a git command on to a client while git makes it. Nothing of it is held. */
import { Readable } from 'node:stream'
import { ErrorWithRefusal } from '../../errors/refusal.ts'
import { startTransfer } from '../http/transfer.ts'
import { failureOf } from './child-process.ts'
import type { GitConfig } from './environment.ts'
import { GitUnavailable } from './errors.ts'
import type { TransferShare } from './limits.ts'
import { meteredOutput } from './metered-output.ts'

export interface StreamOptions {
  /** Ends git and the stream: the client is gone. */
  signal: AbortSignal
  /** What the client may take of the server. */
  share: TransferShare
  config?: GitConfig
  env?: Record<string, string>
}

export interface StreamedOutput {
  /** What has come of it already; empty when there is no output. The stream has it, too. */
  first: Buffer
  stream: Readable
}

/**
 * Starts `git ARGS` and resolves with its output when the first part of it has come. git is ended when the stream is
 * destroyed, when `signal` is aborted, when git works for too long, and when the client reads too slowly. The stream ends
 * in an error when git breaks off.
 *
 * @throws GitFailed, GitTooSlow, GitUnavailable, RepositoryMissing, SlotsFull; the signal's reason
 */
export async function streamOutput(
  dir: string,
  args: readonly string[],
  { signal, share, config = [], env = {} }: StreamOptions,
): Promise<StreamedOutput> {
  const transfer = await startTransfer([`--git-dir=${dir}`, ...args], { config, env, signal, share })
  const stop = () => transfer.stop()
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()

  async function* output(): AsyncGenerator<Buffer> {
    try {
      yield* meteredOutput(transfer.stdout, share, stop)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ErrorWithRefusal) throw error
      throw new GitUnavailable('git was ended before its output was complete', { cause: error })
    }
    const ending = await transfer.ended
    signal.throwIfAborted()
    if (ending.code !== 0) throw await failureOf(args, ending, dir)
  }

  const rest = output()
  const end = () => {
    signal.removeEventListener('abort', stop)
    stop()
    // It may wait for a reader who does not come back.
    rest.return(undefined).catch(() => undefined)
  }
  try {
    transfer.stdin.end()
    const first = await rest.next()
    async function* all() {
      if (first.done) return
      yield first.value
      yield* rest
    }
    const stream = Readable.from(all(), { objectMode: false }).once('close', end)
    return { first: first.done ? Buffer.alloc(0) : first.value, stream }
  } catch (error) {
    end()
    throw error
  }
}
