/** Finds the refs that have commits which a branch has just gained. */
import { falseIfGitFailed } from '../process/errors.ts'
import { gitLines } from '../process/run.ts'
import { checkedId, checkedRef } from '../refs/names.ts'
import { isAncestor } from './history.ts'
import { nearRange } from './near-history.ts'

/** Maximum number of gained commits to examine. */
const MAX_GAINED = 10_000
const MAX_FIRST = 100

/**
 * Returns the full names of the refs below `prefix` (`refs/pull/`) that have some of the commits that a branch gained
 * when it moved from `from` to `to`. Undefined when any ref may have some: the branch was rewritten, gained too many
 * commits, or git no longer has `from`.
 */
export async function refsWithGainedCommits(
  dir: string,
  from: string,
  to: string,
  prefix: string,
): Promise<Set<string> | undefined> {
  checkedRef(`${prefix}x/y`)
  // A rewritten branch may have left `from` to be pruned. A retry would not bring it back.
  if (!(await isAncestor(dir, from, to).catch(falseIfGitFailed))) return undefined
  const first = await firstGained(dir, from, to)
  if (first === undefined || first.length > MAX_FIRST) return undefined
  if (first.length === 0) return new Set()
  const contains = first.map((id) => `--contains=${id}`)
  return new Set(await gitLines(['for-each-ref', '--format=%(refname)', ...contains, '--', prefix], { dir }))
}

/**
 * The first gained commits, whose parents are not gained. A ref with any gained commit has one of these too.
 * Undefined when too many commits are gained.
 */
async function firstGained(dir: string, from: string, to: string): Promise<string[] | undefined> {
  const near = await nearRange(dir, from, to)
  if (near !== undefined) return near.slice(-1)
  const range = [checkedId(to), `^${checkedId(from)}`, '--']
  const lines = await gitLines(['rev-list', '--parents', `--max-count=${MAX_GAINED + 1}`, ...range], { dir })
  if (lines.length > MAX_GAINED) return undefined
  const gained = new Map(lines.map((line) => [line.slice(0, 40), line.slice(41).split(' ')]))
  return [...gained].filter(([, parents]) => !parents.some((parent) => gained.has(parent))).map(([id]) => id)
}
