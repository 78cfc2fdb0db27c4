/** Maps lines of a commit to lines of another one. Cached, because it depends only on commit ids. */
import { createAnswerCache } from '../process/answer-cache.ts'
import type { GitSlot } from '../process/limits.ts'
import { type HunkStart, readHunks } from './file-hunks.ts'

/** The changed parts of files, by path. A file that did not change is missing. */
export interface FileMoves {
  hunks: ReadonlyMap<string, readonly HunkStart[]>
  /** False when the diff exceeded the limits: then missing files are unknown. */
  complete: boolean
}

const moves = createAnswerCache<FileMoves>(200_000, ({ hunks }) =>
  hunks.values().reduce((size, ofFile) => size + 1 + ofFile.length, 1),
)

/**
 * Returns the changes of these files from one commit to another.
 * @throws GitFailed for a missing commit, and the errors of `git` and `ask`
 */
export function fileMoves(
  dir: string,
  { from, to, paths }: { from: string; to: string; paths: readonly string[] },
  ask: <T>(signal: AbortSignal, answer: (slot: GitSlot) => Promise<T>) => Promise<T>,
  signal: AbortSignal,
): Promise<FileMoves> {
  const sorted = [...new Set(paths)].sort()
  const read = async (slot: GitSlot): Promise<FileMoves> => {
    const hunks = new Map<string, HunkStart[]>()
    const complete = await readHunks(dir, { from, to, paths: sorted, context: 0 }, slot, {
      hunk(path, start) {
        const known = hunks.get(path)
        if (known === undefined) hunks.set(path, [start])
        else known.push(start)
      },
    })
    return { hunks, complete }
  }
  const key = [dir, from, to, ...sorted].join('\0')
  return moves(key, (unwanted) => ask(unwanted, read), signal)
}

/** The number that a line has after these changes, from 1; undefined when it was changed or removed. */
export function movedLine(hunks: readonly HunkStart[], line: number): number | undefined {
  let shift = 0
  for (const { oldStart, oldCount, newCount } of hunks) {
    // A hunk that only adds lines stands after the line that it names.
    const first = oldCount === 0 ? oldStart + 1 : oldStart
    if (line < first) break
    if (line < first + oldCount) return undefined
    shift += newCount - oldCount
  }
  return line + shift
}
