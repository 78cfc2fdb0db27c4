/**
 * The reads of one collection for queries, with a cache of documents in use. The projector of the same node reports
 * what it wrote, so a view never answers with an older version than that projector has applied.
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

/** Returned documents are shared by all readers: nobody may change them. */
export interface View<D extends object> {
  get(id: string): Promise<D | undefined>
  /** In the order of the ids; missing ones are left out. */
  getMany(ids: readonly string[]): Promise<D[]>
  /** The one document that matches a filter on a unique field. The view caches its id. */
  findOne(filter: Filter<D>): Promise<D | undefined>
  find(filter: Filter<D>, options?: FindOptions<D>): Promise<D[]>
  /** The number of matching documents. Cached until the collection changes, because counting many is slow. */
  count(filter: Filter<D>): Promise<number>
  /** What `find` returns, long documents perhaps only as their ids. They are got one by one then. */
  rows(filter: Filter<D>, options: FindOptions<D>): Promise<Row<D>[]>
  /** What `rows` and `count` return. It is one read: with the count in the cache it is `rows`. */
  page(filter: Filter<D>, options: FindOptions<D>): Promise<FoundPage<D>>
  /** The ids of the documents that `find` returns. */
  someIds(filter: Filter<D>, options: FindOptions<D>): Promise<string[]>
  /** The ids of all matching documents, in no order. Cached like counts. */
  ids(filter: Filter<D>): Promise<readonly string[]>
  /** Whether its read model has stopped: then nobody knows here what was made since. */
  hasStopped(): boolean
  /** Takes the documents of the projector's last batch into the cache when they are few; otherwise removes them. */
  applied(touched: readonly Touched[]): void
  /** Empties the cache after the collection was rebuilt. */
  exchanged(collection: string): void
}

/** What one view may have in memory, and what all views of a server may have together. */
const MAX_CHARACTERS = 32 * 1024 * 1024
export const MAX_CHARACTERS_OF_ALL = 4 * MAX_CHARACTERS
const MAX_ANSWERS = 10_000
/** What an id takes in memory. */
const CHARACTERS_OF_ID = 16
/** The most documents of one batch that the cache takes. Nobody waits for those of a long log that is caught up with. */
const MAX_TAKEN = 100

/**
 * The refusal for what a view does not have: not found. While the read model has stopped, what is asked for may have
 * been made since: then the refusal is "unavailable".
 */
export function notFoundIn(view: Pick<View<object>, 'hasStopped'>, message: string): Refused {
  if (!view.hasStopped()) return new Refused(refuse.notFound(message))
  return new Refused(
    modelStopped(`${message}: the read model has stopped, so what was made since is not known`),
  )
}

/** `idOf` returns the id under which a document is stored. `limit`: of the memory of all views together. */
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
  // Counted by size, as the others: `max` would take memory for all of them at the start.
  const answers = new LRUCache<string, string>({ maxSize: MAX_ANSWERS, sizeCalculation: () => 1 })
  // The questions count: clients may ask for as many names as they like, each of which nobody has.
  const counts = limit.share(
    new LRUCache<string, number>({
      maxSize: MAX_CHARACTERS / 8,
      sizeCalculation: (_, question) => question.length,
    }),
  )
  const idLists = limit.share(
    new LRUCache<string, readonly string[]>({
      maxSize: MAX_CHARACTERS / 2,
      sizeCalculation: (ids, question) => question.length + CHARACTERS_OF_ID * ids.length,
    }),
  )
  // Most lists show what they have shown before: the same text is the same document, and need not be read again.
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

  /** The value that the cache has for the key, else the one that is read. Setting undefined caches nothing. */
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
      const question = JSON.stringify(filter)
      const id = answers.get(question)
      const known = id === undefined ? undefined : await get(id)
      // The cached document may have changed or be deleted: then ask the store again.
      if (known !== undefined && matches(known, filter)) return known
      const [document] = await store.find(collection, filter, { limit: 1 })
      if (document !== undefined) answers.set(question, idOf(document))
      return document
    },
    find: (filter, options) => store.find(collection, filter, options),
    rows,
    count: (filter) => cached(counts, JSON.stringify(filter), () => store.count(collection, filter)),
    async page(filter, options) {
      const question = JSON.stringify(filter)
      const total = counts.get(question)
      if (total === undefined) {
        const page = await readAndCache(
          () => store.page(collection, filter, options),
          (page) => counts.set(question, page.total),
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
        // Whoever made the change is about to read it.
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
