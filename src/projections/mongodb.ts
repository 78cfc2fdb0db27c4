/** The distributed read store: documents `{_id, position, body}` in MongoDB, in one collection per kind. */
import {
  type AnyBulkWriteOperation,
  type Db,
  type Document,
  type IndexDescription,
  MongoClient,
  type MongoClientOptions,
} from 'mongodb'
import { type Position, StoreDenied, StoreUnavailable } from '../events/event-store.ts'
import { checkName, readFilter, readPage } from './filter.ts'
import { type StoredCheckpoint, sharedCheckpoints } from './mongodb-checkpoints.ts'
import { mongoStartProblem } from './mongodb-diagnosis.ts'
import {
  denial,
  duplicateAt,
  INDEX_NOT_FOUND,
  isDenied,
  isInterruptedRead,
  isUnavailable,
  NAMESPACE_NOT_FOUND,
  unless,
} from './mongodb-errors.ts'
import {
  bodyField,
  MAX_CANDIDATES,
  MAX_SMALL_SET,
  type MongoQuery,
  matchStages,
  ownersOfWords,
  pageStages,
  type StoredDocument,
  sortOf,
  toMongoQuery,
} from './mongodb-query.ts'
import { monitoring, tellCommands } from './mongodb-watch.ts'
import type {
  AnyCollection,
  Change,
  Checkpoint,
  Collection,
  Filter,
  FindOptions,
  IdRange,
  ReadStore,
  Row,
  SharedCheckpoints,
  Stored,
} from './read-store.ts'

const DEFAULT_DATABASE = 'mergelog'
/** Names of read models cannot contain a dot, so no read model can have this name. */
const CHECKPOINTS = 'mergelog.checkpoints'

/** The time limits to notice that a server is gone and to give up a call, in milliseconds. */
const TIMES = {
  serverSelectionTimeoutMS: 1500,
  connectTimeoutMS: 1500,
  heartbeatFrequencyMS: 1000,
  waitQueueTimeoutMS: 5000,
  wtimeoutMS: 10_000,
}

/** What must hold whatever the connection string says. `mongodb-url.ts` refuses a string that says otherwise. */
const FIXED: MongoClientOptions = {
  ignoreUndefined: true,
  readPreference: 'primary',
  // What was read may be the ground for what is written: it must not be undone when another member is elected.
  readConcern: { level: 'majority' },
}

/** A read of limited size. */
const READ = { maxTimeMS: 5000, batchSize: 1000, allowDiskUse: true }
/** A read whose size grows with the collection. It also has an end: a client may wait for it. */
const LONG = { ...READ, maxTimeMS: 30_000 }
/** A read of the server's own long work, such as a rebuild: it takes as long as it takes. */
const UNLIMITED = { batchSize: 1000 }
/** At most this many ids are looked up by one command. */
const MAX_IDS = 1000
const BODY = { _id: 0, body: 1 } as const

type Found<D> = Omit<Stored<D>, 'id'> & { _id: string }

/** A row of a page: a long document comes without its body. */
type FoundRow<D> = { _id: string; body?: D }

const toRow = <D>({ _id: id, body }: FoundRow<D>): Row<D> => (body === undefined ? { id } : { body })

const toStored = <D>({ _id: id, position, body }: Found<D>): Stored<D> => ({ id, position, body })

