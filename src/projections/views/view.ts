/**
 * The reads of one collection for queries, with a cache of documents in use. The projector of the same node reports its
 * writes, so a view never returns an older version than that projector has applied.
 */
import { LRUCache } from 'lru-cache'
import { modelStopped, Refused, refuse } from '../../errors/refusal.ts'
import {
  type AnyCollection,
  type Collection,
  type Filter,
  type FindOptions,
  type FoundPage,
  LONG_DOCUMENT,
  type ReadStore,
  type Row,
  type StoredRow,
  type Touched,
} from '../store/read-store.ts'
import { roughSize } from './rough-size.ts'
import { createSharedLimit } from './shared-limit.ts'

/** Readers share the returned documents and must not change them. */
export interface View<D extends object> {
  get(id: string): Promise<D | undefined>
  /** In the order of the ids; missing ones are left out. */
  getMany(ids: readonly string[]): Promise<D[]>
  /** Returns the document that matches a filter on a unique field, and caches its id. */
  findOne(filter: Filter<D>): Promise<D | undefined>
  find(filter: Filter<D>, options?: FindOptions<D>): Promise<D[]>
  /** Returns the number of matching documents. Cached until the collection changes, because counting many is slow. */
  count(filter: Filter<D>): Promise<number>
  /** Returns the rows that `find` would return; a long document may come as its id only, to be read one at a time. */
  rows(filter: Filter<D>, options: FindOptions<D>): Promise<Row<D>[]>
  /** Returns the results of `rows` and `count` from one read; with a cached count it is the same as `rows`. */
  page(filter: Filter<D>, options: FindOptions<D>): Promise<FoundPage<D>>
  /** The ids of the documents that `find` returns. */
  someIds(filter: Filter<D>, options: FindOptions<D>): Promise<string[]>
  /** The ids of all matching documents, in no order. Cached like counts. */
  ids(filter: Filter<D>): Promise<readonly string[]>
  /** Whether its read model has stopped, so that later changes are unknown. */
  hasStopped(): boolean
  /** Takes the documents of the projector's last batch into the cache when they are few; otherwise removes them. */
  applied(touched: readonly Touched[]): void
  /** Empties the cache after the collection was rebuilt. */
  exchanged(collection: string): void
}

/** Limits of one view and of all views of a server together, in characters. */
const MAX_CHARACTERS = 32 * 1024 * 1024
export const MAX_CHARACTERS_OF_ALL = 4 * MAX_CHARACTERS
const MAX_ANSWERS = 10_000
/** Estimated memory of an id, in characters. */
const CHARACTERS_OF_ID = 16
/** Maximum number of documents cached from one batch. Larger batches are catch-up, for which no client waits. */
const MAX_TAKEN = 100

/**
 * Refusal when a view lacks a document: not found, or unavailable while the read model has stopped, as the document may
 * exist.
 */
export function notFoundIn(view: Pick<View<object>, 'hasStopped'>, message: string): Refused {
  if (!view.hasStopped()) return new Refused(refuse.notFound(message))
  return new Refused(modelStopped(`${message}: the read model has stopped, so later changes are unknown`))
}

