/**
 * Runs one query of each kind that lists need, because compatible servers may lack a part of MongoDB's query language:
 * the start must fail, not later lists. Writes nothing: the collections do not exist, and a server parses a query
 * first.
 */
import { MongoServerError } from 'mongodb'
import { OperatorError } from '../../../errors/operator-error.ts'
import type { Collection, Filter, ReadStore } from '../read-store.ts'

interface Asked {
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
const asked: Collection<Asked> = {
  name: 'asked_at_start',
  indexes: [],
  arrays: ['labels', 'words'],
  wordsIn: { words: parts },
}
/** Words of the documents themselves, not of their parts. */
const withWords: Collection<Asked> = { name: asked.name, indexes: [], arrays: asked.arrays }

/** @throws OperatorError with the server's own message when it cannot answer a kind of query; StoreUnavailable */
export async function requireQuerySupport(store: ReadStore): Promise<void> {
  const filter: Filter<Asked> = {
    text: { $in: ['a', 'b'] },
    rank: { $gt: 0, $gte: 1, $lt: 9, $lte: 8 },
    words: { $words: ['some', 'words'] },
  }
  const page = { sort: [['rank', -1]], skip: 1, limit: 1 } as const
  const either: Filter<Asked> = { text: 'a', labels: { $in: ['a', 'b'] }, words: { $words: ['word'] } }
  const questions = [
    () => store.get(asked, 'a'),
    () => store.getMany(asked, ['a', 'b']),
    () => store.find(withWords, either, page),
    () => store.rows(asked, filter, page),
    () => store.page(asked, filter, page),
    () => store.count(asked, filter),
    () => store.ids(asked, filter),
    () => store.range(asked, { after: 'a', limit: 1 }),
    () => store.checkpoints(['asked_at_start']),
  ]
  for (const question of questions) {
    await question().catch((error: unknown) => {
      if (!(error instanceof MongoServerError)) throw error
      throw new OperatorError(
        `MONGODB_URL: this server cannot answer a query that Mergelog needs; use MongoDB 5.0 or later. It says: ${error.message}`,
        { cause: error },
      )
    })
  }
}
