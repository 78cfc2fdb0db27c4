/** Finds the present places of review comments in a pull request. */

import { type FileMoves, fileMoves, movedLine } from '../../git/diff/moved-lines.ts'
import { GitFailed } from '../../git/process/errors.ts'
import type { GitSlot } from '../../git/process/limits.ts'
import type { PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { ReviewCommentDocument } from '../../projections/models/reviews/review-comments.fold.ts'
import type { Place } from './reviews.ts'

type Ask = <T>(signal: AbortSignal, answer: (slot: GitSlot) => Promise<T>) => Promise<T>

/** Returns the commits between which a comment's line may have moved: heads, or merge bases for the old side. */
const commitsOf = ({ head, mergeBase }: PullDocument, { side, commit, base }: ReviewCommentDocument) =>
  side === 'new' ? { from: commit, to: head.sha } : { from: base, to: mergeBase }

/**
 * Finds the places of comments, with one git process for each pair of commits, and none for comments on the present
 * head. A line counts as gone when its commit is gone.
 *
 * @throws the errors of git and of `ask`, except GitFailed
 */
export async function placesOf(
  dir: string,
  pull: PullDocument,
  comments: readonly ReviewCommentDocument[],
  ask: Ask,
  signal: AbortSignal,
): Promise<(comment: ReviewCommentDocument) => Place> {
  const pairs = new Map<string, { from: string; to: string; paths: string[] }>()
  for (const comment of comments) {
    const { from, to } = commitsOf(pull, comment)
    if (from === to) continue
    const pair = pairs.get(`${from} ${to}`)
    if (pair === undefined) pairs.set(`${from} ${to}`, { from, to, paths: [comment.path] })
    else pair.paths.push(comment.path)
  }
  const known = new Map<string, FileMoves>()
  for (const [key, pair] of pairs) {
    const found = await fileMoves(dir, pair, ask, signal).catch((error: unknown) => {
      if (error instanceof GitFailed) return undefined
      throw error
    })
    if (found !== undefined) known.set(key, found)
  }
  return (comment) => {
    const { from, to } = commitsOf(pull, comment)
    const { line, path, side, commit } = comment
    const here = side === 'new' ? to : commit
    if (from === to || line === 0) return { line, commit: here }
    const moves = known.get(`${from} ${to}`)
    const hunks = moves?.hunks.get(path) ?? (moves?.complete ? [] : undefined)
    const moved = hunks && movedLine(hunks, line)
    return moved === undefined ? { line: undefined, commit } : { line: moved, commit: here }
  }
}
