/**
 * The documents that the log gives, while it is replayed. Most are, after the last event that a batch has for
 * them, just what is stored: only the ids of those are kept, and the stored ones are read again when a later
 * event changes them. The others are kept in a store that is thrown away afterwards.
 */
import type {
  AnyCollection,
  Change,
  Collection,
  IsolatedSnapshot,
  ReadStore,
} from '../projections/read-store.ts'
import { BrokenFile } from '../sqlite.ts'
import { isSame } from './compare.ts'

export interface ReplayedDocuments extends Pick<ReadStore, 'getMany'> {
  /** What a batch changes in one collection. */
  apply(collection: AnyCollection, changes: readonly Change[]): Promise<void>
  placesOf(collection: AnyCollection): Places
}

/** Ids of documents. */
export interface Places {
  /** Those that are as they are stored. */
  settled: ReadonlySet<string>
  /** All others: they are in the scratch store. */
  kept: ReadonlySet<string>
}

/** The collection without what queries need: nobody asks the replayed documents but by their ids. */
export const bare = ({ name }: AnyCollection): Collection<object> => ({ name, indexes: [], arrays: [] })

/**
 * `scratch` is empty and prepared for the `bare` collections. Without `stored` all documents are kept there. Ids
 * take some 100 bytes for each document, 100 MB for a million.
 */
export function createReplayedDocuments(
  scratch: ReadStore,
  stored: IsolatedSnapshot | undefined,
): ReplayedDocuments {
  const places = new Map<string, { settled: Set<string>; kept: Set<string> }>()

  function placesOf({ name }: AnyCollection) {
    const known = places.get(name) ?? { settled: new Set(), kept: new Set() }
    places.set(name, known)
    return known
  }

  /** The ids of the changed documents that are now as they are stored. */
  async function sameIn(collection: AnyCollection, changes: readonly Change[]): Promise<ReadonlySet<string>> {
    const puts = changes.filter((change) => change.op === 'put')
    if (stored === undefined || puts.length === 0) return new Set()
    const made = new Map(
      puts.map(({ id, position, body }) => [id, { id, position, body, text: JSON.stringify(body) }]),
    )
    try {
      const there = await stored.getMany(bare(collection), [...made.keys()])
      const same = there.filter((document) => {
        const own = made.get(document.id)
        return own !== undefined && isSame(document, own)
      })
      return new Set(same.map(({ id }) => id))
    } catch (error) {
      // The log is checked first, to its end; the comparison then says what is damaged.
      if (error instanceof BrokenFile) return new Set()
      throw error
    }
  }

  return {
    placesOf,
    async getMany<D extends object>(collection: Collection<D>, ids: readonly string[]) {
      const { settled, kept } = placesOf(collection)
      const there = ids.filter((id) => settled.has(id))
      const here = ids.filter((id) => kept.has(id))
      return [
        ...(stored === undefined || there.length === 0 ? [] : await stored.getMany(collection, there)),
        ...(here.length === 0 ? [] : await scratch.getMany(collection, here)),
      ]
    },
    async apply(collection, changes) {
      const { settled, kept } = placesOf(collection)
      const same = await sameIn(collection, changes)
      const writes: Change[] = []
      for (const change of changes) {
        const { id } = change
        if (same.has(id)) settled.add(id)
        else settled.delete(id)
        if (change.op === 'put' && !same.has(id)) {
          kept.add(id)
          writes.push({ ...change, collection: bare(collection) })
        } else if (kept.delete(id)) {
          writes.push({ op: 'delete', collection: bare(collection), id })
        }
      }
      if (writes.length > 0) await scratch.apply(writes, new Map())
    },
  }
}
