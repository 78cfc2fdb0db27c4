/** Parses the output of `git diff` for some files as a stream: their hunks, and lines of them. */

import { GitFailed } from '../process/errors.ts'
import type { GitSlot } from '../process/limits.ts'
import { git } from '../process/run.ts'
import { splitAt } from '../process/split.ts'
import { checkedId } from '../refs/names.ts'
import { unquoted } from './diff-reader.ts'

/** The beginning of a hunk: `@@ -10,2 +10,3 @@`. Lines count from 1. */
export interface HunkStart {
  oldStart: number
  oldCount: number
  newStart: number
  newCount: number
}

export interface HunkReader {
  /** Called for each hunk of a file. */
  hunk(path: string, start: HunkStart): void
  /** Called for each line of the hunk, with its first character: a space, `+`, `-` or a backslash. */
  line?(text: string): void
}

const NEWLINE = 0x0a
const HEADER = 'diff --git '
const MAX_HEADER_BYTES = 64 * 1024
/** Maximum number of bytes kept of a line. */
const MAX_LINE_BYTES = 512
const FIRST_OF_HEADER = HEADER.charCodeAt(0)
/** Maximum number of bytes and of hunks read from a diff. */
const MAX_BYTES = 32 * 1024 * 1024
const MAX_HUNKS = 20_000

/**
 * Reads the differences of these files between two commits. Renamed files count as deleted and added. Stops at the limits.
 * Resolves to whether the output was read completely.
 * @throws GitFailed for a missing commit, and the errors of `git`
 */
export async function readHunks(
  dir: string,
  { from, to, paths, context }: { from: string; to: string; paths: readonly string[]; context: number },
  { queue, timeout, signal: callerSignal }: GitSlot,
  reader: HunkReader,
): Promise<boolean> {
  checkedId(from)
  checkedId(to)
  const args = [
    ...['--literal-pathspecs', 'diff-tree', '-r', '-p', `-U${context}`, '--no-renames', '--no-color'],
    ...['--no-ext-diff', '--no-textconv', '--src-prefix=a/', '--dst-prefix=b/'],
    ...[from, to, '--', ...paths],
  ]
  const enough = new AbortController()
  let path: string | undefined
  let inHunks = false
  let bytes = 0
  let hunks = 0
  const take = splitAt(
    NEWLINE,
    (part) => {
      if (inHunks && part[0] !== FIRST_OF_HEADER && part[0] !== 0x40) {
        reader.line?.(part.toString('utf8'))
        return
      }
      const line = part.toString('latin1')
      const start = path === undefined ? undefined : hunkStart(line)
      if (start !== undefined && path !== undefined) {
        inHunks = true
        hunks += 1
        reader.hunk(path, start)
      } else if (line.startsWith(HEADER)) {
        inHunks = false
        path = nameIn(line)
      }
    },
    (first) => (inHunks && first !== FIRST_OF_HEADER ? MAX_LINE_BYTES : MAX_HEADER_BYTES),
  )
  const onOutput = (chunk: Buffer) => {
    bytes += chunk.length
    take(chunk)
    if (bytes > MAX_BYTES || hunks > MAX_HUNKS) enough.abort()
  }
  const signal = callerSignal ? AbortSignal.any([enough.signal, callerSignal]) : enough.signal
  try {
    const limits = { queue, ...(timeout !== undefined && { timeout }) }
    const { code, stderr } = await git(args, { ...limits, dir, onOutput, signal })
    if (code !== 0) throw new GitFailed(args, code, stderr)
    return true
  } catch (error) {
    if (!enough.signal.aborted) throw error
    return false
  }
}

/** The name in `diff --git a/NAME b/NAME`: both are the same, because renames are off. */
function nameIn(line: string): string {
  const both = line.slice(HEADER.length)
  return unquoted(both.slice((both.length + 1) / 2)).slice('b/'.length)
}

/** The numbers of a line `@@ -1,2 +3 @@`; undefined for any other line. */
function hunkStart(line: string): HunkStart | undefined {
  const [, oldStart, oldCount = '1', newStart, newCount = '1'] =
    /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line) ?? []
  if (oldStart === undefined || newStart === undefined) return undefined
  return {
    oldStart: Number(oldStart),
    oldCount: Number(oldCount),
    newStart: Number(newStart),
    newCount: Number(newCount),
  }
}
