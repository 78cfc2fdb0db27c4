/** Finds the objects of old commits beside the changes of a push. Clients use them as delta bases. */

import type { ObjectHeader } from '../objects/batch-answers.ts'
import type { ObjectType } from '../objects/loose-objects.ts'
import { MAX_READ_BYTES } from '../objects/object-reader.ts'
import { objectReaders } from '../objects/object-readers.ts'

/** Maximum number of examined commits, of paths, and of trees. */
export const MAX_NEIGHBORS = 1000

/** Object type by mode of an entry. Other modes are submodules, whose ids belong to other repositories. */
export const TYPE_OF_MODE: ReadonlyMap<string, ObjectType> = new Map([
  ['40000', 'tree'],
  ['100644', 'blob'],
  ['100755', 'blob'],
  ['100664', 'blob'],
  ['120000', 'blob'],
])
const ID_BYTES = 20
/** Batch size of tree reads, in bytes: parsing the entries blocks the event loop. */
const BATCH_BYTES = 256 * 1024

/**
 * Returns all entries of each tree from the root down to the paths, in the trees of these commits. Leaves out large trees,
 * and submodules, because a client may write any id there. Starts no process.
 * @throws GitUnavailable, GitFailed, RepositoryMissing
 */
export async function idsBesidePaths(
  dir: string,
  commits: readonly string[],
  paths: ReadonlySet<string>,
): Promise<Set<string>> {
  const near = new Set<string>()
  const onTheWay = new Set([...paths].flatMap(directoriesTo))
  let level: { id: string; path: string }[] = []
  await contents(dir, commits, 'commit', (_, commit) => {
    const [, id] = /^tree ([0-9a-f]{40})\n/.exec(commit.toString('latin1', 0, 46)) ?? []
    if (id !== undefined) level.push({ id, path: '' })
  })
  for (let looked = 0; level.length > 0 && looked < MAX_NEIGHBORS; looked += level.length) {
    const next = new Map<string, { id: string; path: string }>()
    const ofTree = Map.groupBy(level, ({ id }) => id)
    for (const id of ofTree.keys()) near.add(id)
    await contents(dir, [...ofTree.keys()], 'tree', (id, tree) => {
      for (const entry of entriesOf(tree)) {
        const type = TYPE_OF_MODE.get(entry.mode)
        if (type !== undefined) near.add(entry.id)
        if (type !== 'tree') continue
        for (const { path } of ofTree.get(id) ?? []) {
          const inner = path === '' ? entry.name : `${path}/${entry.name}`
          if (onTheWay.has(inner)) next.set(`${entry.id} ${inner}`, { id: entry.id, path: inner })
        }
      }
    })
    level = [...next.values()].slice(0, MAX_NEIGHBORS)
  }
  return near
}

function directoriesTo(path: string): string[] {
  const parts = path.split('/')
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'))
}

async function contents(
  dir: string,
  ids: readonly string[],
  type: string,
  found: (id: string, content: Buffer) => void,
): Promise<void> {
  const headers = await objectReaders.headers(dir, ids)
  const wanted = headers.filter((header) => header?.type === type && header.size <= MAX_READ_BYTES)
  let batch: ObjectHeader[] = []
  let bytes = 0
  const readBatch = async () => {
    await objectReaders.contents(dir, batch, ({ sha }, content) => found(sha, content))
    batch = []
    bytes = 0
  }
  for (const header of wanted) {
    if (header === undefined) continue
    if (bytes > 0 && bytes + header.size > BATCH_BYTES) await readBatch()
    batch.push(header)
    bytes += header.size
  }
  await readBatch()
}

/** Offsets of a tree entry: of its mode (`at`), of the end of its name (`end`), and of the next entry (`next`). */
export interface EntryPlace {
  at: number
  space: number
  end: number
  next: number
}

/** The entries of a tree, each as `MODE NAME NUL ID`. Names are bytes in latin1. */
export function* entriesOf(tree: Buffer): Generator<{ mode: string; name: string; id: string }> {
  for (const place of placesIn(tree)) yield entryIn(tree, place)
}

/** The entry at a place of a tree. */
export const entryIn = (tree: Buffer, { at, space, end, next }: EntryPlace) => ({
  mode: tree.toString('latin1', at, space),
  name: tree.toString('latin1', space + 1, end),
  id: tree.toString('hex', end + 1, next),
})

/** Yields the offsets of a tree's entries from `start`. */
export function* placesIn(tree: Buffer, start = 0): Generator<EntryPlace> {
  for (let at = start; at < tree.length; ) {
    const space = tree.indexOf(0x20, at)
    const end = tree.indexOf(0, space)
    if (space === -1 || end === -1) return
    const next = end + 1 + ID_BYTES
    yield { at, space, end, next }
    at = next
  }
}
