/**
 * Caches the documents that a projector has written lately, because the next events often change the same ones, such as
 * the repository of each new issue. They are valid only while this server alone writes the read model, and are evicted
 * after a write that this server may have missed. Collections whose documents are never read before a write are not
 * cached.
 */
import { LRUCache } from 'lru-cache'
import type { AnyCollection, Change, Collection, ReadStore, Stored } from '../store/read-store.ts'
import { roughSize } from '../views/rough-size.ts'
import { createSharedLimit } from '../views/shared-limit.ts'

/** Limits of the cache: documents of a collection, their characters, and the characters of all collections together. */
const MAX_DOCUMENTS = 10_000
const MAX_CHARACTERS = 8 * 1024 * 1024
const MAX_CHARACTERS_OF_ALL = 4 * MAX_CHARACTERS

type Documents = LRUCache<string, Stored<object>>

const isThere = <D extends object>(_: Collection<D>, one: Stored<object> | undefined): one is Stored<D> =>
  one !== undefined

export type WrittenDocuments = ReturnType<typeof createWrittenDocuments>

export function createWrittenDocuments(views: Pick<ReadStore, 'getMany'>) {
  const collections = new Map<string, Documents>()
  const limit = createSharedLimit(MAX_CHARACTERS_OF_ALL)

  function documentsOf({ name }: AnyCollection): Documents {
    const known = collections.get(name)
    if (known !== undefined) return known
    const documents: Documents = limit.share(
      new LRUCache({
        max: MAX_DOCUMENTS,
        maxSize: MAX_CHARACTERS,
        maxEntrySize: MAX_CHARACTERS / 64,
        sizeCalculation: ({ body }) => roughSize(body),
      }),
    )
    collections.set(name, documents)
    return documents
  }

  return {
    /** Like `getMany` of the store, which is called only for documents outside the cache. */
    async getMany<D extends object>(collection: Collection<D>, ids: readonly string[]): Promise<Stored<D>[]> {
      const documents = documentsOf(collection)
      const found: Stored<D>[] = []
      const missing = ids.filter((id) => {
        const known = documents.get(id)
        if (!isThere(collection, known)) return true
        found.push(known)
        return false
      })
      return missing.length === 0 ? found : [...found, ...(await views.getMany(collection, missing))]
    },
    /** Caches written changes, a list for each collection. */
    written(lists: readonly (readonly Change[])[]): void {
      for (const change of lists.flat()) {
        const documents = collections.get(change.collection.name)
        if (change.op === 'delete') documents?.delete(change.id)
        else documents?.set(change.id, toStored(change))
      }
      limit.keep()
    },
    /** Evicts the documents of a collection, or all. */
    forget(collection?: AnyCollection): void {
      for (const [name, documents] of collections) {
        if (collection === undefined || collection.name === name) documents.clear()
      }
    },
  }
}

function toStored({ id, position, body }: Extract<Change, { op: 'put' }>): Stored<object> {
  return { id, position, body }
}