/** `idOf` returns the id under which a document is stored. `limit` is the memory limit that all views share. */
export function createView<D extends object>(
  store: ReadStore,
  collection: Collection<D>,
  idOf: (document: D) => string,
  hasStopped: () => boolean = () => false,
  limit = createSharedLimit(MAX_CHARACTERS_OF_ALL),
): View<D> {
  const documents = limit.share(
    new LRUCache<string, D>({
      maxSize: MAX_CHARACTERS,
      maxEntrySize: MAX_CHARACTERS / 64,
      sizeCalculation: (document) => roughSize(document),
    }),
  )
  // Limited by size, because `max` would allocate memory for all entries at once.
  const answers = new LRUCache<string, string>({ maxSize: MAX_ANSWERS, sizeCalculation: () => 1 })
  // Limited by size, because clients can invent any number of names.
  const counts = limit.share(
    new LRUCache<string, number>({
      maxSize: MAX_CHARACTERS / 8,
      sizeCalculation: (_, key) => key.length,
    }),
  )
  const idLists = limit.share(
    new LRUCache<string, readonly string[]>({
      maxSize: MAX_CHARACTERS / 2,
      sizeCalculation: (ids, key) => key.length + CHARACTERS_OF_ID * ids.length,
    }),
  )
  // Most lists return documents that are cached already; equal text is the same document, so it is not parsed again.
  const documentsByText = limit.share(
    new LRUCache<string, D>({
      maxSize: MAX_CHARACTERS / 32,
      maxEntrySize: LONG_DOCUMENT,
      sizeCalculation: (_, text) => text.length,
    }),
  )
  // Counts the changes of the collection. A read that overlaps with a change may return the older version, so its
  // result is not cached.
  let generation = 0

  async function readAndCache<V>(read: () => Promise<V>, cache: (value: V) => void): Promise<V> {
    const before = generation
    const value = await read()
    if (before === generation) {
      cache(value)
      limit.keep()
    }
    return value
  }

  /** Returns the cached value, or reads and caches it. Undefined is not cached. */
  async function cached<V extends NonNullable<unknown>, Read extends V | undefined>(
    memory: LRUCache<string, V>,
    key: string,
    read: () => Promise<Read>,
  ): Promise<V | Read> {
    return memory.get(key) ?? (await readAndCache(read, (value) => memory.set(key, value)))
  }

  async function storedMany(ids: readonly string[]): Promise<ReadonlyMap<string, D>> {
    const found = await readAndCache(
      () => store.getMany(collection, ids),
      (read) => {
        for (const { id, body } of read) documents.set(id, body)
      },
    )
    return new Map(found.map(({ id, body }) => [id, body]))
  }

  function documentOf(row: StoredRow<D>): Row<D> {
    if (!('text' in row)) return row
    const known = documentsByText.get(row.text)
    if (known !== undefined) return { body: known }
    const body = row.parse(row.text)
    documentsByText.set(row.text, body)
    limit.keep()
    return { body }
  }

  const rows = async (filter: Filter<D>, options: FindOptions<D>) =>
    (await store.rows(collection, filter, options)).map(documentOf)

  const { wordsIn = {} }: AnyCollection = collection
  const partNames = new Set(Object.values(wordsIn).map((parts) => parts?.name))

  const isOwn = (one: Touched): one is Touched<D> => one.collection.name === collection.name

  const get = (id: string) => cached(documents, id, () => store.get(collection, id))

  return {
    get,
    async getMany(ids) {
      const known = ids.map((id) => documents.get(id))
      const missing = ids.filter((_, i) => known[i] === undefined)
      const stored = missing.length === 0 ? undefined : await storedMany(missing)
      return ids.flatMap((id, i) => known[i] ?? stored?.get(id) ?? [])
    },
    async findOne(filter) {
      const key = JSON.stringify(filter)
      const id = answers.get(key)
      const known = id === undefined ? undefined : await get(id)
      // The cached document may have changed or be deleted: then query the store.
      if (known !== undefined && matches(known, filter)) return known
      const [document] = await store.find(collection, filter, { limit: 1 })
      if (document !== undefined) answers.set(key, idOf(document))
      return document
    },
    find: (filter, options) => store.find(collection, filter, options),
    rows,
    count: (filter) => cached(counts, JSON.stringify(filter), () => store.count(collection, filter)),
    async page(filter, options) {
      const key = JSON.stringify(filter)
      const total = counts.get(key)
      if (total === undefined) {
        const page = await readAndCache(
          () => store.page(collection, filter, options),
          (page) => counts.set(key, page.total),
        )
        return { rows: page.rows.map(documentOf), total: page.total }
      }
      if ((options.skip ?? 0) >= total) return { rows: [], total }
      return { rows: await rows(filter, options), total }
    },
    async someIds(filter, options) {
      const found = await rows(filter, options)
      return found.map((row) => ('id' in row ? row.id : idOf(row.body)))
    },
    ids: (filter) => cached(idLists, JSON.stringify(filter), () => store.ids(collection, filter)),
    hasStopped,
    applied(touched) {
      const own = touched.filter(isOwn)
      if (own.length === 0 && !touched.some((one) => partNames.has(one.collection.name))) return
      generation += 1
      counts.clear()
      idLists.clear()
      const areFew = own.length <= MAX_TAKEN
      for (const { id, body } of own) {
        // The client that made the change usually reads it next.
        if (areFew && body !== undefined) documents.set(id, body)
        else documents.delete(id)
      }
      limit.keep()
    },
    exchanged(name) {
      if (name !== collection.name && !partNames.has(name)) return
      generation += 1
      for (const memory of [documents, documentsByText, answers, counts, idLists]) memory.clear()
    },
  }
}

/** Whether a document has these values. Only for filters by equality. */
function matches<D extends object>(document: D, filter: Filter<D>): boolean {
  return Object.entries(filter).every(([field, wanted]) => Reflect.get(document, field) === wanted)
}
