/** Copies repositories. A copy shares disk space with the original, but stays when the original is deleted. */
import { constants } from 'node:fs'
import { copyFile, link, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { exists, flush, hasCode, isMissing } from '../disk.ts'
import type { GitConfig } from './environment.ts'
import { InvalidGitArgument, RepositoryMissing } from './errors.ts'
import { branchRef } from './names.ts'
import { takeObjectFiles } from './object-files.ts'
import { listRefs, type Ref } from './refs.ts'
import { createRepositoryFrom } from './repository.ts'
import { gitOutput } from './run.ts'

const CONCURRENT_LINKS = 8

/**
 * Copies the repository `fromDir` to `toDir`, whose parent must exist: all branches and tags, or only one branch,
 * which becomes the default branch. Object files become hard links (or copies, where the file system can't link),
 * so either repository may be deleted later. The original may receive pushes during the call: each ref of the
 * fork has a value that it had at some time during the call. A crash leaves the fork complete or absent. A
 * repository that exists at `toDir` stays unchanged.
 *
 * @throws RepositoryMissing, InvalidGitArgument when `branch` does not exist, and the errors of git
 */
export async function forkRepository(
  fromDir: string,
  toDir: string,
  { branch }: { branch?: string | undefined } = {},
): Promise<'created' | 'exists'> {
  if (await exists(join(toDir, 'HEAD'))) return 'exists'
  // Read refs before objects: then all objects of these refs exist when the objects are listed, despite pushes.
  const refs = await refsToCopy(fromDir, branch)
  const defaultBranch = branch ?? (await headBranch(fromDir))
  return await createRepositoryFrom(toDir, { defaultBranch }, async (draft) => {
    const linked = await linkObjects(join(fromDir, 'objects'), join(draft, 'objects'))
    // A deletion renames the repository first. If the name still exists, all objects existed until now.
    if (!(await exists(join(fromDir, 'HEAD')))) throw new RepositoryMissing(`no repository at ${fromDir}`)
    await writeRefs(draft, refs)
    for (const directory of linked) await flush(directory)
  })
}

async function refsToCopy(dir: string, branch: string | undefined): Promise<Ref[]> {
  if (branch === undefined)
    return [...(await listRefs(dir, 'refs/heads/')), ...(await listRefs(dir, 'refs/tags/'))]
  const ref = branchRef(branch)
  const found = (await listRefs(dir, 'refs/heads/')).filter((one) => one.ref === ref)
  if (found.length === 0) throw new InvalidGitArgument('branch', 'does not exist')
  return found
}

async function headBranch(dir: string): Promise<string> {
  const ref = (await gitOutput(['symbolic-ref', 'HEAD'], { dir })).toString('utf8').trim()
  return ref.replace(/^refs\/heads\//, '')
}

/** Writes the refs one by one without flushing, and then packs them into one file that git flushes. */
async function writeRefs(dir: string, refs: readonly Ref[]): Promise<void> {
  if (refs.length === 0) return
  const config: GitConfig = [['core.fsync', 'none']]
  const input = refs.map(({ ref, sha }) => `create ${ref}\0${sha}\0`).join('')
  await gitOutput(['update-ref', '--no-deref', '--stdin', '-z'], { dir, input, config })
  await gitOutput(['pack-refs', '--all'], { dir })
}

/** Links all object files. Returns the directories that received files. */
async function linkObjects(from: string, to: string): Promise<string[]> {
  const directories = new Set([to])
  const isComplete = await takeObjectFiles(from, async (directory, names) => {
    const place = join(to, directory)
    await mkdir(place, { recursive: true })
    directories.add(place)
    return await linkAll(join(from, directory), place, names)
  })
  if (!isComplete) throw new RepositoryMissing(`the packs of ${from} keep vanishing`)
  return [...directories]
}

/** Links these files. Returns false when one of them no longer exists. */
async function linkAll(from: string, to: string, names: readonly string[]): Promise<boolean> {
  let isComplete = true
  for (let i = 0; i < names.length; i += CONCURRENT_LINKS) {
    const results = await Promise.all(
      names.slice(i, i + CONCURRENT_LINKS).map((name) => linkOrCopy(join(from, name), join(to, name))),
    )
    if (results.includes(false)) isComplete = false
  }
  return isComplete
}

async function linkOrCopy(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    if (hasCode(error, 'EEXIST')) return true
  }
  // The file system is another one, has no links, or allows no more links to this file.
  try {
    await copyFile(from, to, constants.COPYFILE_FICLONE)
    await flush(to)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
