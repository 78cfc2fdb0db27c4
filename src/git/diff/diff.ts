/** The difference between two commits as text, for `git apply` or `git am`. */
import { Readable } from 'node:stream'
import { LRUCache } from 'lru-cache'
import { unpooledBuffer } from '../../concurrency/unpooled-buffer.ts'
import { ErrorWithRefusal } from '../../errors/refusal.ts'
import { startTransfer } from '../http/transfer.ts'
import { failureOf } from '../process/child-process.ts'
import { GitUnavailable } from '../process/errors.ts'
import { standardShare, type TransferShare } from '../process/limits.ts'
import { meteredOutput } from '../process/metered-output.ts'
import { rememberFailure, rememberingFailure } from '../process/remembered-failures.ts'
import { checkedId, EMPTY_TREE } from '../refs/names.ts'

export type DiffKind = 'diff' | 'patch'

export interface DiffTextOptions {
  /**
   * `diff`: one diff of all changes, for `git apply`. `patch`: one mail for each commit that is not a merge, for
   * `git am`.
   */
  kind: DiffKind
  /** Whether a diff contains binary files. A patch always does. */
  binary: boolean
  /** Ends git and the stream. */
  signal?: AbortSignal | undefined
  /** The client's share of the server's resources. */
  share?: TransferShare
}

/** Texts up to this size are read whole and cached. */
const MAX_HELD = 1024 * 1024

const small = new LRUCache<string, Buffer>({
  maxSize: 64 * MAX_HELD,
  sizeCalculation: (text) => 200 + text.length,
})

// Full ids: the length of abbreviated ids depends on the other objects of the repository.
const COMMON = ['--full-index', '--no-color', '--no-ext-diff', '--no-textconv'] as const

/**
 * Returns the difference between `from`, which must be an ancestor (null: the empty tree), and `to`. A text of at most
 * one megabyte comes as a buffer and is cached. A larger text comes as a stream. git is ended when the stream is
 * destroyed, when `signal` is aborted, when git works for too long, or when the client reads too slowly. The stream
 * ends in an error when git breaks off.
 * @throws GitFailed when a commit, or an object of it, does not exist; RepositoryMissing, GitUnavailable, SlotsFull;
 * GitTooSlow or GitOutputTooLarge, for repeated queries from a cache
 */
export async function diffText(
  dir: string,
  from: string | null,
  to: string,
  options: DiffTextOptions,
): Promise<Buffer | Readable> {
  const { kind, binary } = options
  const range = from === null ? ['--root', checkedId(to)] : [`${checkedId(from)}..${checkedId(to)}`]
  const args =
    kind === 'patch'
      ? ['format-patch', '--stdout', '--binary', ...COMMON, ...range, '--']
      : [
          'diff-tree',
          '-r',
          '-M',
          '-p',
          ...(binary ? ['--binary'] : []),
          ...COMMON,
          from ?? EMPTY_TREE,
          to,
          '--',
        ]
  const key = [dir, ...args].join('\0')
  return small.get(key) ?? (await rememberingFailure(key, () => readDiffText(dir, args, key, options)))
}

async function readDiffText(
  dir: string,
  args: readonly string[],
  key: string,
  { signal, share = standardShare }: DiffTextOptions,
): Promise<Buffer | Readable> {
  const transfer = await startTransfer([`--git-dir=${dir}`, ...args], { config: [], signal, share })
  const stop = () => transfer.stop()
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  const rest = output()
  const end = () => {
    signal?.removeEventListener('abort', stop)
    stop()
    // The generator may be waiting for a reader that has gone.
    rest.return(undefined).catch(() => undefined)
  }

  async function* output(): AsyncGenerator<Buffer> {
    try {
      yield* meteredOutput(transfer.stdout, share, stop)
    } catch (error) {
      signal?.throwIfAborted()
      rememberFailure(key, error)
      if (error instanceof ErrorWithRefusal) throw error
      throw new GitUnavailable('git was ended before its output was complete', { cause: error })
    }
    const ending = await transfer.ended
    signal?.throwIfAborted()
    if (ending.code === 0) return
    const failure = await failureOf(args, ending, dir)
    rememberFailure(key, failure)
    throw failure
  }

  try {
    transfer.stdin.end()
    const held: Buffer[] = []
    for (let size = 0; size <= MAX_HELD; ) {
      const { done, value } = await rest.next()
      if (done) {
        const text = unpooledBuffer(Buffer.concat(held))
        small.set(key, text)
        end()
        return text
      }
      held.push(value)
      size += value.length
    }
    return Readable.from(following(held, rest), { objectMode: false }).once('close', end)
  } catch (error) {
    end()
    throw error
  }
}

async function* following(first: Buffer[], rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield* first.splice(0)
  yield* rest
}
