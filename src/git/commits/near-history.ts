/** Finds the relation of two commits that are only a few steps apart, without a git process. */

import { objectReaders } from '../objects/object-readers.ts'
import { commitFacts } from './commits.ts'

/** Maximum steps on each side. Beyond them, one git process is faster than single reads. */
const MAX_STEPS = 8

/**
 * Returns the commits that `to` has and `from` lacks, newest first. Undefined when they are too many or one is a merge:
 * then the caller uses git.
 */
export async function nearRange(dir: string, from: string, to: string): Promise<string[] | undefined> {
  const base = await nearMergeBase(dir, from, to)
  if (base === undefined) return undefined
  const range: string[] = []
  for (let sha = to; sha !== base; ) {
    if (range.length === MAX_STEPS) return undefined
    const { parents = [] } = (await commitFacts(dir, [sha])).get(sha) ?? {}
    const [parent, ...others] = parents
    if (parent === undefined || others.length > 0) return undefined
    range.push(sha)
    sha = parent
  }
  return range
}

/** A commit and its ancestors, as long as each has one parent. `next` is the next ancestor to read. */
interface Lineage {
  start: string
  seen: Set<string>
  next: string | undefined
}

/**
 * Returns the best common ancestor of two commits, if one of them is that ancestor, or all commits between it and the two
 * have one parent. Undefined when it isn't found within a few steps, or a commit is missing: then the caller uses git.
 * @throws InvalidGitArgument, RepositoryMissing, GitUnavailable
 */
export async function nearMergeBase(dir: string, a: string, b: string): Promise<string | undefined> {
  // The commits may be cached although they no longer exist. Then git must give its error.
  const headers = await objectReaders.headers(dir, [a, b])
  if (headers.some((header) => header?.type !== 'commit')) return undefined
  const left: Lineage = { start: a, seen: new Set(), next: a }
  const right: Lineage = { start: b, seen: new Set(), next: b }
  for (let i = 0; i < MAX_STEPS; i++) {
    const unread = [left.next, right.next].filter((sha) => sha !== undefined)
    if (unread.length === 0) return undefined
    const facts = await commitFacts(dir, unread)
    if (unread.some((sha) => !facts.has(sha))) return undefined
    for (const [line, other] of [
      [left, right],
      [right, left],
    ] as const) {
      if (line.next === undefined) continue
      line.seen.add(line.next)
      // All its ancestors are common too; its descendants are not.
      if (other.seen.has(line.next)) return line.next
      const { parents = [] } = facts.get(line.next) ?? {}
      // The other commit is a parent of this one, so it is the common ancestor.
      if (parents.includes(other.start)) return other.start
      line.next = parents.length === 1 ? parents[0] : undefined
    }
  }
  return undefined
}
