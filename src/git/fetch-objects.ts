/** Bringing commits from one repository of this server into another. */

import { join } from 'node:path'
import { exists, flush } from '../disk.ts'
import { GitFailed, InvalidGitArgument, RepositoryMissing } from './errors.ts'
import { checkedId, checkedRef } from './names.ts'
import { objectReaders } from './object-readers.ts'
import { flushRefs, listRefs } from './refs.ts'
import { git, gitOutput } from './run.ts'
import { quotedPath } from './staging.ts'

/** A long history takes its time to be written. */
const PACKING_TIMEOUT = 30 * 60_000

/**
 * Brings a commit with all its history from the repository `fromDir` into `intoDir`, whose refs say what is
 * there already; does little when the commit is. Then points `ref` (no branch) at it, wherever that was. All of
 * it is on disk when it resolves; a crash leaves all objects or none. May run many times at once.
 *
 * @throws InvalidGitArgument, RepositoryMissing, GitUnavailable, or GitFailed when `fromDir` lacks the commit or
 * something that it leads to
 */
export async function fetchObjects(
  intoDir: string,
  fromDir: string,
  sha: string,
  ref?: string | undefined,
): Promise<void> {
  checkedId(sha)
  if (ref !== undefined && checkedRef(ref).startsWith('refs/heads/')) {
    throw new InvalidGitArgument('ref', 'is a branch, which only pushes and merges move')
  }
  if (!(await isComplete(intoDir, sha))) await copyHistory(intoDir, fromDir, sha)
  if (ref === undefined) return
  await gitOutput(['update-ref', '--no-deref', ref, sha], { dir: intoDir })
  await flushRefs(intoDir, [ref])
}

/** True when the repository has the commit, and all that it leads to and no ref leads to. */
async function isComplete(dir: string, sha: string): Promise<boolean> {
  const [commit] = await objectReaders.headers(dir, [sha], { peel: true })
  if (commit === undefined) return false
  const args = ['rev-list', '--objects', '--quiet', `${sha}^{commit}`, '--not', '--all', '--']
  const { code, stderr } = await git(args, { dir, timeout: PACKING_TIMEOUT })
  if (code === 0) return true
  if (code === 128) return false
  throw new GitFailed(args, code, stderr)
}

/**
 * Writes what is missing as one pack, which is there from one moment to the next. A fetch would do the same
 * with three more processes, and would unpack small histories one object at a time, commits first.
 */
async function copyHistory(intoDir: string, fromDir: string, sha: string): Promise<void> {
  // A repository that is gone must not pass for one that lacks the commit.
  if (!(await exists(join(fromDir, 'HEAD')))) throw new RepositoryMissing(`no repository at ${fromDir}`)
  const present = new Set((await listRefs(intoDir)).map((one) => one.sha))
  await gitOutput(
    ['pack-objects', '-q', '--revs', '--delta-base-offset', join(intoDir, 'objects/pack/pack')],
    {
      dir: intoDir,
      input: [`${sha}^{commit}`, ...[...present].map((id) => `^${id}`), ''].join('\n'),
      env: { GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(join(fromDir, 'objects')) },
      timeout: PACKING_TIMEOUT,
    },
  )
  await flush(join(intoDir, 'objects/pack'))
}
