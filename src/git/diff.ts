/** What differs between two commits, as text for `git apply` or `git am`. */
import { Readable } from 'node:stream'
import { LRUCache } from 'lru-cache'
import { throwIfUnusable } from './child-process.ts'
import { GitFailed, GitUnavailable } from './errors.ts'
import { checkedId } from './names.ts'
import { watchStillness } from './request-body.ts'
import { startTransfer } from './transfer.ts'

export type DiffKind = 'diff' | 'patch'

export interface DiffTextOptions {
  /** A `diff` is one for all, for `git apply`; a `patch` one mail for each commit that is no merge, for `git am`. */
  kind: DiffKind
  /** Whether a diff holds the content of binary files; a patch always does. */
  binary: boolean
  /** Ends it all. */
  signal?: AbortSignal | undefined
}

/** What is no larger is held whole, and kept. */
const MAX_HELD = 1024 * 1024

const small = new LRUCache<string, Buffer>({
  maxSize: 64 * MAX_HELD,
  sizeCalculation: (text) => 200 + text.length,
})

// Ids in full: how short they can be depends on what else is in the repository.
const COMMON = ['--full-index', '--no-color', '--no-ext-diff', '--no-textconv'] as const

/**
 * The difference from `from`, which must be an ancestor, to `to`: whole when it has no more than a megabyte,
 * and from memory the second time; else as it comes from git, which is ended when the stream is destroyed,
 * when `signal` says so, or when nobody reads for ten minutes. A stream that git breaks off ends in an error.
 *
 * @throws GitFailed when a commit, or what belongs to it, is not there; RepositoryMissing, GitUnavailable
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
  const stillness = watchStillness(stop)
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  const end = () => {
    stillness.end()
    signal?.removeEventListener('abort', stop)
    stop()
  }

  async function* output(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of transfer.stdout) {
        stillness.moved()
        yield chunk
      }
    } catch (error) {
      signal?.throwIfAborted()
      throw new GitUnavailable('git was ended before it had said all', { cause: error })
    }
    const { code, stderr } = await transfer.ended
    if (code === 0) return
    throwIfUnusable(stderr, dir)
    if (code === null) throw new GitUnavailable(`git ${args[0]} was ended by a signal`)
    throw new GitFailed(args, code, stderr)
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
