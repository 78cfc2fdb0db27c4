/** Lists the files that differ between two commits. */

import { hasRawBytes } from '../objects/byte-names.ts'
import { createAnswerCache } from '../process/answer-cache.ts'
import { GitFailed } from '../process/errors.ts'
import type { GitSlot } from '../process/limits.ts'
import { rememberingFailure } from '../process/remembered-failures.ts'
import { git } from '../process/run.ts'
import { checkedId } from '../refs/names.ts'
import { type ChangedFile, type DiffBounds, readDiff } from './diff-reader.ts'

const WHITESPACE = {
  'ignore-all': ['--ignore-all-space'],
  'ignore-change': ['--ignore-space-change'],
  'ignore-eol': ['--ignore-space-at-eol'],
  'show-all': [],
} as const satisfies Record<string, readonly string[]>

/** Differences in whitespace that do not count as a change. */
export type Whitespace = keyof typeof WHITESPACE

export function isWhitespace(name: string | undefined): name is Whitespace {
  return name !== undefined && Object.hasOwn(WHITESPACE, name)
}

export interface ChangedFilesOptions {
  whitespace: Whitespace
  /** Name of the first listed file; empty for all files. The list is empty when this file did not change. */
  skipTo: string
  bounds: DiffBounds
  /** Runs git in a slot, with a time limit. Called only on a cache miss. */
  ask?: <T>(signal: AbortSignal, answer: (slot: GitSlot) => Promise<T>) => Promise<T>
  /** Aborts git, unless another caller waits for the same list. */
  signal?: AbortSignal
}

const lists = createAnswerCache<ChangedFile[]>(64 * 1024 * 1024, (files) =>
  files.reduce(
    (size, { name, previousName = '' }) => size + 200 + 2 * (name.length + previousName.length),
    0,
  ),
)

/**
 * Returns the changed files, in git's order. A renamed file is one entry. Files that only differ in ignored whitespace are
 * left out. The list and its counts stop at the bounds; git is then ended.
 * @throws GitFailed when a commit or one of its objects is missing; GitTooSlow or GitOutputTooLarge, for repeated queries
 * from a cache; the error of `ask`
 */
export async function changedFiles(
  dir: string,
  from: string,
  to: string,
  options: ChangedFilesOptions,
): Promise<readonly ChangedFile[]> {
  const { whitespace, skipTo, bounds, signal, ask = (_, answer) => answer({ queue: 'query' }) } = options
  checkedId(from)
  checkedId(to)
  // No file name contains NUL, and no argument of a process can.
  if (skipTo.includes('\0')) return []
  const key = [dir, from, to, whitespace, ...Object.values(bounds), skipTo].join('\0')
  // Without `skipTo`: a client can invent any number of names.
  const work = [dir, from, to, whitespace].join('\0')
  return await lists(
    key,
    (unwanted) =>
      rememberingFailure(work, () => ask(unwanted, (slot) => listFiles(dir, from, to, { ...options, slot }))),
    signal,
  )
}

async function listFiles(
  dir: string,
  from: string,
  to: string,
  { whitespace, skipTo, bounds, slot }: ChangedFilesOptions & { slot: GitSlot },
): Promise<ChangedFile[]> {
  const reader = readDiff(bounds)
  const enough = new AbortController()
  const signal = slot.signal ? AbortSignal.any([enough.signal, slot.signal]) : enough.signal
  const args = [
    ...['diff-tree', '-r', '-M', '-p', '-U0', '--no-color', '--no-ext-diff', '--no-textconv'],
    ...['--src-prefix=a/', '--dst-prefix=b/'],
    ...WHITESPACE[whitespace],
    ...(skipTo === '' || hasRawBytes(skipTo) ? [] : [`--skip-to=${skipTo}`]),
    ...[from, to, '--'],
  ]
  const onOutput = (chunk: Buffer) => {
    reader.take(chunk)
    if (reader.isFull()) enough.abort()
  }
  try {
    const { code, stderr } = await git(args, { ...slot, dir, onOutput, signal })
    if (skipTo !== '' && /^fatal: No such path /.test(stderr)) return []
    if (code !== 0) throw new GitFailed(args, code, stderr)
  } catch (error) {
    if (!enough.signal.aborted) throw error
  }
  const files = reader.files()
  if (!hasRawBytes(skipTo)) return files
  const first = files.findIndex(({ name }) => name === skipTo)
  return first === -1 ? [] : files.slice(first)
}
