/** The embedded read store: one SQLite file with a table of JSON documents per collection. */
import { LRUCache } from 'lru-cache'
import { ErrorWithRefusal } from '../../../errors/refusal.ts'
import { StoreUnavailable } from '../../../events/store/event-store.ts'
import {
  type Bytes,
  closeOnError,
  type Durability,
  openSqlite,
  selectColumn,
} from '../../../storage/sqlite/sqlite.ts'
import { type Condition, type Page, readFilter, readPage } from '../filter.ts'
import type {
  AnyCollection,
  Checkpoint,
  Collection,
  Filter,
  FindOptions,
  ReadStore,
  StoredRow,
} from '../read-store.ts'
import type { Bindable, Sql } from './conditions.ts'
import {
  listOf,
  parsed,
  parsedText,
  rowsIn,
  selectCheckpoint,
  selectMany,
  selectRange,
  textsOf,
} from './documents.ts'
import { createLongReads, type LongReadOptions } from './long-reads.ts'
import { countSet, type DocumentSet, indexedSets, matching, type Plan, selectPage, setsOf } from './query.ts'
import { FEW_DOCUMENTS, isCheap } from './query-cost.ts'
import { openSqliteSnapshot } from './snapshot.ts'
import { cachedStatements } from './statements.ts'
import { documentTable } from './tables.ts'
import { createWrites, unavailable } from './writes.ts'

/** Maximum size of a set of documents that is cheaper to fetch than an index scan. */
const MAX_SMALL_SET = 1000
/** Number of sets that are counted to find a small one. */
const MAX_CANDIDATES = 10
/** Time for which the minimum size of a large set is cached, in milliseconds, and the number of such sets. */
const LARGE_MS = 60_000
const MAX_LARGE = 1000

export interface SqliteReadStoreOptions extends LongReadOptions {
  /** Whether short reads also run outside of the event loop, for tests. */
  allLong?: boolean
}

/**
 * Opens or creates the read models in `file`. Reads use their own connection, so they never see half of an `apply`, and
 * `file` cannot be `:memory:`.
 */
