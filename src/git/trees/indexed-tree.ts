/**
 * A tree as git wrote it, with the offsets of every few entries. It takes a quarter of the memory of entries as objects, so
 * that trees of hundreds of thousands of entries can be cached.
 */
import { timeSlices } from '../../concurrency/event-loop.ts'
import { modeAsRead, type TreeEntry } from './tree-entries.ts'
import { type EntryPlace, entryIn, placesIn } from './tree-neighbors.ts'

export interface IndexedTree {
  /** Number of entries. */
  size: number
  /** Size in memory, in bytes. */
  bytes: number
  /** Returns some entries, in git's order. */
  page(skip: number, limit: number): TreeEntry[]
  /** Returns the entries with these names (as bytes in latin1), by name. */
  named(names: Iterable<string>): Promise<Map<string, TreeEntry>>
  /** Returns all entries, in git's order. */
  all(): Promise<TreeEntry[]>
}

/** Distance of the entries with a known offset. The search for a page starts at the last one before it. */
const STEP = 500
/** Memory of a tree besides its bytes. */
const OVERHEAD = 512

function treeEntryIn(content: Buffer, place: EntryPlace): TreeEntry {
  const entry = entryIn(content, place)
  return { ...entry, mode: modeAsRead(entry.mode) }
}

/**
 * Indexes and keeps `content`, which must not be a slice of a larger buffer. `dir`: the repository that the work counts
 * for.
 */
export async function indexedTree(dir: string, content: Buffer): Promise<IndexedTree> {
  const starts: number[] = []

  /** Visits the entries in slices until `visit` returns true. Resolves to the number of skipped entries. */
  async function each(visit: (place: EntryPlace) => boolean): Promise<number> {
    const slices = timeSlices(dir)
    let seen = 0
    for (const place of placesIn(content)) {
      if (visit(place)) break
      seen += 1
      if (slices.isOver()) await slices.next()
    }
    return seen
  }

  let counted = 0
  const size = await each(({ at }) => {
    if (counted % STEP === 0) starts.push(at)
    counted += 1
    return false
  })

  return {
    size,
    bytes: content.length + 8 * starts.length + OVERHEAD,
    page(skip, limit) {
      const entries: TreeEntry[] = []
      const first = Math.floor(skip / STEP)
      let index = first * STEP
      for (const place of placesIn(content, starts[first] ?? content.length)) {
        if (index >= skip + limit) break
        if (index >= skip) entries.push(treeEntryIn(content, place))
        index += 1
      }
      return entries
    },
    async named(names) {
      const missing = new Set(names)
      const lengths = new Set([...missing].map(({ length }) => length))
      const found = new Map<string, TreeEntry>()
      if (missing.size === 0) return found
      await each((place) => {
        const { space, end } = place
        if (!lengths.has(end - space - 1)) return false
        const name = content.toString('latin1', space + 1, end)
        if (missing.delete(name)) found.set(name, treeEntryIn(content, place))
        return missing.size === 0
      })
      return found
    },
    async all() {
      const entries: TreeEntry[] = []
      await each((place) => {
        entries.push(treeEntryIn(content, place))
        return false
      })
      return entries
    },
  }
}
