/** Finds the commits that last changed entries of a directory, as `git log -1 -- PATH` does. */
import { createHash } from 'node:crypto'
import { pathArguments } from '../objects/byte-names.ts'
import { createAnswerCache } from '../process/answer-cache.ts'
import type { GitSlot } from '../process/limits.ts'
import { rememberingFailure } from '../process/remembered-failures.ts'
import { gitOutput } from '../process/run.ts'
import { checkedId } from '../refs/names.ts'
import { entryAt, readTree } from '../trees/trees.ts'
import { commitFacts } from './commits.ts'

/** Maximum number of commits to read through the object reader; most files have changed within them. */
const MAX_STEPS = 150

/** The ids of the entries, by their names, at a commit. */
type Entries = ReadonlyMap<string, string>

const answers = createAnswerCache<ReadonlyMap<string, string>>(200_000, ({ size }) => 1 + size)

/** Returns the ids of these entries of the directory at a commit; missing ones are left out. */
async function entriesIn(
  dir: string,
  tree: string,
  directory: readonly string[],
  names: ReadonlySet<string>,
): Promise<Entries> {
  const found = await entryAt(dir, tree, directory)
  if (found?.mode !== '40000') return new Map()
  const entries = await (await readTree(dir, found.id)).named(names)
  return new Map([...entries].map(([name, { mode, id }]) => [name, `${mode} ${id}`]))
}

/**
 * Returns the last commit that changed each entry of the directory (names as in trees), as seen from `commit`. Leaves
 * out entries without a change in the last 150 commits. Starts no process.
 */
export function lastCommits(
  dir: string,
  commit: string,
  directory: readonly string[],
  names: ReadonlySet<string>,
): Promise<ReadonlyMap<string, string>> {
  const namesKey = createHash('sha1')
    .update([...names].join('/'))
    .digest('hex')
  return answers([dir, commit, directory.join('/'), namesKey].join('\0'), () =>
    walk(dir, commit, directory, names),
  )
}

async function walk(
  dir: string,
  commit: string,
  directory: readonly string[],
  names: ReadonlySet<string>,
): Promise<ReadonlyMap<string, string>> {
  const last = new Map<string, string>()
  /** By commit, in the order of discovery: the entries that it has in their present state. */
  const open = new Map<string, Set<string>>([[commit, new Set(names)]])
  for (let steps = 0; open.size > 0 && steps < MAX_STEPS; steps++) {
    const [next] = open
    if (next === undefined) break
    const [sha, mine] = next
    open.delete(sha)
    const facts = (await commitFacts(dir, [sha])).get(sha)
    if (facts === undefined) continue
    const here = await entriesIn(dir, facts.tree, directory, mine)
    const left = new Set(mine)
    const parents = await commitFacts(dir, facts.parents)
    for (const parent of facts.parents) {
      const tree = parents.get(parent)?.tree
      if (tree === undefined || left.size === 0) continue
      const there = tree === facts.tree ? here : await entriesIn(dir, tree, directory, left)
      const same = [...left].filter((name) => there.get(name) === here.get(name))
      if (same.length === 0) continue
      const waiting = open.get(parent) ?? new Set()
      for (const name of same) {
        left.delete(name)
        waiting.add(name)
      }
      open.set(parent, waiting)
    }
    for (const name of left) last.set(name, sha)
  }
  return last
}

/** Time limit for this detail of an answer, in milliseconds. */
const MAX_MS = 5000

const pathCommits = createAnswerCache<{ sha: string }>(50_000, () => 1)

/**
 * Returns the last commit of a path, searching the whole history. Starts a process in the caller's slot.
 * @throws GitTooSlow
 */
export async function lastCommitOfPath(
  dir: string,
  commit: string,
  path: string,
  { queue, timeout, signal }: GitSlot,
): Promise<string | undefined> {
  const key = `${dir}\0${commit}\0${path}`
  const read = async (unwanted: AbortSignal) => {
    const last = pathArguments(path)
    const args = ['--literal-pathspecs', 'rev-list', '-1', checkedId(commit), ...last.args]
    const options = {
      dir,
      ...(last.input && { input: last.input }),
      queue,
      signal: unwanted,
      timeout: Math.min(timeout ?? MAX_MS, MAX_MS),
    }
    return { sha: (await gitOutput(args, options)).toString('latin1').trim() }
  }
  const answer = await rememberingFailure(`last commit\0${key}`, () => pathCommits(key, read, signal))
  return answer.sha || undefined
}
