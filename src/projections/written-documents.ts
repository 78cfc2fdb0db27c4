/**
 * The documents that a projector has written lately: the next events often change the same ones, such as the repository
 * of each new issue. It holds only while this server alone writes the read model; whoever may have missed a write
 * forgets. Collections whose documents are never read before they are written are not kept.
 */
import { LRUCache } from 'lru-cache'
import type { AnyCollection, Change, Collection, ReadStore, Stored } from './read-store.ts'
import { roughSize } from './rough-size.ts'

/** The most documents of a collection, and about how many characters they have. */
const MAX_DOCUMENTS = 10_000
const MAX_CHARACTERS = 8 * 1024 * 1024

type Documents = LRUCache<string, Stored<object>>

const isThere = <D extends object>(_: Collection<D>, one: Stored<object> | undefined): one is Stored<D> =>
  one !== undefined

export function createWrittenDocuments(views: Pick<ReadStore, 'getMany'>) {
  const collections = new Map<string, Documents>()

  function documentsOf({ name }: AnyCollection): Documents {
    const documents: Documents =
      collections.get(name) ??
      new LRUCache({
        max: MAX_DOCUMENTS,
        maxSize: MAX_CHARACTERS,
        maxEntrySize: MAX_CHARACTERS / 64,
        sizeCalculation: ({ body }) => roughSize(body),
      })
    collections.set(name, documents)
    return documents
  }

  return {
    /** As the store's own, without a read for what is known here. */
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
    /** These changes are in the store. */
    written(changes: readonly Change[]): void {
      for (const change of changes) {
        const documents = collections.get(change.collection.name)
        if (change.op === 'delete') documents?.delete(change.id)
        else documents?.set(change.id, { id: change.id, position: change.position, body: change.body })
      }
    },
    /** Forgets the documents of a collection, or all. */
    forget(collection?: AnyCollection): void {
      if (collection === undefined) collections.clear()
      else collections.delete(collection.name)
    },
  }
}
