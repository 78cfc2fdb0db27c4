/** Copies the files of another repository as one commit, without its history. */

import { commitTree, type NewCommit } from '../commits/new-commit.ts'
import { gitOutput } from '../process/run.ts'
import { branchRef } from '../refs/names.ts'
import { type RefOutcome, resolveRef, updateRef } from '../refs/refs.ts'
import { copyAsPack } from './staging.ts'

export interface CopiedCommit extends Omit<NewCommit, 'tree' | 'parents'> {
  /** The source branch. */
  from: string
  /** The new branch. */
  branch: string
}

/**
 * Copies the files of a branch of `fromDir` into `intoDir`, as the first commit of a branch. Resolves to undefined when the
 * source branch is missing; the outcome is `stale` when the new branch exists already. The files are on disk before the
 * branch is created.
 * @throws InvalidGitArgument, RepositoryMissing, GitUnavailable, GitFailed
 */
export async function copyAsFirstCommit(
  fromDir: string,
  intoDir: string,
  { from, branch, ...commit }: CopiedCommit,
): Promise<{ sha: string; outcome: RefOutcome } | undefined> {
  const tip = await resolveRef(fromDir, branchRef(from))
  if (tip === null) return undefined
  const tree = (await gitOutput(['rev-parse', '--verify', `${tip}^{tree}`], { dir: fromDir }))
    .toString()
    .trim()
  await copyAsPack(fromDir, intoDir, `${tree}\n`)
  const sha = await commitTree(intoDir, { ...commit, tree, parents: [] })
  return { sha, outcome: await updateRef(intoDir, branchRef(branch), { from: null, to: sha }) }
}
