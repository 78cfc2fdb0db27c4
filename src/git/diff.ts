/** The difference between two commits as text, for `git apply` or `git am`. */
import { Readable } from 'node:stream'
import { LRUCache } from 'lru-cache'
import { failureOf } from './child-process.ts'
import { GitUnavailable } from './errors.ts'
import { checkedId } from './names.ts'
import { startStallTimer } from './request-body.ts'
import { startTransfer } from './transfer.ts'

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
 * The difference between `from`, which must be an ancestor, and `to`. A text of at most one megabyte comes as a
 * buffer, and from a cache the next time. A larger text comes as a stream. git is ended when the stream is
 * destroyed, when `signal` is aborted, or when nobody reads the stream for ten minutes. The stream ends in an
 * error when git breaks off.
 *
 * @throws GitFailed when a commit, or an object of it, does not exist; RepositoryMissing, GitUnavailable
 */
export async function diffText(
  dir: string,
  from: string,
  to: string,
  { kind, binary, signal }: DiffTextOptions,
): Promise<Buffer | Readable> {
  checkedId(from)
  checkedId(to)
  const args =
    kind === 'patch'
      ? ['format-patch', '--stdout', '--binary', ...COMMON, `${from}..${to}`, '--']
      : ['diff-tree', '-r', '-M', '-p', ...(binary ? ['--binary'] : []), ...COMMON, from, to, '--']
  const key = [dir, ...args].join('\0')
  const before = small.get(key)
  if (before !== undefined) return before

  const transfer = await startTransfer([`--git-dir=${dir}`, ...args], { config: [], signal })
  const stop = () => transfer.stop()
  const stallTimer = startStallTimer(stop)
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  const end = () => {
    stallTimer.stop()
    signal?.removeEventListener('abort', stop)
    stop()
  }

  async function* output(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of transfer.stdout) {
        stallTimer.restart()
        yield chunk
      }
    } catch (error) {
      signal?.throwIfAborted()
      throw new GitUnavailable('git was ended before its output was complete', { cause: error })
    }
    const ending = await transfer.ended
    if (ending.code !== 0) throw failureOf(args, ending, dir)
  }

  try {
    transfer.stdin.end()
    const rest = output()
    const held: Buffer[] = []
    for (let size = 0; size <= MAX_HELD; ) {
      const { done, value } = await rest.next()
      if (done) {
        const text = Buffer.concat(held)
        small.set(key, text)
        end()
        return text
      }
      held.push(value)
      size += value.length
    }
    return Readable.from(following(held, rest)).once('close', end)
  } catch (error) {
    end()
    throw error
  }
}

async function* following(first: Buffer[], rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield* first.splice(0)
  yield* rest
}
