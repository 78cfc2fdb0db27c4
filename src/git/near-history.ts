/** How two commits relate when that shows within a few steps: without a process. */
import { commitFacts } from './commits.ts'
import { objectReaders } from './object-readers.ts'

/** A process is faster than reading more commits than this of each side one after the other. */
const MAX_STEPS = 8

/**
 * The commits that `to` has and `from` has not, newest first, when they are few and each has one parent. Undefined
 * when that does not show soon.
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

/** A commit and its ancestors, as long as each has one parent; `next` is where the way goes on. */
interface Line {
  start: string
  seen: Set<string>
  next: string | undefined
}

/**
 * The best common ancestor of two commits, when only commits with one parent lie between it and both of them, or
 * when one of them is it. Undefined when that does not show soon, also when there is none, or a commit is missing.
 *
 * @throws InvalidGitArgument, RepositoryMissing, GitUnavailable
 */
export async function nearMergeBase(dir: string, a: string, b: string): Promise<string | undefined> {
  // What is said of them may be in memory only; who is not there any more gets git's error.
  const headers = await objectReaders.headers(dir, [a, b])
  if (headers.some((header) => header?.type !== 'commit')) return undefined
  const left: Line = { start: a, seen: new Set(), next: a }
  const right: Line = { start: b, seen: new Set(), next: b }
  for (let i = 0; i < MAX_STEPS; i++) {
    const asked = [left.next, right.next].filter((sha) => sha !== undefined)
    if (asked.length === 0) return undefined
    const facts = await commitFacts(dir, asked)
    if (asked.some((sha) => !facts.has(sha))) return undefined
    for (const [line, other] of [
      [left, right],
      [right, left],
    ] as const) {
      if (line.next === undefined) continue
      line.seen.add(line.next)
      // All that is before it is common too, and nothing after it is.
      if (other.seen.has(line.next)) return line.next
      const { parents = [] } = facts.get(line.next) ?? {}
      // An ancestor of the other commit, by whatever way.
      if (parents.includes(other.start)) return other.start
      line.next = parents.length === 1 ? parents[0] : undefined
    }
  }
  return undefined
}
