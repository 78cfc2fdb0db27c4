/** Copies of repositories that share disk space with the original, but not its fate. */
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
 * Makes `toDir`, whose parent must exist, a copy of the repository `fromDir`: its branches and tags, or only
 * one branch, which is then the default branch. Object files are hard links to the original's (copies where
 * the file system can't), so that either repository may be deleted. Pushes to the original may go on: the fork
 * has each of its refs as it was at some time during the call. A crash leaves it complete or absent; a
 * repository that is there already stays as it is.
 *
 * @throws RepositoryMissing, InvalidGitArgument when `branch` does not exist, and what git throws
 */
export async function forkRepository(
  fromDir: string,
  toDir: string,
  { branch }: { branch?: string | undefined } = {},
): Promise<'created' | 'exists'> {
  if (await exists(join(toDir, 'HEAD'))) return 'exists'
  // Refs first: what they lead to is then there when the objects are listed, whatever is pushed meanwhile.
  const refs = await refsToCopy(fromDir, branch)
  const defaultBranch = branch ?? (await headBranch(fromDir))
  return await createRepositoryFrom(toDir, { defaultBranch }, async (draft) => {
    const linked = await linkObjects(join(fromDir, 'objects'), join(draft, 'objects'))
    // Deleting renames first, so a repository that still has its name had all of its objects until now.
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

/** Written one by one without flushing, and then as one file that is flushed. */
async function writeRefs(dir: string, refs: readonly Ref[]): Promise<void> {
  if (refs.length === 0) return
  const config: GitConfig = [['core.fsync', 'none']]
  const input = refs.map(({ ref, sha }) => `create ${ref}\0${sha}\0`).join('')
  await gitOutput(['update-ref', '--no-deref', '--stdin', '-z'], { dir, input, config })
  await gitOutput(['pack-refs', '--all'], { dir })
}

/** Gives the directories in which files were linked. */
async function linkObjects(from: string, to: string): Promise<string[]> {
  const directories = new Set([to])
  const isWhole = await takeObjectFiles(from, async (directory, names) => {
    const place = join(to, directory)
    await mkdir(place, { recursive: true })
    directories.add(place)
    return await linkAll(join(from, directory), place, names)
  })
  if (!isWhole) throw new RepositoryMissing(`the packs of ${from} keep vanishing`)
  return [...directories]
}

/** False when a file vanished meanwhile. */
async function linkAll(from: string, to: string, names: readonly string[]): Promise<boolean> {
  let isWhole = true
  for (let i = 0; i < names.length; i += CONCURRENT_LINKS) {
    const results = await Promise.all(
      names.slice(i, i + CONCURRENT_LINKS).map((name) => linkOrCopy(join(from, name), join(to, name))),
    )
    if (results.includes(false)) isWhole = false
  }
  return isWhole
}

async function linkOrCopy(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    if (hasCode(error, 'EEXIST')) return true
  }
  // Another file system, one without links, or more links than it can count.
  try {
    await copyFile(from, to, constants.COPYFILE_FICLONE)
    await flush(to)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
