/** Copies commits from one repository of this server into another. */
import { join } from 'node:path'
import { exists } from '../../storage/disk.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { GitFailed, RepositoryMissing } from '../process/errors.ts'
import { git } from '../process/run.ts'
import { checkedId, VISIBLE_REFS } from '../refs/names.ts'
import { listRefs } from '../refs/refs.ts'
import { copyAsPack } from './staging.ts'

/** Time limit for the walk of a long history, in milliseconds. */
const WALK_TIMEOUT = 30 * 60_000

/**
 * Copies a commit with its history from the repository `fromDir` into `intoDir`. Cheap when a ref of `intoDir` reaches the
 * commit already. All objects are on disk when this resolves; a crash leaves all or none. Calls may run concurrently.
 * @throws InvalidGitArgument, RepositoryMissing, GitUnavailable, or GitFailed when `fromDir` lacks the commit or an object
 * of its history
 */
export async function fetchObjects(intoDir: string, fromDir: string, sha: string): Promise<void> {
  if (!(await isReached(intoDir, checkedId(sha)))) await copyHistory(intoDir, fromDir, sha)
}

/**
 * Whether refs of the repository reach the commit. An unreachable one is copied again: maintenance may be about to remove
 * it.
 */
async function isReached(dir: string, sha: string): Promise<boolean> {
  const [commit] = await objectReaders.headers(dir, [sha], { peel: true })
  if (commit === undefined) return false
  const args = ['rev-list', '--max-count=1', `${sha}^{commit}`, '--not', ...VISIBLE_REFS, '--']
  const { code, stdout, stderr } = await git(args, { dir, timeout: WALK_TIMEOUT })
  if (code === 0) return stdout.length === 0
  if (code === 128) return false
  throw new GitFailed(args, code, stderr)
}

/**
 * Writes the missing objects as one pack, which appears atomically. A fetch would need three more processes, and
 * would unpack small histories object by object, commits first.
 */
async function copyHistory(intoDir: string, fromDir: string, sha: string): Promise<void> {
  // Distinguish a deleted repository from one that lacks the commit.
  if (!(await exists(join(fromDir, 'HEAD')))) throw new RepositoryMissing(`no repository at ${fromDir}`)
  const present = new Set((await listRefs(intoDir)).map((one) => one.sha))
  const wanted = [`${sha}^{commit}`, ...[...present].map((id) => `^${id}`), ''].join('\n')
  await copyAsPack(fromDir, intoDir, wanted)
}
