/** Reads trees: the entries of a directory at a commit, and single entries by path. */
import { unpooledBuffer } from '../../concurrency/unpooled-buffer.ts'
import { commitFacts } from '../commits/commits.ts'
import { MAX_READ_BYTES } from '../objects/object-reader.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { createAnswerCache } from '../process/answer-cache.ts'
import { GitFailed } from '../process/errors.ts'
import { gitOutput } from '../process/run.ts'
import { EMPTY_TREE } from '../refs/names.ts'
import { type IndexedTree, indexedTree } from './indexed-tree.ts'
import { entryName, kindOf, type TreeEntry } from './tree-entries.ts'

/** Maximum size of a tree, in bytes: some 400,000 entries. */
const MAX_TREE_BYTES = 16 * 1024 * 1024
/** Size of the cache, in bytes: the largest tree must fit. */
const CACHE_BYTES = 2 * MAX_TREE_BYTES

const trees = createAnswerCache<IndexedTree>(CACHE_BYTES, ({ bytes }) => bytes)

/**
 * Returns a tree, from a cache if possible: trees never change.
 * @throws GitFailed when it does not exist, GitOutputTooLarge, GitUnavailable, RepositoryMissing
 */
export function readTree(dir: string, id: string): Promise<IndexedTree> {
  return trees(`${dir}\0${id}`, async () => indexedTree(dir, await treeContent(dir, id)))
}

async function treeContent(dir: string, id: string): Promise<Buffer> {
  if (id === EMPTY_TREE) return Buffer.alloc(0)
  const [header] = await objectReaders.headers(dir, [id])
  if (header?.type !== 'tree') throw new GitFailed(['cat-file'], 0, `${id} is not a tree`)
  if (header.size > MAX_READ_BYTES) {
    return gitOutput(['cat-file', 'tree', id], { dir, queue: 'query', maxOutput: MAX_TREE_BYTES })
  }
  let content: Buffer = Buffer.alloc(0)
  await objectReaders.contents(dir, [header], (_, found) => {
    content = unpooledBuffer(found)
  })
  return content
}

/** Returns the id of a commit's tree. @throws GitFailed for a missing commit */
export async function treeOf(dir: string, commit: string): Promise<string> {
  const facts = (await commitFacts(dir, [commit])).get(commit)
  if (facts === undefined) throw new GitFailed(['cat-file'], 0, `${commit} is not a commit`)
  return facts.tree
}

/**
 * Returns the entry at a path below a tree, given the names of its parts; for an empty list the tree itself. Undefined for
 * a missing entry. Follows neither links nor submodules.
 */
export async function entryAt(
  dir: string,
  tree: string,
  parts: readonly string[],
): Promise<TreeEntry | undefined> {
  let at: TreeEntry = { mode: '40000', name: '', id: tree }
  for (const part of parts) {
    if (kindOf(at) !== 'dir') return undefined
    const name = entryName(part)
    const next: TreeEntry | undefined = (await (await readTree(dir, at.id)).named([name])).get(name)
    if (next === undefined) return undefined
    at = next
  }
  return at
}

/**
 * Returns the entries at these paths and at their parent directories, by path; missing ones are left out. Reads each
 * directory once.
 */
export async function entriesAlongPaths(
  dir: string,
  tree: string,
  paths: Iterable<string>,
): Promise<Map<string, TreeEntry>> {
  const found = new Map<string, TreeEntry>()
  await descend(
    dir,
    tree,
    '',
    [...new Set(paths)].map((path) => path.split('/')),
    found,
  )
  return found
}

async function descend(
  dir: string,
  tree: string,
  above: string,
  ways: readonly (readonly string[])[],
  found: Map<string, TreeEntry>,
): Promise<void> {
  const below = new Map<string, string[][]>()
  for (const [part, ...rest] of ways) {
    if (part === undefined) continue
    const others = below.get(part) ?? []
    below.set(part, rest.length === 0 ? others : [...others, rest])
  }
  const wanted = new Map(below.keys().map((part) => [entryName(part), part]))
  for (const [name, entry] of await (await readTree(dir, tree)).named(wanted.keys())) {
    const part = wanted.get(name)
    if (part === undefined) continue
    const path = `${above}${part}`
    found.set(path, entry)
    const rest = below.get(part) ?? []
    if (rest.length > 0 && kindOf(entry) === 'dir') await descend(dir, entry.id, `${path}/`, rest, found)
  }
}
