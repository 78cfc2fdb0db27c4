/**
 * A collection as queries see it: the store's reads, with the documents in use kept in memory. Each node's
 * own projector reports what it wrote, so a view answers what that projector has applied, never older.
 */
import { LRUCache } from 'lru-cache'
import type { Collection, Filter, FindOptions, ReadStore, Touched } from './read-store.ts'

/** Documents that a view returns are shared: readers must not change them. */
export interface View<D extends object> {
  get(id: string): Promise<D | undefined>
  /** In the order of the ids; missing ones are left out. */
  getMany(ids: readonly string[]): Promise<D[]>
  /** The one document that matches, for filters that name a unique field; which one it is is remembered. */
  findOne(filter: Filter<D>): Promise<D | undefined>
  find(filter: Filter<D>, options?: FindOptions<D>): Promise<D[]>
  /** Remembered until something in the collection changes: counting many takes its time. */
  count(filter: Filter<D>): Promise<number>
  /** The ids of all that match, in no order; remembered as counts are. */
  ids(filter: Filter<D>): Promise<readonly string[]>
  /** Forgets what the projector's last batch concerns. */
  applied(touched: readonly Touched[]): void
  /** Forgets everything of a collection that was made anew. */
  exchanged(collection: string): void
}

const MAX_CHARACTERS = 32 * 1024 * 1024
const MAX_ANSWERS = 10_000
const MAX_IDS = 1_000_000

/** `idOf`: under which id a document is stored. */
export function createView<D extends object>(
  store: ReadStore,
  collection: Collection<D>,
  idOf: (document: D) => string,
): View<D> {
  const documents = new LRUCache<string, D>({
    maxSize: MAX_CHARACTERS,
    maxEntrySize: MAX_CHARACTERS / 64,
    sizeCalculation: roughSize,
  })
  const answers = new LRUCache<string, string>({ max: MAX_ANSWERS })
  const counts = new LRUCache<string, number>({
    maxSize: MAX_CHARACTERS / 8,
    sizeCalculation: (_, question) => question.length,
  })
  const idLists = new LRUCache<string, readonly string[]>({
    maxSize: MAX_IDS,
    sizeCalculation: (ids) => 1 + ids.length,
  })
  // A read that was under way while the projector wrote may hold the version before: it is not kept.
  let generation = 0

  async function remember<V>(read: () => Promise<V>, keep: (value: V) => void): Promise<V> {
    const before = generation
    const value = await read()
    if (before === generation) keep(value)
    return value
  }

  async function get(id: string): Promise<D | undefined> {
    return (
      documents.get(id) ??
      (await remember(
        () => store.get(collection, id),
        (document) => document && documents.set(id, document),
      ))
    )
  }

  return {
    get,
    async getMany(ids) {
      const found = new Map(ids.map((id) => [id, documents.get(id)]))
      const missing = ids.filter((id) => found.get(id) === undefined)
      if (missing.length > 0) {
        const stored = await remember(
          () => store.getMany(collection, missing),
          (read) => {
            for (const { id, body } of read) documents.set(id, body)
          },
        )
        for (const { id, body } of stored) found.set(id, body)
      }
      return ids.map((id) => found.get(id)).filter((document) => document !== undefined)
    },
    async findOne(filter) {
      const question = JSON.stringify(filter)
      const id = answers.get(question)
      const known = id === undefined ? undefined : await get(id)
      // It may have another name by now, or be gone: then the store is asked again.
      if (known !== undefined && matches(known, filter)) return known
      const [document] = await store.find(collection, filter, { limit: 1 })
      if (document !== undefined) answers.set(question, idOf(document))
      return document
    },
    find: (filter, options) => store.find(collection, filter, options),
    async count(filter) {
      const question = JSON.stringify(filter)
      return (
        counts.get(question) ??
        (await remember(
          () => store.count(collection, filter),
          (count) => counts.set(question, count),
        ))
      )
    },
    async ids(filter) {
      const question = JSON.stringify(filter)
      return (
        idLists.get(question) ??
        (await remember(
          () => store.ids(collection, filter),
          (ids) => idLists.set(question, ids),
        ))
      )
    },
    applied(touched) {
      const own = touched.filter((one) => one.collection.name === collection.name)
      if (own.length === 0) return
      generation += 1
      counts.clear()
      idLists.clear()
      for (const { id } of own) documents.delete(id)
    },
    exchanged(name) {
      if (name !== collection.name) return
      generation += 1
      for (const memory of [documents, answers, counts, idLists]) memory.clear()
    },
  }
}

/** Whether a document has exactly these values: filters by equality alone. */
function matches<D extends object>(document: D, filter: Filter<D>): boolean {
  return Object.entries(filter).every(([field, wanted]) => Reflect.get(document, field) === wanted)
}

function roughSize(document: object): number {
  return Object.values(document).reduce<number>(
    (sum, value) => sum + (typeof value === 'string' ? value.length : 50),
    200,
  )
}
