/** Streams the output of a git command to a client, without buffering it. */
import { Readable } from 'node:stream'
import { ErrorWithRefusal } from '../../errors/refusal.ts'
import { startTransfer } from '../http/transfer.ts'
import { failureOf } from './child-process.ts'
import type { GitConfig } from './environment.ts'
import { GitUnavailable } from './errors.ts'
import type { TransferShare } from './limits.ts'
import { meteredOutput } from './metered-output.ts'

export interface StreamOptions {
  /** Aborts git and the stream when the client disconnects. */
  signal: AbortSignal
  /** The client's share of the server's resources. */
  share: TransferShare
  config?: GitConfig
  env?: Record<string, string>
}

export interface StreamedOutput {
  /** The first chunk, which is also in the stream; empty without output. */
  first: Buffer
  stream: Readable
}

/**
 * Starts `git ARGS` and resolves with its output when the first chunk has arrived. git is ended when the stream is
 * destroyed, when `signal` is aborted, when git works for too long, and when the client reads too slowly. The stream fails
 * when git does.
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
    // The generator may be waiting for a reader that has gone.
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
