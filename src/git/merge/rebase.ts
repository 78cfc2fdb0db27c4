/** Rebases commits without a work tree. */
import { commitFacts, rawCommits, type Signature, splitCommit } from '../commits/commits.ts'
import { mergeBase } from '../commits/history.ts'
import { nearRange } from '../commits/near-history.ts'
import { signatureLine } from '../commits/new-commit.ts'
import { signedContent } from '../commits/signatures.ts'
import { GitFailed } from '../process/errors.ts'
import { gitLines, gitOutput } from '../process/run.ts'
import { checkedId, EMPTY_TREE } from '../refs/names.ts'
import { type Staging, scaffoldCommit, UNFLUSHED, withStaging } from '../repository/staging.ts'
import { mergeTrees } from './merge.ts'

/** Maximum number of commits to rebase: each costs a merge. */
export const MAX_REBASED_COMMITS = 1000

export interface Rebase {
  /** The commit onto which the others are rebased. */
  base: string
  head: string
  /** The committer of all new commits. */
  committer: Signature
  /** Absolute path of the private SSH key that signs the new commits. */
  signingKey?: string | undefined
}

export type RebaseResult =
  /** `commits` are the commits after `base` up to `tip`, oldest first. Without commits, `tip` is `base`. */
  | { kind: 'clean'; tip: string; commits: string[] }
  /** The first commit that does not apply, and the paths of the files in conflict, sorted. */
  | { kind: 'conflicts'; commit: string; files: string[] }
  | { kind: 'unrelated' }
  /** `commits` is the length of the series, without merges. */
  | { kind: 'too-long'; commits: number }

/**
 * Creates the commits that `git rebase BASE` creates from HEAD, and moves no ref. Like git, drops merges and commits whose
 * change BASE has already. Author, author date and message keep every byte; other headers, such as a signature, are
 * dropped. Commits that are already in place stay unchanged, signed or not: a linear history that begins at BASE is its own
 * result. Nothing is stored unless the result is `clean`.
 * @throws SigningFailed, InvalidGitArgument, GitFailed, GitUnavailable, GitOutputTooLarge
 */
export async function rebase(
  dir: string,
  { base, head, committer, signingKey }: Rebase,
): Promise<RebaseResult> {
  const committerLine = signatureLine(committer)
  if ((await mergeBase(dir, base, head)) === undefined) return { kind: 'unrelated' }
  const count = await countCommits(dir, base, head)
  if (count > MAX_REBASED_COMMITS) return { kind: 'too-long', commits: count }
  const picks = await listPicks(dir, base, head)
  const { onto, rest } = splitInPlace(base, picks)
  const commits = [...onto]
  let tip = onto.at(-1) ?? base
  if (rest.length === 0) return { kind: 'clean', tip, commits }

  return await withStaging(dir, async (staging): Promise<RebaseResult> => {
    const replayed = await replay(dir, staging, tip, rest)
    if (replayed.kind === 'conflicts') return replayed
    const { steps, scaffold } = replayed
    const originals = steps.map(({ pick }) => pick.sha)
    const raw = await rawCommits(dir, originals)
    for (const { pick, tree } of steps) {
      const original = raw.get(pick.sha)
      if (original === undefined) continue
      const content = rewritten(original, { tree, parent: tip, committer: committerLine })
      tip = await staging.writeCommit(
        signingKey === undefined ? content : await signedContent(content, signingKey),
      )
      commits.push(tip)
    }
    await staging.keepAllBut(scaffold)
    return { kind: 'clean', tip, commits }
  })
}

interface Pick {
  sha: string
  tree: string
  /** Undefined for a root commit. */
  parent: string | undefined
  /** Whether the base has a commit with the same change. */
  isUpstream: boolean
}

async function countCommits(dir: string, base: string, head: string): Promise<number> {
  const near = await nearRange(dir, base, head)
  if (near !== undefined) return near.length
  const args = ['rev-list', '--count', '--no-merges', checkedId(head), `^${checkedId(base)}`, '--']
  return Number(await gitOutput(args, { dir }))
}

async function listPicks(dir: string, base: string, head: string): Promise<Pick[]> {
  const picked = ['--cherry-mark', '--right-only', '--no-merges', '--topo-order', '--reverse']
  const format = ['--no-commit-header', '--format=%m %H %T %P']
  const lines = await gitLines(['rev-list', ...picked, ...format, `${base}...${head}`, '--'], { dir })
  return lines.map((line) => {
    const [mark, sha = '', tree = '', parent] = line.split(' ')
    return { sha, tree, parent: parent || undefined, isUpstream: mark === '=' }
  })
}

