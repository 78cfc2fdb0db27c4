/** Creates and deletes bare repositories, each atomically. */
import { randomUUID } from 'node:crypto'
import { readdir, rename, rm, utimes } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { flush, hasCode, isAbandoned, isMissing, unlessMissing, writtenAt } from '../../storage/disk.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { gitOutput } from '../process/run.ts'
import { branchRef } from '../refs/names.ts'
import { freeLocks } from './leftovers.ts'

/** Names of a repository during its creation (`12.git.new-…`) or deletion (`12.git.gone-…`). */
const UNFINISHED = /\.(new|gone)-[0-9a-f-]{36}$/

/** Names of the repositories that this process is creating. */
const drafts = new Set<string>()

/** The configuration of a new repository. All other settings are passed to each git process. */
export const NEW_CONFIG = `[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
`

/**
 * Creates a bare repository at `dir`, whose parent must exist. A crash leaves it complete or absent. It is empty without
 * `fill`, which gets the directory of the draft and must flush all that it writes. When `fill` fails, no repository is
 * created.
 * @throws InvalidGitArgument for an invalid default branch
 */
export async function createRepository(
  dir: string,
  { defaultBranch }: { defaultBranch: string },
  fill: (draft: string) => Promise<void> = async () => undefined,
): Promise<'created' | 'exists'> {
  branchRef(defaultBranch)
  const draft = `${dir}.new-${randomUUID()}`
  drafts.add(basename(draft))
  const init = ['init', '--quiet', '--bare', '--template=', '--object-format=sha1']
  try {
    await gitOutput([...init, `--initial-branch=${defaultBranch}`, '--', draft])
    await fill(draft)
    for (const name of ['HEAD', 'config', 'objects', 'refs', '']) await flush(join(draft, name))
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    drafts.delete(basename(draft))
    throw error
  }
  let isThere = false
  try {
    await rename(draft, dir)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    if (!hasCode(error, 'ENOTEMPTY') && !hasCode(error, 'EEXIST')) throw error
    isThere = true
  } finally {
    drafts.delete(basename(draft))
  }
  if (isThere) return (await adoptRepository(dir)) ? 'exists' : createRepository(dir, { defaultBranch }, fill)
  await flush(dirname(dir))
  return 'created'
}

/**
 * Adopts a repository that an earlier attempt of the request has created: updates its time, so that it does not count as
 * abandoned. Resolves to false for a missing one.
 */
export async function adoptRepository(dir: string): Promise<boolean> {
  const now = new Date()
  return (await unlessMissing(utimes(dir, now, now).then(() => true))) ?? false
}

/**
 * Deletes a repository that the log lacks and that is too old for a request in flight. Resolves to whether it was
 * deleted.
 */
export async function deleteAbandoned(dir: string): Promise<boolean> {
  const isOld = async (path: string) => isAbandoned((await writtenAt(path)) ?? Date.now())
  if (!(await isOld(dir))) return false
  const gone = `${dir}.gone-${randomUUID()}`
  await rename(dir, gone)
  // A retried request may have adopted the repository meanwhile.
  if (!(await isOld(gone))) {
    await rename(gone, dir)
    return false
  }
  await flush(dirname(dir))
  await rm(gone, { recursive: true, force: true, maxRetries: 3 })
  return true
}

/** Deletes the repository at `dir`, if it exists: renames it first, and then deletes its files. */
export async function deleteRepository(dir: string): Promise<void> {
  const gone = `${dir}.gone-${randomUUID()}`
  try {
    await rename(dir, gone)
  } catch (error) {
    if (isMissing(error)) return
    throw error
  }
  await flush(dirname(dir))
  await objectReaders.close(dir)
  // A running clone may write a temporary file meanwhile.
  await rm(gone, { recursive: true, force: true, maxRetries: 3 })
}

/**
 * Removes leftovers of creations and deletions in `parent`, except those in progress in this process. If other servers use
 * the directory, only leftovers that are too old to be in use.
 */
export async function sweepRepositories(parent: string, { isShared = false } = {}): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!UNFINISHED.test(name)) continue
    const path = join(parent, name)
    if (drafts.has(name)) continue
    if (isShared && !isAbandoned((await writtenAt(path)) ?? Date.now())) continue
    await rm(path, { recursive: true, force: true })
  }
}

/** Sets the branch that a clone checks out. It need not exist. */
export async function setDefaultBranch(dir: string, branch: string): Promise<void> {
  const ref = branchRef(branch)
  await freeLocks(dir, ['HEAD'])
  await gitOutput(['symbolic-ref', 'HEAD', ref], { dir })
  await flush(dir)
}
