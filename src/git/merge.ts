/** Merging two commits without a work tree. */
import { GitFailed } from './errors.ts'
import { checkedId } from './names.ts'
import { git } from './run.ts'

export type MergeResult =
  /** `tree` is the id of the merged tree, which is in the repository. */
  | { kind: 'clean'; tree: string }
  /** The paths that a person must look at, sorted. */
  | { kind: 'conflicts'; files: string[] }
  /** The two commits share no history. */
  | { kind: 'unrelated' }

/**
 * Merges the commit `theirs` into the commit `ours`, as `git merge` would, and gives the tree; no
 * commit is made and no ref moves.
 */
export async function mergeTrees(dir: string, ours: string, theirs: string): Promise<MergeResult> {
  const options = ['--write-tree', '-z', '--name-only', '--no-messages']
  const args = ['merge-tree', ...options, checkedId(ours), checkedId(theirs)]
  const { code, stdout, stderr } = await git(args, { dir })
  const [tree, ...files] = stdout.toString('utf8').split('\0').slice(0, -1)
  // A commit that does not exist also gives code 1, but no tree.
  if (tree !== undefined && code === 0) return { kind: 'clean', tree }
  if (tree !== undefined && code === 1) return { kind: 'conflicts', files: [...new Set(files)].sort() }
  if (stderr.includes('unrelated histories')) return { kind: 'unrelated' }
  throw new GitFailed(args, code, stderr)
}
