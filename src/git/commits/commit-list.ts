/** Lists the history of a commit, completely or filtered. */
import { unpooledBuffer } from '../../concurrency/unpooled-buffer.ts'
import { pathArguments } from '../objects/byte-names.ts'
import { createAnswerCache } from '../process/answer-cache.ts'
import { type GitOptions, gitOutput } from '../process/run.ts'
import { checkedId } from '../refs/names.ts'

/** Maximum number of listed commits: the newest ones. */
const MAX_COMMITS = 1_000_000
/** Length of a line of `rev-list`: 40 hexadecimal digits and a newline. */
const ID_LINE = 41

const lists = createAnswerCache<Buffer>(128 * 1024 * 1024, (ids) => 200 + ids.length)

export interface CommitSelection {
  /** The newest commit. */
  tip: string
  /** Excludes this commit and its ancestors. */
  not?: string | undefined
  /** Only commits that change this file, or a file in this folder. */
  path?: string | undefined
  /** Earliest and latest time of the committer, in milliseconds since 1970. */
  since?: number | undefined
  until?: number | undefined
}

/**
 * Returns the commits that `git log` lists. `total` is their number, at most a million; `page` gives ids, newest first.
 * @throws GitFailed when a commit does not exist, or the path leads out of the repository
 */
export async function commitList(
  dir: string,
  { tip, not, path, since, until }: CommitSelection,
  { signal, ...options }: Pick<GitOptions, 'queue' | 'timeout' | 'signal'> = {},
) {
  const last = path === undefined ? { args: ['--'] } : pathArguments(path)
  const args = [
    // A path is a name, never a pattern.
    '--literal-pathspecs',
    ...['rev-list', `--max-count=${MAX_COMMITS}`],
    ...(since === undefined ? [] : [`--max-age=${Math.ceil(since / 1000)}`]),
    ...(until === undefined ? [] : [`--min-age=${Math.floor(until / 1000)}`]),
    checkedId(tip),
    ...(not === undefined ? [] : [`^${checkedId(not)}`]),
    ...last.args,
  ]
  const list = async (unwanted: AbortSignal) =>
    unpooledBuffer(
      await gitOutput(args, { ...options, ...(last.input && { input: last.input }), dir, signal: unwanted }),
    )
  const ids = await lists([dir, ...args, path ?? ''].join('\0'), list, signal)
  return {
    total: ids.length / ID_LINE,
    page(skip: number, limit: number): string[] {
      const text = ids.toString('latin1', skip * ID_LINE, (skip + limit) * ID_LINE)
      return text.split('\n').filter((id) => id !== '')
    },
  }
}
