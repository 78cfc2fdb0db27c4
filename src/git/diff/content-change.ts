/** Tells whether a branch still makes the same change after the branch or its base has moved. */
import { createHash } from 'node:crypto'
import { commitFacts } from '../commits/commits.ts'
import { mergeTrees } from '../merge/merge.ts'
import { GitFailed } from '../process/errors.ts'
import { git } from '../process/run.ts'
import { checkedId } from '../refs/names.ts'
import { type Staging, scaffoldCommit, UNFLUSHED, withStaging } from '../repository/staging.ts'

const TIMEOUT_MS = 30_000

/** A change: from the commit that a branch is compared with to its head. */
export interface Change {
  base: string
  head: string
}

/**
 * Whether two changes differ. They are equal when they change the same files from the same content to the same content. If
 * their bases differ in these files, they are equal when each, applied to the base of the other, results in the head of the
 * other. So a rebase, or a merge of the base, is not a difference.
 * @throws GitFailed for a missing commit, and the errors of `git`
 */
export async function hasContentChanged(dir: string, before: Change, after: Change): Promise<boolean> {
  for (const id of [before.base, before.head, after.base, after.head]) checkedId(id)
  if (before.base === after.base && before.head === after.head) return false
  const [old, now] = await Promise.all([before, after].map((change) => digestOf(dir, change)))
  if (old === now) return false
  // On the same base, different results are different changes.
  if (before.base === after.base) return true
  return !(await isSamePatch(dir, before, after))
}

/** The files that differ, with their modes and contents on both sides, as a hash: there may be hundreds of thousands. */
async function digestOf(dir: string, { base, head }: Change): Promise<string> {
  const args = [
    'diff-tree',
    '-r',
    '-z',
    '--raw',
    '--no-renames',
    '--ignore-submodules=none',
    base,
    head,
    '--',
  ]
  const hash = createHash('sha256')
  const onOutput = (chunk: Buffer) => hash.update(chunk)
  const { code, stderr } = await git(args, { dir, onOutput, timeout: TIMEOUT_MS })
  if (code !== 0) throw new GitFailed(args, code, stderr)
  return hash.digest('hex')
}

async function isSamePatch(dir: string, before: Change, after: Change): Promise<boolean> {
  const facts = await commitFacts(dir, [before.base, before.head, after.base, after.head])
  const treesOf = ({ base, head }: Change) => {
    const [from, to] = [facts.get(base)?.tree, facts.get(head)?.tree]
    if (from === undefined || to === undefined) throw new GitFailed(['diff-tree'], 0, 'a commit is missing')
    return { from, to }
  }
  const [old, now] = [treesOf(before), treesOf(after)]
  return await withStaging(
    dir,
    async (staging) =>
      (await applied(dir, staging, old, now.from)) === now.to &&
      (await applied(dir, staging, now, old.from)) === old.to,
  )
}

/** Applies the change between two trees to another tree and returns the result; undefined on a conflict. */
async function applied(
  dir: string,
  staging: Staging,
  { from, to }: { from: string; to: string },
  onto: string,
): Promise<string | undefined> {
  const parent = await staging.writeCommit(scaffoldCommit(from, undefined))
  const ours = await staging.writeCommit(scaffoldCommit(onto, parent))
  const theirs = await staging.writeCommit(scaffoldCommit(to, parent))
  const options = { env: staging.env, config: UNFLUSHED, timeout: TIMEOUT_MS }
  const merge = await mergeTrees(dir, ours, theirs, options)
  return merge.kind === 'clean' ? merge.tree : undefined
}
