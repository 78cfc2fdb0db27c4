/** Finds the lines of a diff to show above a review comment. */

import type { GitSlot } from '../process/limits.ts'
import { type HunkStart, readHunks } from './file-hunks.ts'

/** A line of one side of a difference. */
export interface DiffLine {
  path: string
  side: 'new' | 'old'
  line: number
}

/** Lines of context: the commented line and those before it, as in Gitea. */
const SHOWN_LINES = 4
const CONTEXT = 3
/** Time limit in milliseconds: a command waits for the result. */
const MAX_MS = 10_000

/**
 * Returns the part of the diff between two commits that ends with each of these lines, with its own `@@` line; empty for a
 * line outside the diff. In the order of the lines.
 * @throws GitFailed for a missing commit, and the errors of `git`
 */
export async function lineHunks(
  dir: string,
  commits: { from: string; to: string },
  lines: readonly DiffLine[],
  slot: GitSlot,
): Promise<string[]> {
  const found: string[] = lines.map(() => '')
  if (lines.length === 0) return found
  const byPath = new Map<string, (DiffLine & { i: number })[]>()
  for (const [i, line] of lines.entries()) {
    const known = byPath.get(line.path)
    if (known === undefined) byPath.set(line.path, [{ ...line, i }])
    else known.push({ ...line, i })
  }
  let wanted: (DiffLine & { i: number })[] = []
  let at = { new: 0, old: 0 }
  let last: { text: string; new: number; old: number }[] = []
  const begin = (path: string, { oldStart, newStart }: HunkStart) => {
    wanted = byPath.get(path) ?? []
    at = { new: newStart, old: oldStart }
    last = []
  }
  const take = (text: string) => {
    const isNew = text.startsWith('+')
    const isOld = text.startsWith('-')
    if (!isNew && !isOld && !text.startsWith(' ')) return
    last.push({ text, ...at })
    if (last.length > SHOWN_LINES) last.shift()
    for (const { side, line, i } of wanted) {
      const isOnSide = side === 'new' ? !isOld : !isNew
      if (isOnSide && at[side] === line) found[i] = written(last)
    }
    if (!isOld) at.new += 1
    if (!isNew) at.old += 1
  }
  const range = { ...commits, paths: [...byPath.keys()], context: CONTEXT }
  const timeout = Math.min(slot.timeout ?? MAX_MS, MAX_MS)
  await readHunks(dir, range, { ...slot, timeout }, { hunk: begin, line: take })
  return found
}

function written(lines: readonly { text: string; new: number; old: number }[]): string {
  const first = lines[0]
  if (first === undefined) return ''
  const olds = lines.filter(({ text }) => !text.startsWith('+')).length
  const news = lines.filter(({ text }) => !text.startsWith('-')).length
  const header = `@@ -${first.old},${olds} +${first.new},${news} @@`
  return [header, ...lines.map(({ text }) => text)].join('\n')
}
