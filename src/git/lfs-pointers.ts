/** Finds pointers to large files (git LFS) in the commits of a repository. */
import { git, gitOutput } from './run.ts'
import { splitAt } from './split.ts'

/** A pointer is a text of less than this many bytes. */
const MAX_POINTER = 1024
const POINTER =
  /version https:\/\/git-lfs\.github\.com\/spec\/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize (\d{1,15})\n/g
/** This many blobs are read together. */
const BATCH = 500
const NEWLINE = 0x0a
const TIMEOUT = 10 * 60_000

/**
 * Calls `found` with the objects that files in these commits point to: those that `to` reaches and `from` does not.
 * Constant memory, but for one batch.
 *
 * @throws the errors of git
 */
export async function eachLfsPointer(
  dir: string,
  { from, to }: { from: string; to: string },
  found: (objects: { oid: string; size: number }[]) => Promise<void>,
): Promise<void> {
  const small: string[] = []
  const onOutput = splitAt(NEWLINE, (line) => {
    small.push(line.toString('latin1'))
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
  const { code, stderr } = await git(args, { dir, onOutput, timeout: TIMEOUT })
  if (code !== 0) throw new Error(`git rev-list: ${stderr}`)
  for (let i = 0; i < small.length; i += BATCH) {
    const input = small
      .slice(i, i + BATCH)
      .map((id) => `${id}\n`)
      .join('')
    const text = (await gitOutput(['cat-file', '--batch', '--buffer'], { dir, input })).toString('latin1')
    const objects = [...text.matchAll(POINTER)].map(([, oid = '', size]) => ({ oid, size: Number(size) }))
    if (objects.length > 0) await found(objects)
  }
}
