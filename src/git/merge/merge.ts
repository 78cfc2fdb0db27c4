/** Merges commits without a work tree. */

import { LRUCache } from 'lru-cache'
import { limitReached } from '../../errors/limits.ts'
import { commitFacts } from '../commits/commits.ts'
import { nearMergeBase } from '../commits/near-history.ts'
import { textOfBytes } from '../objects/byte-names.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { GitFailed, GitOutputTooLarge } from '../process/errors.ts'
import { type GitOptions, git } from '../process/run.ts'
import { splitAt } from '../process/split.ts'
import { checkedId } from '../refs/names.ts'

export type MergeResult =
  /** `tree` is the id of the merged tree, which is stored in the repository. */
  | { kind: 'clean'; tree: string }
  /** The paths of the files in conflict, sorted. */
  | { kind: 'conflicts'; files: string[] }
  /** The two commits share no history. */
  | { kind: 'unrelated' }

/** The commits of one merge. */
interface Pair {
  ours: string
  theirs: string
}

type MergeOptions = Pick<GitOptions, 'config' | 'env' | 'timeout' | 'signal'>

/**
 * Merges the commit `theirs` into the commit `ours`, as `git merge` does, and returns the merged tree. Creates no commit
 * and moves no ref.
 * @throws GitOutputTooLarge when the names of all files in conflict take more than 64 MB, and the errors of `git`
 */
export async function mergeTrees(
  dir: string,
  ours: string,
  theirs: string,
  options: MergeOptions = {},
): Promise<MergeResult> {
  const [result] = await runMerges(dir, [{ ours, theirs }], options)
  if (result === undefined || result instanceof GitFailed) throw result
  return result
}

/** Returns the tree of the descendant, if one commit is an ancestor of the other within a few steps. */
async function fastForward(dir: string, { ours, theirs }: Pair): Promise<string | undefined> {
  const base = await nearMergeBase(dir, checkedId(ours), checkedId(theirs))
  if (base !== ours && base !== theirs) return undefined
  const later = base === ours ? theirs : ours
  return (await commitFacts(dir, [later])).get(later)?.tree
}

/**
 * Merges many pairs with one process. Returns the results of `mergeTrees` in the same order; `unrelated` when a commit of a
 * pair is missing.
 * @throws the errors of `mergeTrees`
 */
export async function mergeTreesAll(
  dir: string,
  pairs: readonly Pair[],
  options: Pick<MergeOptions, 'timeout' | 'signal'> = {},
): Promise<MergeResult[]> {
  const all: MergeResult[] = []
  while (all.length < pairs.length) {
    for (const result of await runMerges(dir, pairs.slice(all.length), options)) {
      if (!(result instanceof GitFailed)) all.push(result)
      else if (result.stderr.includes('not something we can merge')) all.push({ kind: 'unrelated' })
      else throw result
    }
  }
  return all
}

/**
 * Trees of recent clean test merges. A pull request is tested when it is opened and when a branch moves, and mostly merged
 * as tested. The ttl is in milliseconds; maintenance keeps unreachable objects for longer.
 */
const trees = new LRUCache<string, string>({ max: 2000, ttl: 60 * 60_000 })
/** A merge of one repository must not become visible in another. */
const keyOf = (dir: string, { ours, theirs }: Pair) => `${dir}\0${ours}\0${theirs}`

/** Returns the tree of an earlier test merge, if the repository still has it. */
async function testedTree(dir: string, pair: Pair): Promise<string | undefined> {
  const tree = trees.get(keyOf(dir, pair))
  if (tree === undefined) return undefined
  const [header] = await objectReaders.headers(dir, [tree])
  return header?.type === 'tree' ? tree : undefined
}

const MERGE_ARGS = ['merge-tree', '--stdin', '-z', '--name-only', '--no-messages'] as const
const MAX_BYTES = 64 * 1024 * 1024
const MILLISECONDS_PER_MERGE = 5_000

/** Merges pair after pair up to the first that git can't merge. The last result has the error. */
async function runMerges(
  dir: string,
  pairs: readonly Pair[],
  options: MergeOptions,
): Promise<(MergeResult | GitFailed)[]> {
  const [only, ...others] = pairs
  if (only !== undefined && others.length === 0 && options.env === undefined) {
    const tree = (await testedTree(dir, only)) ?? (await fastForward(dir, only))
    if (tree !== undefined) return [{ kind: 'clean', tree }]
  }
  const input = pairs.map(({ ours, theirs }) => `${checkedId(ours)} ${checkedId(theirs)}\n`).join('')
  const { timeout = 120_000 + MILLISECONDS_PER_MERGE * pairs.length } = options
  const results: (MergeResult | GitFailed)[] = []
  const onOutput = readMerges((result) => results.push(result))
  const { code, stderr } = await git(MERGE_ARGS, { ...options, dir, input, timeout, onOutput })
  if (results.length < pairs.length) {
    const isUnrelated = stderr.includes('unrelated histories')
    results.push(isUnrelated ? { kind: 'unrelated' } : new GitFailed(MERGE_ARGS, code, stderr))
  }
  // Objects of another environment are not the repository's.
  if (options.env !== undefined) return results
  for (const [i, result] of results.entries()) {
    const pair = pairs[i]
    if (pair === undefined || result instanceof GitFailed || result.kind !== 'clean') continue
    trees.set(keyOf(dir, pair), result.tree)
  }
  return results
}

/**
 * Reads the output of `merge-tree --stdin -z`: for each pair `0` (conflicts) or `1` (clean), the tree, the files in
 * conflict, and an empty field.
 */
function readMerges(found: (result: MergeResult) => void): (chunk: Buffer) => void {
  // Merges into one branch often conflict in the same files, so hold each name once.
  const names = new Map<string, string>()
  let bytes = 0
  let fields: string[] = []

  const take = splitAt(0, (part) => {
    const field = textOfBytes(part)
    if (field !== '') {
      const known = names.get(field) ?? field
      if (fields.length > 1) names.set(known, known)
      fields.push(known)
      return
    }
    const [status, tree = '', ...files] = fields
    fields = []
    found(status === '1' ? { kind: 'clean', tree } : { kind: 'conflicts', files: [...new Set(files)].sort() })
  })
  return (chunk) => {
    bytes += chunk.length
    if (bytes > MAX_BYTES) {
      limitReached('git_output_bytes')
      throw new GitOutputTooLarge(`the files in conflict take more than ${MAX_BYTES} bytes`)
    }
    take(chunk)
  }
}
