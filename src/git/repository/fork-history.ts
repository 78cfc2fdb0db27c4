/** Relations between commits of two repositories. */
import { join } from 'node:path'
import { mergeBase } from '../commits/history.ts'
import { createAnswerCache } from '../process/answer-cache.ts'
import { GitFailed } from '../process/errors.ts'
import { type GitOptions, git } from '../process/run.ts'
import { checkedId } from '../refs/names.ts'
import { quotedPath } from './staging.ts'

const answers = createAnswerCache<{ value: string | undefined }>(20_000, () => 1)

/** A commit, and a repository that has it. */
export interface CommitPlace {
  dir: string
  sha: string
}

/**
 * Returns the best common ancestor of two commits, which may be in two repositories; undefined for unrelated histories.
 * Writes nothing: git reads the objects of both.
 */
export async function mergeBaseAcross(
  base: CommitPlace,
  head: CommitPlace,
  { signal, ...options }: Pick<GitOptions, 'queue' | 'timeout' | 'signal'>,
): Promise<string | undefined> {
  if (base.dir === head.dir) return await mergeBase(head.dir, base.sha, head.sha)
  const args = ['merge-base', checkedId(base.sha), checkedId(head.sha)]
  const env = { GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(join(base.dir, 'objects')) }
  const ask = async (unwanted: AbortSignal) => {
    const result = await git(args, { ...options, dir: head.dir, env, signal: unwanted })
    const { code, stdout, stderr } = result
    if (code === 0) return { value: stdout.toString('latin1').trim() }
    if (code === 1 && stderr === '') return { value: undefined }
    throw new GitFailed(args, code, stderr)
  }
  return (await answers([head.dir, base.dir, ...args].join('\0'), ask, signal)).value
}