export function openSqliteReadStore(
  file: string,
  durability: Durability = 'NORMAL',
  { allLong = false, ...options }: SqliteReadStoreOptions = {},
): ReadStore {
  const writer = openSqlite(file, durability)
  const writes = closeOnError(file, [writer], () => createWrites(writer, file, durability, stored))
  const reader = openSqlite(file, durability)
  const longReads = createLongReads(file, options)

  const query = closeOnError(file, [writer, reader], () => ({
    /** Documents as `CAST(… AS BLOB)`. A list of documents is one JSON array: one row is cheaper than many. */
    json: cachedStatements((sql) => selectColumn<Bindable[], Bytes | null>(reader, sql)),
    count: cachedStatements((sql) => selectColumn<Bindable[], number>(reader, sql)),
    checkpoint: selectCheckpoint(reader),
  }))
  /** Recent minimum sizes of sets that take long to count. */
  const large = new LRUCache<string, number>({ max: MAX_LARGE, ttl: LARGE_MS })
  let closed = false

  function stored<D extends object>(collection: AnyCollection, ids: readonly string[]) {
    return selectMany<D>(file, collection, ids, (sql, parameter) => query.json(sql).get(parameter))
  }

  const refusal = (error: unknown) => (error instanceof ErrorWithRefusal ? error : unavailable('read', error))

  async function read<T>(run: () => T | Promise<T>): Promise<T> {
    if (closed) throw new StoreUnavailable('the read models are closed')
    try {
      return await run()
    } catch (error) {
      throw refusal(error)
    }
  }

  /**
   * Returns the size up to which fetching and sorting a set is cheaper than scanning the sort's index until the page is
   * full. Fetching a document costs about as much as scanning four index entries. With n matches among N documents, the
   * scan finds one match in N / n entries.
   */
  function smallSetFor(page: Page | undefined, documents: number): number {
    if (page === undefined || page.limit === null) return MAX_SMALL_SET
    return Math.min(MAX_SMALL_SET, Math.sqrt(((page.skip + page.limit) * documents) / 4))
  }

  /** Returns the number of documents of a set, counted up to `most`. */
  async function sizeOf(set: DocumentSet, most: number): Promise<number> {
    const { text, values } = countSet(set, most)
    if (!set.isLong) return query.count(text).get(...values) ?? 0
    const key = JSON.stringify(set)
    const known = large.get(key) ?? 0
    if (known >= most) return known
    const size = (await longReads.read<number>(text, values)) ?? 0
    if (size === most) large.set(key, size)
    return size
  }

  /** Returns the smallest set that contains all matches; undefined when all exceed `maxSize`. */
  async function smallestSet(
    collection: AnyCollection,
    conditions: readonly Condition[],
    maxSize: number,
  ): Promise<{ set: DocumentSet; n: number } | undefined> {
    let smallest: { set: DocumentSet; n: number } | undefined
    const arrays = conditions.flatMap((condition) => setsOf(collection, condition))
    for (const set of [...indexedSets(collection, conditions), ...arrays].slice(0, MAX_CANDIDATES)) {
      const n = await sizeOf(set, smallest?.n ?? Math.floor(maxSize) + 1)
      if (n <= maxSize && (smallest === undefined || n < smallest.n)) smallest = { set, n }
      if (n === 0) break
    }
    return smallest
  }

  /** Runs only fast queries on the event loop. `page` is undefined for a count and for the ids of all matches. */
  async function planOf(
    collection: AnyCollection,
    conditions: readonly Condition[],
    page?: Page,
  ): Promise<Plan> {
    const documents =
      query.count(`SELECT coalesce(max(rowid), 0) FROM ${documentTable(collection)}`).get() ?? 0
    const start = undefined
    if (!allLong && isCheap(collection, conditions, page, documents)) return { start, isLong: false }
    const smallest = await smallestSet(collection, conditions, smallSetFor(page, documents))
    if (smallest === undefined) return { start, isLong: true }
    return { start: smallest.set, isLong: allLong || smallest.n > FEW_DOCUMENTS }
  }

  async function countOf(collection: AnyCollection, conditions: readonly Condition[]): Promise<number> {
    const { start, isLong } = await planOf(collection, conditions)
    // SQLite counts all documents without reading them.
    const { text, values } = matching(collection, conditions, {
      start,
      isLong: isLong && conditions.length > 0,
    })
    const sql = `SELECT count(*) ${text}`
    const count = isLong ? await longReads.read<number>(sql, values) : query.count(sql).get(...values)
    return count ?? 0
  }

  /** Returns the BLOB of `column` for all rows of a SELECT. */
  function blobOf(column: string, { text, values }: Sql, isLong: boolean) {
    const sql = `SELECT ${column} FROM (${text})`
    return isLong ? longReads.read<Bytes | null>(sql, values) : query.json(sql).get(...values)
  }

  /** Returns the JSON array of a SELECT with a column `listed`. */
  async function listed<T>(collection: AnyCollection, sql: Sql, isLong: boolean): Promise<T[]> {
    const bytes = await blobOf(listOf('listed'), sql, isLong)
    return bytes ? parsed<T[]>(bytes, file, collection) : []
  }

  /** Parses the text of a row on demand. @throws StoreUnavailable when it is damaged */
  const parser =
    <D>({ name }: AnyCollection) =>
    (text: string): D => {
      try {
        return parsedText(text, file, `a document of ${name}`)
      } catch (error) {
        throw refusal(error)
      }
    }

  async function rowsOf<D extends object>(
    collection: AnyCollection,
    conditions: readonly Condition[],
    page: Page,
  ): Promise<StoredRow<D>[]> {
    const plan = await planOf(collection, conditions, page)
    const sql = selectPage(collection, conditions, page, 'row', plan)
    const bytes = await blobOf(textsOf('listed'), sql, plan.isLong)
    return bytes ? rowsIn(bytes, file, collection, parser<D>(collection)) : []
  }

  return {
    async get<D extends object>(collection: Collection<D>, id: string) {
      const sql = `SELECT CAST(body AS BLOB) FROM ${documentTable(collection)} WHERE id = ?`
      return read(() => {
        const bytes = query.json(sql).get(id) ?? undefined
        return bytes && parsed<D>(bytes, file, collection)
      })
    },
    async getMany(collection, ids) {
      return read(() => stored(collection, ids))
    },
    async find<D extends object>(collection: Collection<D>, filter: Filter<D>, options: FindOptions<D> = {}) {
      const conditions = readFilter(collection, filter)
      const page = readPage(options)
      return read(async () => {
        const plan = await planOf(collection, conditions, page)
        return listed<D>(collection, selectPage(collection, conditions, page, 'body', plan), plan.isLong)
      })
    },
    async rows<D extends object>(collection: Collection<D>, filter: Filter<D>, options: FindOptions<D>) {
      const conditions = readFilter(collection, filter)
      const page = readPage(options)
      return read(() => rowsOf<D>(collection, conditions, page))
    },
    async count(collection, filter) {
      const conditions = readFilter(collection, filter)
      return read(() => countOf(collection, conditions))
    },
    async page<D extends object>(collection: Collection<D>, filter: Filter<D>, options: FindOptions<D>) {
      const conditions = readFilter(collection, filter)
      const page = readPage(options)
      return read(async () => {
        const total = await countOf(collection, conditions)
        // Without a match, the scan would read the whole index.
        return { rows: page.skip < total ? await rowsOf<D>(collection, conditions, page) : [], total }
      })
    },
    async ids(collection, filter) {
      const conditions = readFilter(collection, filter)
      return read(async () => {
        const plan = await planOf(collection, conditions)
        const { text, values } = matching(collection, conditions, plan)
        return listed<string>(
          collection,
          { text: `SELECT json_quote(d.id) AS listed ${text}`, values },
          plan.isLong,
        )
      })
    },
    async range(collection, range) {
      return read(() => selectRange(reader, file, collection, range))
    },
    async snapshot() {
      return read(() => openSqliteSnapshot(file))
    },
    prepare: writes.prepare,
    clear: writes.clear,
    drop: writes.drop,
    moveCheckpoint: writes.moveCheckpoint,
    async checkpoints(names) {
      return read(() => {
        const all = new Map<string, Checkpoint>()
        for (const name of names) {
          const checkpoint = query.checkpoint(name)
          if (checkpoint !== undefined) all.set(name, checkpoint)
        }
        return all
      })
    },
    async checkpoint(name) {
      return read(() => query.checkpoint(name))
    },
    apply: writes.apply,
    purge: writes.purge,
    async ping() {
      await read(() => query.checkpoint(''))
    },
    async close() {
      if (closed) return
      closed = true
      await longReads.close()
      await writes.end()
      reader.close()
      writer.close()
    },
  }
}
