/** Creates a tree from another one and changes of single files, without a work tree or an index. */
import { storeObject } from '../objects/loose-objects.ts'
import { EMPTY_TREE } from '../refs/names.ts'
import { entryName, type FileAt, kindOf, type TreeEntry } from './tree-entries.ts'
import { readTree } from './trees.ts'

/** The changes of an entry, and of the entries below it by their names in bytes. */
interface Changes {
  /** The new entry; null: deleted. Undefined: only entries below change. */
  own?: FileAt | null
  below: Map<string, Changes>
}

/**
 * Stores the tree with these files changed (null: removed), and returns its id. Empty directories are removed. Only the
 * parent directories of the changes are written. The paths must be valid, and the files must exist as objects.
 */
export async function editTree(
  dir: string,
  tree: string,
  files: ReadonlyMap<string, FileAt | null>,
): Promise<string> {
  const root: Changes = { below: new Map() }
  for (const [path, file] of files) {
    let at = root
    for (const part of path.split('/')) {
      const name = entryName(part)
      const next: Changes = at.below.get(name) ?? { below: new Map() }
      at.below.set(name, next)
      at = next
    }
    at.own = file
  }
  return (await changed(dir, tree, root)) ?? (await storeObject(dir, 'tree', Buffer.alloc(0)))
}

/** Returns the new id of a directory; undefined for an empty one. */
async function changed(dir: string, tree: string, { below }: Changes): Promise<string | undefined> {
  const entries = new Map((await (await readTree(dir, tree)).all()).map((entry) => [entry.name, entry]))
  for (const [name, changes] of below) {
    const next = await entryAfter(dir, name, entries.get(name), changes)
    if (next === undefined) entries.delete(name)
    else entries.set(name, next)
  }
  if (entries.size === 0) return undefined
  return storeObject(dir, 'tree', treeContent([...entries.values()]))
}

async function entryAfter(
  dir: string,
  name: string,
  before: TreeEntry | undefined,
  changes: Changes,
): Promise<TreeEntry | undefined> {
  if (changes.own) return { name, ...changes.own }
  if (changes.below.size === 0) return undefined
  const tree = before !== undefined && kindOf(before) === 'dir' ? before.id : EMPTY_TREE
  const id = await changed(dir, tree, changes)
  if (id !== undefined) return { name, mode: '40000', id }
  // An entry that was not a directory stays, unless new entries are below it.
  return before !== undefined && kindOf(before) !== 'dir' && changes.own !== null ? before : undefined
}

/** git sorts a directory as if its name ended with a slash. In latin1, texts sort as their bytes. */
const sortKey = ({ name, mode }: TreeEntry) => (mode === '40000' ? `${name}/` : name)

function treeContent(entries: readonly TreeEntry[]): Buffer {
  const sorted = entries.map((entry) => ({ entry, key: sortKey(entry) }))
  sorted.sort((one, other) => (one.key < other.key ? -1 : 1))
  return Buffer.concat(
    sorted.flatMap(({ entry: { mode, name, id } }) => [
      Buffer.from(`${mode} ${name}\0`, 'latin1'),
      Buffer.from(id, 'hex'),
    ]),
  )
}
