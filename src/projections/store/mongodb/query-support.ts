/**
 * Runs one query of each kind at startup, because compatible servers may lack a part of MongoDB's query language. The
 * queried collections do not exist, but a server still checks the query.
 */
import { MongoServerError } from 'mongodb'
import { OperatorError } from '../../../errors/operator-error.ts'
import type { Collection, Filter, ReadStore } from '../read-store.ts'

interface Sample {
  text?: string
  rank?: number
  labels?: string[]
  words?: string[]
}

const parts: Collection<{ owner: string; words: string[] }> = {
  name: 'asked_at_start_parts',
  indexes: [],
  arrays: ['words'],
  partOf: 'owner',
}
const sample: Collection<Sample> = {
  name: 'asked_at_start',
  indexes: [],
  arrays: ['labels', 'words'],
  wordsIn: { words: parts },
}
/** Words of the documents themselves, not of their parts. */
const withWords: Collection<Sample> = { name: sample.name, indexes: [], arrays: sample.arrays }

/** @throws OperatorError with the server's own message when it cannot answer a kind of query; StoreUnavailable */
export async function requireQuerySupport(store: ReadStore): Promise<void> {
  const filter: Filter<Sample> = {
    text: { $in: ['a', 'b'] },
    rank: { $gt: 0, $gte: 1, $lt: 9, $lte: 8 },
    words: { $words: ['some', 'words'] },
  }
  const page = { sort: [['rank', -1]], skip: 1, limit: 1 } as const
  const either: Filter<Sample> = { text: 'a', labels: { $in: ['a', 'b'] }, words: { $words: ['word'] } }
  const queries = [
    () => store.get(sample, 'a'),
    () => store.getMany(sample, ['a', 'b']),
    () => store.find(withWords, either, page),
    () => store.rows(sample, filter, page),
    () => store.page(sample, filter, page),
    () => store.count(sample, filter),
    () => store.ids(sample, filter),
    () => store.range(sample, { after: 'a', limit: 1 }),
    () => store.checkpoints(['asked_at_start']),
  ]
  for (const query of queries) {
    await query().catch((error: unknown) => {
      if (!(error instanceof MongoServerError)) throw error
      throw new OperatorError(
        `MONGODB_URL: this server cannot answer a query that Mergelog needs; use MongoDB 5.0 or later. It says: ${error.message}`,
        { cause: error },
      )
    })
  }
}
