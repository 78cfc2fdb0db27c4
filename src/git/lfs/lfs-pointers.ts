/** Finds pointers to large files (git LFS) in the commits of a repository. */
import { createAnswerCache } from '../process/answer-cache.ts'
import type { GitSlot } from '../process/limits.ts'
import { type GitOptions, git, gitOutput } from '../process/run.ts'
import { splitAt } from '../process/split.ts'

/** Size below which a blob may be a pointer, in bytes. */
const MAX_POINTER = 1024
const POINTER =
  /version https:\/\/git-lfs\.github\.com\/spec\/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize (\d{1,15})\n/g
/** Batch size of blob reads. */
const BATCH = 500
const NEWLINE = 0x0a
const TIMEOUT = 10 * 60_000

interface SearchOptions extends Pick<GitOptions, 'queue' | 'timeout' | 'signal'> {
  /** Maximum number of small files to examine; default all. */
  maxFiles?: number
}

/**
 * Calls `found` with the objects that files in these commits point to: those that `to` reaches and `from` does not.
 * Constant memory, but for the ids of the small files.
 * @throws the errors of git
 */
export async function eachLfsPointer(
  dir: string,
  { from, to }: { from: string; to: string },
  found: (objects: { oid: string; size: number }[]) => Promise<void>,
  { maxFiles = Number.POSITIVE_INFINITY, ...limits }: SearchOptions = {},
): Promise<void> {
  const options = { dir, timeout: TIMEOUT, ...limits }
  const small: string[] = []
  const onOutput = splitAt(NEWLINE, (line) => {
    if (small.length < maxFiles) small.push(line.toString('latin1'))
  })
  const filter = `--filter=combine:object:type=blob+blob:limit=${MAX_POINTER}`
  const args = [
    'rev-list',
    '--objects',
    '--no-object-names',
    '--filter-provided-objects',
    filter,
    to,
    `^${from}`,
    '--',
  ]
  const { code, stderr } = await git(args, { ...options, onOutput })
  if (code !== 0) throw new Error(`git rev-list: ${stderr}`)
  for (let i = 0; i < small.length; i += BATCH) {
    const input = small
      .slice(i, i + BATCH)
      .map((id) => `${id}\n`)
      .join('')
    const text = (await gitOutput(['cat-file', '--batch', '--buffer'], { ...options, input })).toString(
      'latin1',
    )
    const objects = [...text.matchAll(POINTER)].map(([, oid = '', size]) => ({ oid, size: Number(size) }))
    if (objects.length > 0) await found(objects)
  }
}

/** Maximum number of small files to examine in a pull request: a client waits for the answer. */
const MAX_SMALL_FILES = 20_000

const pointers = createAnswerCache<ReadonlySet<string>>(200_000, ({ size }) => 1 + size)

/**
 * Returns the ids of the objects that files in these commits point to. Cached, because it depends only on the commits.
 * @throws the errors of `git` and `ask`
 */
export function lfsPointersBetween(
  dir: string,
  { from, to }: { from: string; to: string },
  ask: <T>(signal: AbortSignal, answer: (slot: GitSlot) => Promise<T>) => Promise<T>,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const read = async (slot: GitSlot) => {
    const oids = new Set<string>()
    const add = async (objects: { oid: string }[]) => {
      for (const { oid } of objects) oids.add(oid)
    }
    await eachLfsPointer(dir, { from, to }, add, { ...slot, maxFiles: MAX_SMALL_FILES })
    return oids
  }
  return pointers([dir, from, to].join('\0'), (unwanted) => ask(unwanted, read), signal)
}
