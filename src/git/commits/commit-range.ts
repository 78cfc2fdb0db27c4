/** Lists the commits between two commits, and the changes of each. */
import { LRUCache } from 'lru-cache'
import { unpooledBuffer } from '../../concurrency/unpooled-buffer.ts'
import { textOfBytes } from '../objects/byte-names.ts'
import { createAnswerCache } from '../process/answer-cache.ts'
import { type GitOptions, gitOutput } from '../process/run.ts'
import { splitAt } from '../process/split.ts'
import { checkedId } from '../refs/names.ts'
import { nearRange } from './near-history.ts'

/** Maximum number of listed commits: the newest ones. */
const MAX_COMMITS = 1_000_000
/** Length of a line of `rev-list`: 40 hexadecimal digits and a newline. */
const ID_LINE = 41

/** Options of a query's git processes. */
type ReadOptions = Pick<GitOptions, 'queue' | 'timeout' | 'signal'>

const ranges = createAnswerCache<Buffer>(128 * 1024 * 1024, (ids) => 200 + ids.length)

/**
 * Returns the commits that `git log from..to` lists: those that `to` has and `from` lacks. `total` is their number, at
 * most a million; `page` gives ids, newest first.
 * @throws GitFailed when a commit does not exist
 */
export async function commitRange(dir: string, from: string, to: string, options: ReadOptions = {}) {
  const key = `${dir}\0${checkedId(from)}\0${checkedId(to)}`
  const { queue = 'command', signal } = options
  const list = async (unwanted: AbortSignal) => {
    const near = await nearRange(dir, from, to)
    if (near !== undefined) return unpooledBuffer(Buffer.from(near.map((id) => `${id}\n`).join('')))
    const args = ['rev-list', `--max-count=${MAX_COMMITS}`, to, `^${from}`, '--']
    return unpooledBuffer(await gitOutput(args, { queue, dir, signal: unwanted }))
  }
  const ids = await ranges(key, list, signal)
  return {
    total: ids.length / ID_LINE,
    page(skip: number, limit: number): string[] {
      const text = ids.toString('latin1', skip * ID_LINE, (skip + limit) * ID_LINE)
      return text.split('\n').filter((id) => id !== '')
    },
  }
}

/**
 * Returns the newest commits that `to` has and `from` lacks, newest first, up to a limit. With `from` null: all of
 * `to`.
 * @throws GitFailed when a commit does not exist
 */
export async function newestCommits(
  dir: string,
  from: string | null,
  to: string,
  limit: number,
): Promise<string[]> {
  const near = from === null ? undefined : await nearRange(dir, from, to)
  if (near !== undefined) return near.slice(0, limit)
  const not = from === null ? [] : [`^${checkedId(from)}`]
  const args = ['rev-list', `--max-count=${limit}`, checkedId(to), ...not, '--']
  const ids = await gitOutput(args, { queue: 'command', dir })
  return ids
    .toString('latin1')
    .split('\n')
    .filter((id) => id !== '')
}

type AffectedStatus = 'added' | 'removed' | 'modified'

/** The changes of a commit since its first parent, or since an empty tree for a root commit. */
export interface CommitChanges {
  additions: number
  deletions: number
  /** In git's order. A renamed file is two entries: one removed, one added. */
  files: { name: string; status: AffectedStatus }[]
}

const known = new LRUCache<string, CommitChanges>({
  maxSize: 64 * 1024 * 1024,
  sizeCalculation: ({ files }) => files.reduce((size, { name }) => size + 100 + 2 * name.length, 200),
})

/**
 * Returns the changes of each of these commits, by id, read with one git command. Lists at most `maxFiles` files of a
 * commit, but counts all of its lines.
 * @throws GitFailed when a commit, or an object of it, does not exist
 */
export async function commitChanges(
  dir: string,
  commits: Iterable<{ sha: string; parents: readonly string[] }>,
  maxFiles: number,
  options: ReadOptions = {},
): Promise<Map<string, CommitChanges>> {
  const result = new Map<string, CommitChanges>()
  const unknown: string[] = []
  const keyOf = (sha: string) => `${dir}\0${maxFiles}\0${sha}`
  for (const { sha, parents } of commits) {
    const before = known.get(keyOf(checkedId(sha)))
    result.set(sha, before ?? { additions: 0, deletions: 0, files: [] })
    if (before === undefined) unknown.push([sha, ...parents.slice(0, 1)].join(' '))
  }
  if (unknown.length === 0) return result
  const args = ['diff-tree', '--stdin', '--root', '-r', '-M', '-z', '--raw', '--numstat']
  const onOutput = splitAt(0, changesReader(result, maxFiles))
  await gitOutput([...args, '--no-ext-diff', '--no-textconv'], {
    ...options,
    dir,
    input: `${unknown.join('\n')}\n`,
    onOutput,
  })
  for (const line of unknown) {
    const sha = line.slice(0, 40)
    const changes = result.get(sha)
    if (changes !== undefined) known.set(keyOf(sha), changes)
  }
  return result
}

/** The statuses of the names that follow a raw line with this letter. All other letters: one modified file. */
const STATUSES: Readonly<Record<string, readonly AffectedStatus[]>> = {
  A: ['added'],
  D: ['removed'],
  R: ['removed', 'added'],
}

/** Returns a function that takes the tokens of `diff-tree -z --raw --numstat` one by one and fills in `result`. */
function changesReader(
  result: ReadonlyMap<string, CommitChanges>,
  maxFiles: number,
): (token: Buffer) => void {
  let current: CommitChanges | undefined
  /** The statuses of the names that follow. */
  let names: readonly AffectedStatus[] = []
  let skipped = 0

  return (token) => {
    if (skipped > 0) {
      skipped -= 1
      return
    }
    const [status, ...others] = names
    if (status !== undefined) {
      names = others
      if (current !== undefined && current.files.length < maxFiles) {
        current.files.push({ name: textOfBytes(token), status })
      }
      return
    }
    const text = token.toString('latin1')
    if (text.startsWith(':')) {
      names = STATUSES[text.split(' ')[4]?.[0] ?? ''] ?? ['modified']
      return
    }
    const [, added, deleted, name] = /^(\d+|-)\t(\d+|-)\t(.*)$/s.exec(text) ?? []
    if (name === undefined) {
      current = result.get(text)
      return
    }
    if (current !== undefined) {
      current.additions += Number(added) || 0
      current.deletions += Number(deleted) || 0
    }
    // The two names of a renamed file follow. The raw lines gave them already.
    if (name === '') skipped = 2
  }
}
