/** Connections to MongoDB, their options, and the names of our databases. */
import { type Db, MongoClient, type MongoClientOptions } from 'mongodb'
import { StoreDenied, StoreUnavailable } from '../../../events/store/event-store.ts'
import { mongoStartProblem } from './diagnosis.ts'
import { denial, isUnavailable } from './errors.ts'
import { monitoring, reportCommands } from './watch.ts'

const DEFAULT_DATABASE = 'mergelog'

/** Time limits for the detection of an outage and for a call, in milliseconds. */
const TIMES = {
  serverSelectionTimeoutMS: 1500,
  connectTimeoutMS: 1500,
  heartbeatFrequencyMS: 1000,
  waitQueueTimeoutMS: 5000,
  wtimeoutMS: 10_000,
}

/** Fixed options, with which `mongodb-url.ts` rejects conflicts in the connection string. */
const FIXED: MongoClientOptions = {
  ignoreUndefined: true,
  readPreference: 'primary',
  // Writes depend on reads, which must survive an election.
  readConcern: { level: 'majority' },
}

/** A connection to a database. `ask` maps MongoDB's errors to our classes. */
export interface MongoDatabase {
  database: Db
  /** Runs one command. @throws StoreUnavailable when MongoDB cannot answer now */
  ask<T>(command: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

/**
 * Connects at the first call to `options.database`, else the database in the URL, else `mergelog`. `what` names its
 * contents for messages.
 */
export function openMongoDatabase(
  url: string,
  what: string,
  options: { database?: string } & Pick<MongoClientOptions, 'lookup' | 'maxPoolSize'> = {},
): MongoDatabase {
  const { database, ...own } = options
  const client = new MongoClient(url, { ...clientOptions(url), ...monitoring(), ...own })
  reportCommands(client)
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
 * Returns the options of the driver. Time limits in the URL override ours; other options of ours override the URL, as
 * the driver does except for the parts of the write concern.
 */
export function clientOptions(url: string): MongoClientOptions {
  const isSet = (name: string) => new RegExp(`[?&]${name}=`, 'i').test(url)
  const times = Object.entries(TIMES).filter(
    ([name]) => !isSet(name) && !(name === 'wtimeoutMS' && isSet('wtimeout')),
  )
  return { ...Object.fromEntries(times), ...FIXED, w: 'majority', journal: true }
}

/** Returns the database in the URL, or the default. */
function databaseOf(url: string): string {
  const path = /^mongodb(?:\+srv)?:\/\/[^/]*\/([^?]+)/.exec(url)?.[1]
  return path === undefined ? DEFAULT_DATABASE : decodeURIComponent(path)
}

/** Returns the name of the database with the secrets. */
export const secretsDatabase = (url: string): string => `${databaseOf(url)}_secrets`

/**
 * Checks that MongoDB is usable.
 * @throws StoreUnavailable as one line with a remedy when it does not answer or refuses the user
 */
export async function requireMongo(url: string): Promise<void> {
  const client = new MongoClient(url, clientOptions(url))
  try {
    for (const database of [databaseOf(url), secretsDatabase(url)])
      await client.db(database).listCollections({}, { nameOnly: true }).hasNext()
  } catch (error) {
    throw mongoStartProblem(unavailable(error))
  } finally {
    await client.close()
  }
}

/** Maps the error of an unanswered call; returns any other error unchanged. */
function unavailable(error: unknown): unknown {
  if (!isUnavailable(error)) return error
  const denied = denial(error)
  if (denied !== undefined) return new StoreDenied(denied, { cause: error })
  const reason = error instanceof Error ? error.message : String(error)
  return new StoreUnavailable(`MongoDB does not answer: ${reason}`, { cause: error })
}
