/** The distributed read store: documents `{_id, position, body}` in MongoDB, in one collection per kind. */
import type { AnyBulkWriteOperation, Document, MongoClientOptions } from 'mongodb'
import type { Position } from '../../../events/store/event-store.ts'
import { checkName, readFilter, readPage } from '../filter.ts'
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
} from '../read-store.ts'
import { CHECKPOINTS, type StoredCheckpoint, sharedCheckpoints } from './checkpoints.ts'
import { openMongoDatabase } from './database.ts'
import { duplicateAt, isInterruptedRead } from './errors.ts'
import { prepareIndexes } from './indexes.ts'
import {
  MAX_CANDIDATES,
  MAX_SMALL_SET,
  type MongoQuery,
  matchStages,
  ownersOfWords,
  pageStages,
  type StoredDocument,
  sortOf,
  toMongoQuery,
} from './query.ts'

const COUNT = { $count: 'total' }

/** Options of a read of limited size. */
const READ = { maxTimeMS: 5000, batchSize: 1000, allowDiskUse: true }
/** Options of a read whose cost grows with the collection. Limited, because a client may wait for it. */
const LONG = { ...READ, maxTimeMS: 30_000 }
/** Options of reads for the server's own long work, such as a rebuild: without a time limit. */
const UNLIMITED = { batchSize: 1000 }
/** Maximum number of ids per command. */
const MAX_IDS = 1000
const BODY = { _id: 0, body: 1 } as const

type Found<D> = Omit<Stored<D>, 'id'> & { _id: string }

/** A row of a page; without the body for a long document. */
type FoundRow<D> = { _id: string; body?: D }

const toRow = <D>({ _id: id, body }: FoundRow<D>): Row<D> => (body === undefined ? { id } : { body })

const toStored = <D>({ _id: id, position, body }: Found<D>): Stored<D> => ({ id, position, body })

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

  /** Runs a read, and repeats it once when another call interrupted it. @throws StoreUnavailable */
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

  /** If a word is rare, narrows a query to the few documents with that word in their parts. */
  async function narrowed(query: MongoQuery): Promise<MongoQuery> {
    const [words] = query.inParts
    if (words === undefined) return query
    const rows = await aggregate<{ owner: string; word: number }>(
      words.parts,
      ownersOfWords(words, storedName, words.parts),
      READ,
    )
    const byWord = Map.groupBy(rows, ({ word }) => word)
    const candidates = words.words.slice(0, MAX_CANDIDATES).map((_, word) => byWord.get(word) ?? [])
    const smallest = candidates.reduce((a, b) => (b.length < a.length ? b : a))
    if (smallest.length > MAX_SMALL_SET) return query
    return {
      ...query,
      own: { $and: [{ _id: { $in: [...new Set(smallest.map(({ owner }) => owner))] } }, query.own] },
    }
  }

  /** Returns the documents of a page in the form `shown`. */
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
        // The upsert matched no document with an earlier position, and the id exists. Either the stored document has a
        // later position and stays, or another node has just inserted it. Then it is replaced unless it is later.
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
      for (const collection of collections) await ask(() => prepareIndexes(documents(collection), collection))
    },
    async clear(collection) {
      // Dropping a collection takes the same time for any number of documents.
      await ask(() => documents(collection).drop())
      await ask(() => prepareIndexes(documents(collection), collection))
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
      // Order matters only within a collection. Writes stop after the first failure.
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

function toOperation(change: Change): AnyBulkWriteOperation<StoredDocument> {
  if (change.op === 'delete') {
    const { id, position } = change
    return { deleteOne: { filter: position === undefined ? { _id: id } : notAfter(id, position) } }
  }
  const { id, position, body, replaces } = change
  // If the replaced document is missing, another server has deleted it later.
  const upsert = (replaces ?? null) === null
  return { replaceOne: { filter: notAfter(id, position), replacement: { position, body }, upsert } }
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
