/** Merges commits without a work tree. */
import { commitFacts } from './commits.ts'
import { GitFailed, GitOutputTooLarge } from './errors.ts'
import { checkedId } from './names.ts'
import { nearMergeBase } from './near-history.ts'
import { type GitOptions, git } from './run.ts'

export type MergeResult =
  /** `tree` is the id of the merged tree, which is stored in the repository. */
  | { kind: 'clean'; tree: string }
  /** The paths of the files in conflict, sorted. */
  | { kind: 'conflicts'; files: string[] }
  /** The two commits share no history. */
  | { kind: 'unrelated' }

/**
 * Merges the commit `theirs` into the commit `ours`, as `git merge` does, and gives the merged tree. Makes no
 * commit and moves no ref.
 */
export async function mergeTrees(
  dir: string,
  ours: string,
  theirs: string,
  gitOptions: Pick<GitOptions, 'config' | 'env'> = {},
): Promise<MergeResult> {
  const tree = gitOptions.env === undefined ? await fastForward(dir, ours, theirs) : undefined
  if (tree !== undefined) return { kind: 'clean', tree }
  return await runMerge(dir, ours, theirs, gitOptions)
}

/** The tree of the later commit, when it follows from the other one within a few steps. */
async function fastForward(dir: string, ours: string, theirs: string): Promise<string | undefined> {
  const base = await nearMergeBase(dir, checkedId(ours), checkedId(theirs))
  if (base !== ours && base !== theirs) return undefined
  const later = base === ours ? theirs : ours
  return (await commitFacts(dir, [later])).get(later)?.tree
}

async function runMerge(
  dir: string,
  ours: string,
  theirs: string,
  gitOptions: Pick<GitOptions, 'config' | 'env'>,
): Promise<MergeResult> {
  const options = ['--write-tree', '-z', '--name-only', '--no-messages']
  const args = ['merge-tree', ...options, checkedId(ours), checkedId(theirs)]
  const { code, stdout, stderr } = await git(args, { ...gitOptions, dir })
  const [tree, ...files] = stdout.toString('utf8').split('\0').slice(0, -1)
  // A commit that does not exist also gives code 1, but no tree.
  if (tree !== undefined && code === 0) return { kind: 'clean', tree }
  if (tree !== undefined && code === 1) return { kind: 'conflicts', files: [...new Set(files)].sort() }
  if (stderr.includes('unrelated histories')) return { kind: 'unrelated' }
  throw new GitFailed(args, code, stderr)
}

const OPTIONS = ['--stdin', '-z', '--name-only', '--no-messages']
const MAX_BYTES = 64 * 1024 * 1024
const MILLISECONDS_PER_MERGE = 5_000

/**
 * Merges many pairs with one process, and gives the results of `mergeTrees` in the same order. The result is
 * `unrelated` when one commit of a pair does not exist.
 *
 * @throws GitOutputTooLarge when the names of all files in conflict take more than 64 MB, and what `mergeTrees`
 * throws
 */
export async function mergeTreesAll(
  dir: string,
  pairs: readonly { ours: string; theirs: string }[],
): Promise<MergeResult[]> {
  const [only, ...others] = pairs
  if (only !== undefined && others.length === 0) return [await mergeOrNot(dir, only)]
  const lines = pairs.map(({ ours, theirs }) => `${checkedId(ours)} ${checkedId(theirs)}\n`)
  const results: MergeResult[] = []
  while (results.length < pairs.length) {
    const input = lines.slice(results.length).join('')
    const timeout = 60_000 + MILLISECONDS_PER_MERGE * (pairs.length - results.length)
    const onOutput = readMerges((result) => results.push(result))
    await git(['merge-tree', ...OPTIONS], { dir, input, timeout, onOutput })
    const failing = pairs[results.length]
    // git stops at the first pair that it can't merge. Merge this pair alone to learn why.
    if (failing !== undefined) results.push(await mergeOrNot(dir, failing))
  }
  return results
}

async function mergeOrNot(
  dir: string,
  { ours, theirs }: { ours: string; theirs: string },
): Promise<MergeResult> {
  try {
    return await mergeTrees(dir, ours, theirs)
  } catch (error) {
    if (error instanceof GitFailed && error.stderr.includes('not something we can merge')) {
      return { kind: 'unrelated' }
    }
    throw error
  }
}

/**
 * Reads the output of `merge-tree --stdin -z`: for each pair `0` (conflicts) or `1` (clean), the tree, the files in
 * conflict, and an empty field.
 */
function readMerges(found: (result: MergeResult) => void): (chunk: Buffer) => void {
  // Merges into one branch often conflict in the same files, so hold each name once.
  const names = new Map<string, string>()
  let bytes = 0
  let unread = Buffer.alloc(0)
  let fields: string[] = []

  return (chunk) => {
    bytes += chunk.length
    if (bytes > MAX_BYTES)
      throw new GitOutputTooLarge(`the files in conflict take more than ${MAX_BYTES} bytes`)
    unread = Buffer.concat([unread, chunk])
    let start = 0
    for (let end = unread.indexOf(0); end !== -1; end = unread.indexOf(0, start)) {
      const field = unread.toString('utf8', start, end)
      start = end + 1
      if (field !== '') {
        const known = names.get(field) ?? field
        if (fields.length > 1) names.set(known, known)
        fields.push(known)
        continue
      }
      const [status, tree = '', ...files] = fields
      fields = []
      found(
        status === '1' ? { kind: 'clean', tree } : { kind: 'conflicts', files: [...new Set(files)].sort() },
      )
    }
    unread = unread.subarray(start)
  }
}
