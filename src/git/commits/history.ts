/** Relations between commits. The answers depend only on commit ids, so they are cached without expiry. */

import { countDifference } from '../diff/diff-stat.ts'
import { createAnswerCache } from '../process/answer-cache.ts'
import { GitFailed } from '../process/errors.ts'
import { git } from '../process/run.ts'
import { checkedId } from '../refs/names.ts'
import { nearMergeBase } from './near-history.ts'

/** Caches the results of a function of two commits. */
function cached<T>(compute: (dir: string, a: string, b: string) => Promise<T>) {
  const answers = createAnswerCache<{ value: T }>(20_000, () => 1)
  return async (dir: string, a: string, b: string): Promise<T> => {
    const key = `${dir}\0${checkedId(a)}\0${checkedId(b)}`
    return (await answers(key, async () => ({ value: await compute(dir, a, b) }))).value
  }
}

/** Returns the best common ancestor of two commits; undefined for unrelated histories. */
export const mergeBase = cached(async (dir, a, b): Promise<string | undefined> => {
  const near = await nearMergeBase(dir, a, b)
  if (near !== undefined) return near
  const args = ['merge-base', a, b]
  const { code, stdout, stderr } = await git(args, { dir })
  if (code === 0) return stdout.toString('latin1').trim()
  if (code === 1 && stderr === '') return undefined
  throw new GitFailed(args, code, stderr)
})

/** Whether `ancestor` is an ancestor of `descendant`, or the same commit. */
export async function isAncestor(dir: string, ancestor: string, descendant: string): Promise<boolean> {
  return (await mergeBase(dir, ancestor, descendant)) === ancestor
}

/**
 * Counts the lines and files that differ between two commits or trees. A renamed file counts once; binary files
 * have no lines.
 */
export const diffStat = cached(countDifference)
