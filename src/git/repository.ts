/** Bare repositories as directories: made whole or not at all, and deleted the same way. */
import { randomUUID } from 'node:crypto'
import { readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { flush, hasCode, isMissing } from '../disk.ts'
import { branchRef } from './names.ts'
import { objectReaders } from './object-readers.ts'
import { gitOutput } from './run.ts'

/** Beside `12.git` these are a repository that is not yet, and one that is no longer. */
const UNFINISHED = /\.(new|gone)-[0-9a-f-]{36}$/

/**
 * Makes an empty bare repository at `dir`, whose parent must exist. A crash leaves it complete or absent.
 *
 * @throws InvalidGitArgument for a default branch that git would refuse
 */
export async function createRepository(
  dir: string,
  { defaultBranch }: { defaultBranch: string },
): Promise<'created' | 'exists'> {
  return await createRepositoryFrom(dir, { defaultBranch }, async () => undefined)
}

/**
 * As `createRepository`, but not empty: `fill` gets the directory of the draft, and has flushed what it wrote
 * when it resolves. When it fails, nothing is made.
 */
export async function createRepositoryFrom(
  dir: string,
  { defaultBranch }: { defaultBranch: string },
  fill: (draft: string) => Promise<void>,
): Promise<'created' | 'exists'> {
  branchRef(defaultBranch)
  const draft = `${dir}.new-${randomUUID()}`
  const init = ['init', '--quiet', '--bare', '--template=', '--object-format=sha1']
  try {
    await gitOutput([...init, `--initial-branch=${defaultBranch}`, '--', draft])
    await fill(draft)
    for (const name of ['HEAD', 'config', '']) await flush(join(draft, name))
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    throw error
  }
  try {
    await rename(draft, dir)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    if (hasCode(error, 'ENOTEMPTY') || hasCode(error, 'EEXIST')) return 'exists'
    throw error
  }
  await flush(dirname(dir))
  return 'created'
}

/** Deletes the repository at `dir`, if there is one: first from sight, then from disk. */
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
  // A clone that is still running may write a temporary file while we delete.
  await rm(gone, { recursive: true, force: true, maxRetries: 3 })
}

/** Removes what a crash left of repositories that were being made or deleted in `parent`. Call it at start. */
export async function sweepRepositories(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (UNFINISHED.test(basename(name))) await rm(join(parent, name), { recursive: true, force: true })
  }
}

/** Says which branch a clone checks out; it need not exist. */
export async function setDefaultBranch(dir: string, branch: string): Promise<void> {
  await gitOutput(['symbolic-ref', 'HEAD', branchRef(branch)], { dir })
  await flush(dir)
}
