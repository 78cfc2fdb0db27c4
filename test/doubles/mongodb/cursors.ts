/** Cursors: results that are sent in batches. */
import { LRUCache } from 'lru-cache'
import { BSON } from 'mongodb'
import { CommandFailure } from './failure.ts'
import { type BsonDocument, encode } from './values.ts'

const FIRST_BATCH = 101
const MAX_BATCH_BYTES = 16 * 1024 * 1024
const MAX_CURSORS = 1000
const IDLE_MS = 10 * 60 * 1000

export interface Batch {
  /** Zero when there are no more documents. */
  id: BSON.Long
  ns: string
  documents: BsonDocument[]
}

export interface Cursors {
  /** `batchSize` undefined means the server's default. With `single` there is one batch and no cursor. */
  open(ns: string, results: BsonDocument[], batchSize: number | undefined, single?: boolean): Batch
  next(id: string, ns: string, batchSize: number | undefined): Batch
  kill(id: string): boolean
}

export function createCursors(): Cursors {
  const open = new LRUCache<string, { ns: string; rest: BsonDocument[] }>({ max: MAX_CURSORS, ttl: IDLE_MS })
  let lastId = 0n

  function keep(ns: string, rest: BsonDocument[]): BSON.Long {
    if (rest.length === 0) return BSON.Long.ZERO
    lastId += 1n
    open.set(lastId.toString(), { ns, rest })
    return BSON.Long.fromBigInt(lastId)
  }

  return {
    open(ns, results, batchSize, single = false) {
      const documents = batchOf(results, batchSize ?? FIRST_BATCH)
      return { id: single ? BSON.Long.ZERO : keep(ns, results.slice(documents.length)), ns, documents }
    },
    next(id, ns, batchSize) {
      const cursor = open.get(id)
      if (cursor === undefined || cursor.ns !== ns) {
        throw new CommandFailure(43, 'CursorNotFound', `cursor id ${id} not found`)
      }
      const documents = batchOf(cursor.rest, batchSize ?? Number.POSITIVE_INFINITY)
      const rest = cursor.rest.slice(documents.length)
      if (rest.length > 0) open.set(id, { ns, rest })
      else open.delete(id)
      return { id: rest.length > 0 ? BSON.Long.fromString(id) : BSON.Long.ZERO, ns, documents }
    },
    kill: (id) => open.delete(id),
  }
}

/** The documents that fit into one answer: at least one, unless the batch size is 0. */
function batchOf(results: BsonDocument[], most: number): BsonDocument[] {
  let bytes = 0
  const end = results.findIndex((document, i) => {
    if (i >= most) return true
    bytes += encode(document).length
    return i > 0 && bytes > MAX_BATCH_BYTES
  })
  return end < 0 ? results : results.slice(0, end)
}
