/** The embedded read store: one SQLite file with a table of JSON documents per collection. */
import { StoreUnavailable } from '../events/event-store.ts'
import { type Bytes, closeOnError, type Durability, openSqlite, selectColumn } from '../sqlite.ts'
import { type Condition, type Page, readFilter, readPage } from './filter.ts'
import type {
  AnyCollection,
  Checkpoint,
  Collection,
  Filter,
  FindOptions,
  ReadStore,
  Row,
} from './read-store.ts'
import { listOf, parsed, selectCheckpoint, selectMany, selectRange } from './sqlite-documents.ts'
import {
  type Bindable,
  countHits,
  documentTable,
  type Hits,
  hitsOf,
  type Listed,
  matching,
  selectPage,
} from './sqlite-query.ts'
import { openSqliteSnapshot } from './sqlite-snapshot.ts'
import { cachedStatements } from './sqlite-statements.ts'
import { createWrites, unavailable } from './sqlite-writes.ts'

/** Up to this size it is cheaper to fetch a set of documents than to walk an index. */
const MAX_SMALL_SET = 1000
/** At most this many array values of a filter are counted to find a small set. */
const MAX_CANDIDATES = 10

/**
 * Opens or creates the read models in `file`. Reads use their own connection, so they never see half of an `apply`.
 * For this reason `file` cannot be `:memory:`.
 */
export function openSqliteReadStore(file: string, durability: Durability = 'NORMAL'): ReadStore {
  const writer = openSqlite(file, durability)
  const writes = closeOnError(file, [writer], () => createWrites(writer, file, durability, stored))
  const reader = openSqlite(file, durability)

  const query = closeOnError(file, [writer, reader], () => ({
    text: cachedStatements((sql) => selectColumn<Bindable[], string>(reader, sql)),
    /** Documents as `CAST(… AS BLOB)`. A list of documents is one JSON array: one row is cheaper than many. */
    json: cachedStatements((sql) => selectColumn<Bindable[], Bytes | null>(reader, sql)),
    count: cachedStatements((sql) => selectColumn<Bindable[], number>(reader, sql)),
    checkpoint: selectCheckpoint(reader),
  }))
  let closed = false

  function stored<D extends object>(collection: AnyCollection, ids: readonly string[]) {
    return selectMany<D>(file, collection, ids, (sql, parameter) => query.json(sql).get(parameter))
  }

  function read<T>(run: () => T): T {
    if (closed) throw new StoreUnavailable('the read models are closed')
    try {
      return run()
    } catch (error) {
      throw unavailable('read', error)
    }
  }

  /**
   * The size up to which it is cheaper to fetch and sort a set of documents than to walk the sort's index until the
   * page is full. To fetch one document costs about as much as to walk over four index entries. With n matches among N
   * documents, the walk finds one match in N / n entries.
   */
  function smallSetFor(collection: AnyCollection, { skip, limit }: Page): number {
    if (limit === null) return MAX_SMALL_SET
    const documents =
      query.count(`SELECT coalesce(max(rowid), 0) FROM ${documentTable(collection)}`).get() ?? 0
    return Math.min(MAX_SMALL_SET, Math.sqrt(((skip + limit) * documents) / 4))
  }

  /** The smallest set of documents that an array condition selects; undefined when none has at most `maxSize`. */
  function smallestSet(
    collection: AnyCollection,
    conditions: readonly Condition[],
    maxSize: number,
  ): Hits | undefined {
    let smallest: { hits: Hits; n: number } | undefined
    const candidates = conditions.flatMap((condition) => hitsOf(collection, condition))
    for (const hits of candidates.slice(0, MAX_CANDIDATES)) {
      const { text, values } = countHits(hits, smallest?.n ?? Math.floor(maxSize) + 1)
      const n = query.count(text).get(...values) ?? 0
      if (n <= maxSize && (smallest === undefined || n < smallest.n)) smallest = { hits, n }
      if (n === 0) break
    }
    return smallest?.hits
  }

  function countOf(collection: AnyCollection, conditions: readonly Condition[]): number {
    const sql = matching(collection, conditions, smallestSet(collection, conditions, MAX_SMALL_SET))
    return query.count(`SELECT count(*) ${sql.text}`).get(...sql.values) ?? 0
  }

  /** A page, as JSON in the form `what`. */
  function listed<T>(
    what: Listed,
    collection: AnyCollection,
    conditions: readonly Condition[],
    page: Page,
  ): T[] {
    const start = smallestSet(collection, conditions, smallSetFor(collection, page))
    const sql = selectPage(collection, conditions, page, what, start)
    const bytes = query.json(`SELECT ${listOf('listed')} FROM (${sql.text})`).get(...sql.values)
    return bytes ? parsed<T[]>(bytes, file, collection) : []
  }

  function rowsOf<D extends object>(
    collection: AnyCollection,
    conditions: readonly Condition[],
    page: Page,
  ): Row<D>[] {
    const all = listed<D | string>('row', collection, conditions, page)
    return all.map((one) => (typeof one === 'string' ? { id: one } : { body: one }))
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
      return read(() => listed<D>('body', collection, conditions, page))
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
      return read(() => {
        const total = countOf(collection, conditions)
        // To walk an index to its end in vain is the slowest of all reads.
        return { rows: page.skip < total ? rowsOf<D>(collection, conditions, page) : [], total }
      })
    },
    async ids(collection, filter) {
      const conditions = readFilter(collection, filter)
      return read(() => {
        const sql = matching(collection, conditions, smallestSet(collection, conditions, MAX_SMALL_SET))
        return query.text(`SELECT d.id ${sql.text}`).all(...sql.values)
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
      read(() => query.checkpoint(''))
    },
    async close() {
      if (closed) return
      closed = true
      await writes.end()
      reader.close()
      writer.close()
    },
  }
}