/** A connection of its own to a database. `ask` gives the errors of MongoDB the classes that this program knows. */
export interface MongoDatabase {
  database: Db
  /** Runs one command. @throws StoreUnavailable when MongoDB cannot answer now */
  ask<T>(command: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

/**
 * Connects at the first call. The database is `options.database`, else the one in the URL, else `mergelog`. `what`: what
 * is kept there, for messages.
 */
export function openMongoDatabase(
  url: string,
  what: string,
  options: { database?: string } & Pick<MongoClientOptions, 'lookup' | 'maxPoolSize'> = {},
): MongoDatabase {
  const { database, ...own } = options
  const client = new MongoClient(url, { ...clientOptions(url), ...monitoring(), ...own })
  tellCommands(client)
  const isClosed = `${what} are closed`
  let closed = false
  return {
    database: client.db(database ?? databaseOf(url)),
    async ask(command) {
      if (closed) throw new StoreUnavailable(isClosed)
      try {
        return await command()
      } catch (error) {
        if (closed) throw new StoreUnavailable(isClosed, { cause: error })
        throw unavailable(error)
      }
    },
    async close() {
      closed = true
      await client.close()
    },
  }
}

/**
 * Opens the read models in MongoDB. It connects at the first call. The database is `options.database`, else the one
 * in the URL, else `mergelog`.
 */
export function openMongoReadStore(
  url: string,
  options: { database?: string } & Pick<MongoClientOptions, 'lookup'> = {},
): ReadStore & { readonly shared: SharedCheckpoints } {
  const { database, ask, close } = openMongoDatabase(url, 'the read models', options)
  const checkpoints = database.collection<StoredCheckpoint>(CHECKPOINTS)
  const documents = ({ name }: AnyCollection) =>
    database.collection<StoredDocument>(checkName('collection', name))

  /** Runs a read, and once more when another call interrupted it. @throws StoreUnavailable */
  function read<T>(query: () => Promise<T>): Promise<T> {
    return ask(() =>
      query().catch((error: unknown) => {
        if (isInterruptedRead(error)) return query()
        throw error
      }),
    )
  }

  const aggregate = <Row extends Document>(
    collection: AnyCollection,
    pipeline: Document[],
    options: typeof READ,
  ): Promise<Row[]> => read(() => documents(collection).aggregate<Row>(pipeline, options).toArray())

  const storedName = ({ name }: AnyCollection) => checkName('collection', name)

  /** Narrows a query to a small set of documents that have a rare word in their parts, if a word is rare. */
  async function narrowed(query: MongoQuery): Promise<MongoQuery> {
    const [words] = query.inParts
    if (words === undefined) return query
    const rows = await aggregate<{ owner: string; word: number }>(
      words.parts,
      ownersOfWords(words, storedName, words.parts),
      READ,
    )
    const byWord = new Map<number, string[]>()
    for (const { owner, word } of rows) byWord.set(word, [...(byWord.get(word) ?? []), owner])
    const candidates = words.words.slice(0, MAX_CANDIDATES).map((_, word) => byWord.get(word) ?? [])
    const smallest = candidates.reduce((a, b) => (b.length < a.length ? b : a))
    if (smallest.length > MAX_SMALL_SET) return query
    return { ...query, own: { $and: [{ _id: { $in: [...new Set(smallest)] } }, query.own] } }
  }

  /** The documents of a page, as `shown` gives them. */
  async function listed<Row extends Document, D extends object>(
    collection: Collection<D>,
    filter: Filter<D>,
    options: FindOptions<D>,
    shown: 'bodies' | 'rows',
  ): Promise<Row[]> {
    const query = toMongoQuery(readFilter(collection, filter))
    const page = readPage(options)
    if (page.limit === 0) return []
    const stages = matchStages(await narrowed(query), sortOf(page), storedName)
    const limits = page.limit === null ? LONG : READ
    return await aggregate<Row>(collection, [...stages, ...pageStages(page, shown)], limits)
  }

  /** Creates the declared indexes, and drops own ones that are no longer declared. Those of others stay. */
  async function prepare(collection: AnyCollection): Promise<void> {
    const stored = documents(collection)
    const declared = indexesOf(collection)
    const existing = await stored.indexes().catch(unless(NAMESPACE_NOT_FOUND, []))
    // MongoDB refuses a second index with the same fields.
    const missing = declared.filter(({ key }) => !existing.some((one) => sameFields(one.key, key)))
    if (missing.length > 0) await stored.createIndexes(missing)
    for (const { name = '', key } of existing) {
      if (!isOwnIndex(name) || declared.some((index) => sameFields(key, index.key))) continue
      await stored.dropIndex(name).catch(unless(INDEX_NOT_FOUND, {}))
    }
  }

  /** Writes the changes of one collection in their order. */
  async function write(collection: AnyCollection, changes: readonly Change[]): Promise<void> {
    let rest = changes
    while (rest.length > 0) {
      try {
        await documents(collection).bulkWrite(rest.map(toOperation), { ordered: true })
        return
      } catch (error) {
        const at = duplicateAt(error)
        const change = rest[at ?? rest.length]
        if (at === undefined || change?.op !== 'put') throw error
        // The upsert found no document with an earlier position, and could not insert a new one: the id exists. Either
        // the stored document has a later position and stays, or another node inserted it at the same moment. Then it
        // is replaced unless it is later.
        const { id, position, body } = change
        await documents(collection).replaceOne(notAfter(id, position), { position, body })
        rest = rest.slice(at + 1)
      }
    }
  }

  async function checkpoint(name: string): Promise<Checkpoint | undefined> {
    const found = await read(() => checkpoints.findOne({ _id: name }, READ))
    return found === null ? undefined : toCheckpoint(found)
  }

  async function range(collection: AnyCollection, { after, limit }: IdRange) {
    const query = after === undefined ? {} : { _id: { $gt: after } }
    const found = await read(() =>
      documents(collection).find<Found<object>>(query, UNLIMITED).sort({ _id: 1 }).limit(limit).toArray(),
    )
    return found.map(toStored)
  }

  return {
    shared: sharedCheckpoints(checkpoints, { ask, read }, READ),
    async get<D extends object>(collection: Collection<D>, id: string) {
      const found = await read(() =>
        documents(collection).findOne<{ body: D }>({ _id: id }, { ...READ, projection: BODY }),
      )
      return found?.body
    },
    async getMany<D extends object>(collection: Collection<D>, ids: readonly string[]) {
      const all: Stored<D>[] = []
      for (let i = 0; i < ids.length; i += MAX_IDS) {
        const some = ids.slice(i, i + MAX_IDS)
        const found = await read(() =>
          documents(collection)
            .find<Found<D>>({ _id: { $in: some } }, LONG)
            .toArray(),
        )
        for (const one of found) all.push(toStored(one))
      }
      return all
    },
    async find<D extends object>(collection: Collection<D>, filter: Filter<D>, options: FindOptions<D> = {}) {
      const found = await listed<{ body: D }, D>(collection, filter, options, 'bodies')
      return found.map(({ body }) => body)
    },
    async rows<D extends object>(collection: Collection<D>, filter: Filter<D>, options: FindOptions<D>) {
      return (await listed<FoundRow<D>, D>(collection, filter, options, 'rows')).map(toRow)
    },
    async count<D extends object>(collection: Collection<D>, filter: Filter<D>) {
      const query = await narrowed(toMongoQuery(readFilter(collection, filter)))
      const stages = [...matchStages(query, undefined, storedName), COUNT]
      const [row] = await aggregate<{ total: number }>(collection, stages, LONG)
      return row?.total ?? 0
    },
    async page<D extends object>(collection: Collection<D>, filter: Filter<D>, options: FindOptions<D>) {
      const query = await narrowed(toMongoQuery(readFilter(collection, filter)))
      const page = readPage(options)
      const counted = [...matchStages(query, undefined, storedName), COUNT]
      if (page.limit === 0) {
        const [row] = await aggregate<{ total: number }>(collection, counted, LONG)
        return { rows: [], total: row?.total ?? 0 }
      }
      // Both parts of the union use their index. With `$facet` each would read all matching documents.
      const rows = await aggregate<FoundRow<D> | { total: number }>(
        collection,
        [
          ...matchStages(query, sortOf(page), storedName),
          ...pageStages(page, 'rows'),
          { $unionWith: { coll: storedName(collection), pipeline: counted } },
        ],
        LONG,
      )
      const found: Row<D>[] = []
      let total = 0
      for (const row of rows) {
        if ('total' in row) total = row.total
        else found.push(toRow(row))
      }
      return { rows: found, total }
    },
    async ids<D extends object>(collection: Collection<D>, filter: Filter<D>) {
      const query = await narrowed(toMongoQuery(readFilter(collection, filter)))
      const stages = [...matchStages(query, undefined, storedName), { $project: { _id: 1 } }]
      const found = await aggregate<{ _id: string }>(collection, stages, LONG)
      return found.map(({ _id }) => _id)
    },
    range,
    // An isolated snapshot would need a replica set, and the server would drop it after a minute.
    snapshot: async () => ({ isIsolated: false, checkpoint, range, close: async () => {} }),
    async prepare(collections) {
      for (const collection of collections) await ask(() => prepare(collection))
    },
    async clear(collection) {
      // To drop a collection takes the same time for any number of documents.
      await ask(() => documents(collection).drop())
      await ask(() => prepare(collection))
    },
    async drop(collection) {
      await ask(() => documents(collection).drop())
    },
    checkpoint,
    async checkpoints(names) {
      const found = await read(() => checkpoints.find({ _id: { $in: [...names] } }, READ).toArray())
      return new Map(found.map((one) => [one._id, toCheckpoint(one)]))
    },
    async moveCheckpoint(name, before, after) {
      const replacement = { position: after.position, version: after.version }
      if (before === undefined) {
        return ask(async () => {
          const made = await checkpoints.updateOne(
            { _id: name },
            { $setOnInsert: replacement },
            { upsert: true },
          )
          return made.upsertedCount === 1
        })
      }
      const still = { _id: name, position: before.position, version: before.version }
      const { matchedCount } = await ask(() => checkpoints.replaceOne(still, replacement))
      return matchedCount === 1
    },
    async apply(changes, moved) {
      const all: Change[] = []
      if (!(Symbol.asyncIterator in changes)) all.push(...changes)
      else for await (const list of changes) all.push(...list)
      // The order counts only within a collection. No write goes on after a failure was reported.
      const writes = byCollection(all).map((run) => ask(() => write(run.collection, run.changes)))
      for (const written of await Promise.allSettled(writes)) {
        if (written.status === 'rejected') throw written.reason
      }
      if (moved.size === 0) return
      const operations = [...moved].map(([_id, checkpoint]) => ({
        replaceOne: { filter: { _id }, replacement: toCheckpoint(checkpoint), upsert: true },
      }))
      await ask(() => checkpoints.bulkWrite(operations))
    },
    async ping() {
      await ask(() => database.command({ ping: 1 }))
    },
    close,
  }
}

function toCheckpoint({ position, version, event }: Checkpoint): Checkpoint {
  return { position, version, ...(event !== undefined && { event }) }
}

/** The name of the secrets' database in versions up to 0.1, whatever the name of the main one was. */
const EARLIER_SECRETS = 'mergelog_secrets'

/**
 * The name of the database with the secrets: that of the main one, with `_secrets`. An installation of an earlier
 * version goes on with the name that it has. A start asks this first, so it also finds out whether MongoDB can be used.
 * @throws StoreUnavailable in one line, which says what to do, when MongoDB does not answer or refuses the user
 */
export async function secretsDatabase(url: string): Promise<string> {
  const main = databaseOf(url)
  const own = `${main}_secrets`
  const client = new MongoClient(url, clientOptions(url))
  const has = async (database: string, name?: string) => {
    const filter = name === undefined ? {} : { name }
    return (await client.db(database).listCollections(filter, { nameOnly: true }).toArray()).length > 0
  }
  try {
    const isOld = await has(main, CHECKPOINTS)
    if ((await has(own)) || !isOld || own === EARLIER_SECRETS) return own
    const isOlder = await has(EARLIER_SECRETS).catch((error: unknown) => {
      if (isDenied(error)) return false
      throw error
    })
    return isOlder ? EARLIER_SECRETS : own
  } catch (error) {
    throw mongoStartProblem(unavailable(error))
  } finally {
    await client.close()
  }
}

/** The error of a call that MongoDB did not answer; any other error stays what it is. */
function unavailable(error: unknown): unknown {
  if (!isUnavailable(error)) return error
  const denied = denial(error)
  if (denied !== undefined) return new StoreDenied(denied, { cause: error })
  const reason = error instanceof Error ? error.message : String(error)
  return new StoreUnavailable(`MongoDB does not answer: ${reason}`, { cause: error })
}

const COUNT = { $count: 'total' }

/**
 * The options of the driver. A time limit of the URL counts, if there is one; everything else of ours comes before the
 * URL: the driver lets an option win over the same one in the URL, except for the parts of the write concern.
 */
export function clientOptions(url: string): MongoClientOptions {
  const isSet = (name: string) => new RegExp(`[?&]${name}=`, 'i').test(url)
  const times = Object.entries(TIMES).filter(
    ([name]) => !isSet(name) && !(name === 'wtimeoutMS' && isSet('wtimeout')),
  )
  return { ...Object.fromEntries(times), ...FIXED, w: 'majority', journal: true }
}

function databaseOf(url: string): string {
  const path = /^mongodb(?:\+srv)?:\/\/[^/]*\/([^?]+)/.exec(url)?.[1]
  return path === undefined ? DEFAULT_DATABASE : decodeURIComponent(path)
}

function indexesOf(collection: AnyCollection): IndexDescription[] {
  // Every index ends with the id, because the id breaks the ties of every sort.
  const ofSorts = collection.indexes.map((index): [string, 1 | -1][] => [
    ...Object.entries(index).map(([field, direction = 1]): [string, 1 | -1] => [bodyField(field), direction]),
    ['_id', 1],
  ])
  const { partOf } = collection
  const ofArrays = collection.arrays.flatMap((field): [string, 1 | -1][][] =>
    partOf === undefined
      ? [[[bodyField(field), 1]]]
      : [
          [
            [bodyField(field), 1],
            [bodyField(partOf), 1],
          ],
          [
            [bodyField(partOf), 1],
            [bodyField(field), 1],
          ],
        ],
  )
  return [...ofSorts, ...ofArrays].map((fields) => ({
    key: new Map(fields),
    name: OWN_INDEX + fields.map(([field, direction]) => `${field}_${direction}`).join('_'),
  }))
}

/** The names of our indexes begin with this. Other indexes are somebody else's: we do not drop them. */
const OWN_INDEX = 'mergelog_'

/** Earlier versions gave this form of name to indexes with a sort order: all fields, and then the id. */
const EARLIER_INDEX = /^(?:body\.[A-Za-z_]+_-?1_)+_id_1$/

const isOwnIndex = (name: string) => name.startsWith(OWN_INDEX) || EARLIER_INDEX.test(name)

function sameFields(key: unknown, declared: IndexDescription['key']): boolean {
  const fields = declared instanceof Map ? [...declared] : Object.entries(declared)
  return (
    typeof key === 'object' && key !== null && JSON.stringify(Object.entries(key)) === JSON.stringify(fields)
  )
}

function toOperation(change: Change): AnyBulkWriteOperation<StoredDocument> {
  if (change.op === 'delete') return { deleteOne: { filter: { _id: change.id } } }
  const { id, position, body } = change
  return { replaceOne: { filter: notAfter(id, position), replacement: { position, body }, upsert: true } }
}

/** Matches the document unless it has a later position than the change: then it must not be overwritten. */
const notAfter = (id: string, position: Position) => ({ _id: id, position: { $lte: position } })

/** The changes of each collection in their order. */
function byCollection(changes: readonly Change[]): { collection: AnyCollection; changes: Change[] }[] {
  const runs = new Map<string, { collection: AnyCollection; changes: Change[] }>()
  for (const change of changes) {
    const { collection } = change
    const run = runs.get(collection.name)
    if (run === undefined) runs.set(collection.name, { collection, changes: [change] })
    else run.changes.push(change)
  }
  return [...runs.values()]
}