/** Splits off the first commits, which are already in the right place. */
function splitInPlace(base: string, picks: readonly Pick[]): { onto: string[]; rest: Pick[] } {
  const onto: string[] = []
  for (const { sha, parent } of picks) {
    if (parent !== (onto.at(-1) ?? base)) break
    onto.push(sha)
  }
  return { onto, rest: picks.slice(onto.length) }
}

interface Step {
  pick: Pick
  /** The tree of the new commit. */
  tree: string
}

/**
 * Applies the change of each commit to the result of the commits before it. `scaffold`: staged commits that were
 * only needed for merging.
 */
async function replay(
  dir: string,
  staging: Staging,
  tip: string,
  picks: readonly Pick[],
): Promise<
  | { kind: 'clean'; steps: Step[]; scaffold: Set<string> }
  | { kind: 'conflicts'; commit: string; files: string[] }
> {
  const parents = picks.flatMap(({ parent }) => parent ?? [])
  const facts = await commitFacts(dir, [tip, ...parents])
  const treeOf = (commit: string) => {
    const tree = facts.get(commit)?.tree
    if (tree === undefined) throw new GitFailed(['rebase', tip], 0, `${commit} is not a commit`)
    return tree
  }
  const scaffold = new Set<string>()
  const steps: Step[] = []
  let current = treeOf(tip)

  async function build(tree: string, parent?: string): Promise<string> {
    const sha = await staging.writeCommit(scaffoldCommit(tree, parent))
    scaffold.add(sha)
    return sha
  }

  for (const pick of picks) {
    const before = pick.parent === undefined ? EMPTY_TREE : treeOf(pick.parent)
    if (pick.tree === before) {
      // The author made an empty commit: keep it.
      steps.push({ pick, tree: current })
      continue
    }
    if (pick.isUpstream) continue
    let tree = pick.tree
    if (current !== before) {
      // git finds the merge base of the two commits. For a root commit, the merge base has the empty tree.
      const parent = pick.parent ?? (await build(EMPTY_TREE))
      const theirs = pick.parent === undefined ? await build(pick.tree, parent) : pick.sha
      const ours = await build(current, parent)
      const merge = await mergeTrees(dir, ours, theirs, { env: staging.env, config: UNFLUSHED })
      if (merge.kind !== 'clean') {
        return { kind: 'conflicts', commit: pick.sha, files: merge.kind === 'conflicts' ? merge.files : [] }
      }
      tree = merge.tree
    }
    if (tree !== current) steps.push({ pick, tree })
    current = tree
  }
  return { kind: 'clean', steps, scaffold }
}

/** The content of the new commit: the same author and message, with another tree, parent and committer. */
function rewritten(
  original: Buffer,
  { tree, parent, committer }: { tree: string; parent: string; committer: string },
): Buffer {
  const { values, body: message } = splitCommit(original)
  const [author] = values('author')
  const [encoding] = values('encoding')
  const authorBytes = author === undefined ? Buffer.from(committer) : Buffer.from(author, 'latin1')
  const text = inCommittersEncoding({ author: authorBytes, message, encoding }, committer)
  return Buffer.concat([
    Buffer.from(`tree ${tree}\nparent ${parent}\nauthor `),
    text.author,
    Buffer.from(`\ncommitter ${committer}\n`),
    Buffer.from(text.encoding === undefined ? '' : `encoding ${text.encoding}\n`, 'latin1'),
    Buffer.from('\n'),
    text.message,
  ])
}

interface CommitText {
  author: Buffer
  message: Buffer
  /** Undefined for UTF-8, or when the encoding is unknown. */
  encoding: string | undefined
}

/**
 * A commit has one encoding. If the committer's name may not fit into it, change it to UTF-8, as git's rebase
 * always does.
 */
function inCommittersEncoding(text: CommitText, committer: string): CommitText {
  if (text.encoding === undefined || /^\p{ASCII}*$/u.test(committer)) return text
  try {
    const decoder = new TextDecoder(text.encoding, { fatal: true, ignoreBOM: true })
    return {
      author: Buffer.from(decoder.decode(text.author)),
      message: Buffer.from(decoder.decode(text.message)),
      encoding: undefined,
    }
  } catch {
    return text
  }
}
