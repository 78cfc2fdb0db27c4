/**
 * Holds the replayed documents. Most equal the stored one after a batch of events: for these only ids are kept, and a
 * later event reads the stored document. The other documents are in a temporary store.
 */
import type {
  AnyCollection,
  Change,
  Collection,
  IsolatedSnapshot,
  ReadStore,
} from '../../projections/store/read-store.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import { isSame } from './compare.ts'

export interface ReplayedDocuments extends Pick<ReadStore, 'getMany'> {
  /** Applies the changes of one batch in one collection. */
  apply(collection: AnyCollection, changes: readonly Change[]): Promise<void>
  placesOf(collection: AnyCollection): Places
}

/** Ids of documents. */
interface Places {
  /** Documents that equal the stored ones. */
  settled: ReadonlySet<string>
  /** The other documents: they are in the scratch store. */
  kept: ReadonlySet<string>
}

/** The collection without indexes: replayed documents are only read by their ids. */
export const bare = ({ name }: AnyCollection): Collection<object> => ({ name, indexes: [], arrays: [] })

/**
 * `scratch` must be empty and prepared for the `bare` collections. Without `stored`, all documents are kept
 * in it. The ids need about 100 bytes of memory per document, 100 MB for a million.
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

  /** The ids of the changed documents that now equal the stored ones. */
  async function sameIn(collection: AnyCollection, changes: readonly Change[]): Promise<ReadonlySet<string>> {
    const puts = changes.filter((change) => change.op === 'put')
    if (stored === undefined || puts.length === 0) return new Set()
    const replayed = new Map(
      puts.map(({ id, position, body }) => [id, { id, position, body, text: JSON.stringify(body) }]),
    )
    try {
      const found = await stored.getMany(bare(collection), [...replayed.keys()])
      const same = found.filter((document) => {
        const own = replayed.get(document.id)
        return own !== undefined && isSame(document, own)
      })
      return new Set(same.map(({ id }) => id))
    } catch (error) {
      // Ignore damage here: the log is checked first, and the later comparison reports the damage.
      if (error instanceof BrokenFile) return new Set()
      throw error
    }
  }

  return {
    placesOf,
    async getMany<D extends object>(collection: Collection<D>, ids: readonly string[]) {
      const { settled, kept } = placesOf(collection)
      const inStore = ids.filter((id) => settled.has(id))
      const inScratch = ids.filter((id) => kept.has(id))
      return [
        ...(stored === undefined || inStore.length === 0 ? [] : await stored.getMany(collection, inStore)),
        ...(inScratch.length === 0 ? [] : await scratch.getMany(collection, inScratch)),
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
