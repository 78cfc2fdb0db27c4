/** Which files differ between two commits. */
import { remembering } from './answers.ts'
import { type ChangedFile, type DiffBounds, readDiff } from './diff-reader.ts'
import { GitFailed } from './errors.ts'
import { checkedId } from './names.ts'
import { git } from './run.ts'

const WHITESPACE = {
  'ignore-all': ['--ignore-all-space'],
  'ignore-change': ['--ignore-space-change'],
  'ignore-eol': ['--ignore-space-at-eol'],
  'show-all': [],
} as const satisfies Record<string, readonly string[]>

/** What of a changed line does not count as a change. */
export type Whitespace = keyof typeof WHITESPACE

export function isWhitespace(name: string | undefined): name is Whitespace {
  return name !== undefined && Object.hasOwn(WHITESPACE, name)
}

export interface ChangedFilesOptions {
  whitespace: Whitespace
  /** The file that the list begins with; empty: the first one. A file that did not change begins no list. */
  skipTo: string
  bounds: DiffBounds
}

const lists = remembering<ChangedFile[]>(64 * 1024 * 1024, (files) =>
  files.reduce(
    (size, { name, previousName = '' }) => size + 200 + 2 * (name.length + previousName.length),
    0,
  ),
)

/**
 * The files that differ, in git's order, renamed ones as one. A file where only whitespace differs is left
 * out when that is ignored. The list and its counts end at the bounds; git is ended once they are met.
 *
 * @throws GitFailed when a commit, or what belongs to it, is not there
 */
export async function changedFiles(
  dir: string,
  from: string,
  to: string,
  options: ChangedFilesOptions,
): Promise<readonly ChangedFile[]> {
  const { whitespace, skipTo, bounds } = options
  checkedId(from)
  checkedId(to)
  // No file has such a name, and no process could be asked for it.
  if (skipTo.includes('\0')) return []
  const key = [dir, from, to, whitespace, ...Object.values(bounds), skipTo].join('\0')
  return await lists(key, () => listFiles(dir, from, to, options))
}

async function listFiles(
  dir: string,
  from: string,
  to: string,
  { whitespace, skipTo, bounds }: ChangedFilesOptions,
): Promise<ChangedFile[]> {
  const reader = readDiff(bounds)
  const enough = new AbortController()
  const args = [
    ...['diff-tree', '-r', '-M', '-p', '-U0', '--no-color', '--no-ext-diff', '--no-textconv'],
    ...['--src-prefix=a/', '--dst-prefix=b/'],
    ...WHITESPACE[whitespace],
    ...(skipTo === '' ? [] : [`--skip-to=${skipTo}`]),
    ...[from, to, '--'],
  ]
  const onOutput = (chunk: Buffer) => {
    reader.take(chunk)
    if (reader.isFull()) enough.abort()
  }
  try {
    const { code, stderr } = await git(args, { dir, onOutput, signal: enough.signal })
    if (skipTo !== '' && /^fatal: No such path /.test(stderr)) return []
    if (code !== 0) throw new GitFailed(args, code, stderr)
  } catch (error) {
    if (!enough.signal.aborted) throw error
  }
  return reader.files()
}
