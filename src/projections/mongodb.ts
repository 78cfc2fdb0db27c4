/** The distributed read store: documents `{_id, position, body}` in MongoDB, in one collection per kind. */
import { type AnyBulkWriteOperation, type IndexDescription, MongoClient } from 'mongodb'
import { type Position, StoreUnavailable } from '../events/event-store.ts'
import { checkName, readFilter, readPage } from './filter.ts'
import { duplicateAt, INDEX_NOT_FOUND, isUnavailable, NAMESPACE_NOT_FOUND, unless } from './mongodb-errors.ts'
import { bodyField, type StoredDocument, toMongoFilter } from './mongodb-query.ts'
import type {
  AnyCollection,
  Change,
  Checkpoint,
  Collection,
  Filter,
  FindOptions,
  IdRange,
  ReadStore,
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
}
const READ_COUNT = { maxTimeMS: 5000 }
const READ = { ...READ_COUNT, batchSize: 1000 }
const BODY = { _id: 0, body: 1 } as const

interface StoredCheckpoint extends Checkpoint {
  _id: string
}

/**
 * Opens the read models in MongoDB. It connects at the first call. The database is `options.database`, else the one
 * in the URL, else `mergelog`.
 */
export function openMongoReadStore(url: string, options: { database?: string } = {}): ReadStore {
  const client = new MongoClient(url, {
    ...TIMES,
    ignoreUndefined: true,
    readPreference: 'primary',
    writeConcern: { w: 'majority', journal: true },
  })
  const database = client.db(options.database ?? databaseOf(url))
  const checkpoints = database.collection<StoredCheckpoint>(CHECKPOINTS)
  const documents = ({ name }: AnyCollection) =>
    database.collection<StoredDocument>(checkName('collection', name))
  let closed = false

  /** Runs one command. @throws StoreUnavailable when MongoDB cannot answer now */
  async function ask<T>(command: () => Promise<T>): Promise<T> {
    if (closed) throw new StoreUnavailable('the read models are closed')
    try {
      return await command()
    } catch (error) {
      if (!closed && !isUnavailable(error)) throw error
      const reason = error instanceof Error ? error.message : String(error)
      throw new StoreUnavailable(`MongoDB does not answer: ${reason}`, { cause: error })
    }
  }

  /** Creates the declared indexes and drops all others. */
  async function prepare(collection: AnyCollection): Promise<void> {
    const stored = documents(collection)
    const declared = indexesOf(collection)
    if (declared.length > 0) await stored.createIndexes(declared)
    const existing = await stored.indexes().catch(unless(NAMESPACE_NOT_FOUND, []))
    for (const { name } of existing) {
      if (name === undefined || name === '_id_' || declared.some((index) => index.name === name)) continue
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
    const found = await ask(() => checkpoints.findOne({ _id: name }, READ))
    return found === null ? undefined : { position: found.position, version: found.version }
  }

  async function range(collection: AnyCollection, { after, limit }: IdRange) {
    const found = await ask(() =>
      documents(collection)
        .find<{ _id: string; position: Position; body: object }>(
          after === undefined ? {} : { _id: { $gt: after } },
          READ,
        )
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
    )
    return found.map(({ _id, position, body }) => ({ id: _id, position, body }))
  }

  return {
    async get<D extends object>(collection: Collection<D>, id: string) {
      const found = await ask(() =>
        documents(collection).findOne<{ body: D }>({ _id: id }, { ...READ, projection: BODY }),
      )
      return found?.body
    },
    async getMany<D extends object>(collection: Collection<D>, ids: readonly string[]) {
      const found = await ask(() =>
        documents(collection)
          .find<{ _id: string; position: Position; body: D }>({ _id: { $in: ids } }, READ)
          .toArray(),
      )
      return found.map(({ _id, position, body }) => ({ id: _id, position, body }))
    },
    async find<D extends object>(collection: Collection<D>, filter: Filter<D>, options: FindOptions<D> = {}) {
      const query = toMongoFilter(readFilter(collection, filter))
      const { sort, skip, limit } = readPage(options)
      // For MongoDB a limit of 0 means no limit.
      if (limit === 0) return []
      const fields = sort.map(([field, direction]): [string, 1 | -1] => [`body.${field}`, direction])
      const found = await ask(() =>
        documents(collection)
          .find<{ body: D }>(query, { ...READ, projection: BODY })
          .sort([...fields, ['_id', 1]])
          .skip(skip)
          .limit(limit ?? 0)
          .toArray(),
      )
      return found.map(({ body }) => body)
    },
    async count<D extends object>(collection: Collection<D>, filter: Filter<D>) {
      const query = toMongoFilter(readFilter(collection, filter))
      return ask(() => documents(collection).countDocuments(query, READ_COUNT))
    },
    async ids<D extends object>(collection: Collection<D>, filter: Filter<D>) {
      const query = toMongoFilter(readFilter(collection, filter))
      const found = await ask(() =>
        documents(collection)
          .find(query, { ...READ, projection: { _id: 1 } })
          .toArray(),
      )
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
    checkpoint,
    async apply(changes, moved) {
      for (const run of runsOf(changes)) await ask(() => write(run.collection, run.changes))
      if (moved.size === 0) return
      const operations = [...moved].map(([_id, { position, version }]) => ({
        replaceOne: { filter: { _id }, replacement: { position, version }, upsert: true },
      }))
      await ask(() => checkpoints.bulkWrite(operations))
    },
    async ping() {
      await ask(() => database.command({ ping: 1 }))
    },
    async close() {
      closed = true
      await client.close()
    },
  }
}

function databaseOf(url: string): string {
  const path = /^mongodb(?:\+srv)?:\/\/[^/]*\/([^?]+)/.exec(url)?.[1]
  return path === undefined ? DEFAULT_DATABASE : decodeURIComponent(path)
}

function indexesOf(collection: AnyCollection): IndexDescription[] {
  // Every index ends with the id, because the id breaks the ties of every sort.
  const ofSorts = collection.indexes.map((fields): [string, 1 | -1][] => [
    ...fields.map(([field, direction]): [string, 1 | -1] => [bodyField(field), direction]),
    ['_id', 1],
  ])
  const ofArrays = collection.arrays.map((field): [string, 1 | -1][] => [[bodyField(field), 1]])
  return [...ofSorts, ...ofArrays].map((fields) => ({
    key: new Map(fields),
    name: fields.map(([field, direction]) => `${field}_${direction}`).join('_'),
  }))
}

function toOperation(change: Change): AnyBulkWriteOperation<StoredDocument> {
  if (change.op === 'delete') return { deleteOne: { filter: { _id: change.id } } }
  const { id, position, body } = change
  return { replaceOne: { filter: notAfter(id, position), replacement: { position, body }, upsert: true } }
}

/** Matches the document unless it has a later position than the change: then it must not be overwritten. */
const notAfter = (id: string, position: Position) => ({ _id: id, position: { $lte: position } })

/** Groups successive changes of the same collection. */
function runsOf(changes: readonly Change[]): { collection: AnyCollection; changes: Change[] }[] {
  const runs: { collection: AnyCollection; changes: Change[] }[] = []
  for (const change of changes) {
    const last = runs.at(-1)
    if (last?.collection.name === change.collection.name) last.changes.push(change)
    else runs.push({ collection: change.collection, changes: [change] })
  }
  return runs
}
