/** Connections to MongoDB, their settings, and the databases that we have there. */
import { type Db, MongoClient, type MongoClientOptions } from 'mongodb'
import { StoreDenied, StoreUnavailable } from '../../../events/store/event-store.ts'
import { mongoStartProblem } from './diagnosis.ts'
import { denial, isUnavailable } from './errors.ts'
import { monitoring, tellCommands } from './watch.ts'

const DEFAULT_DATABASE = 'mergelog'

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

/** The database that the URL names. */
function databaseOf(url: string): string {
  const path = /^mongodb(?:\+srv)?:\/\/[^/]*\/([^?]+)/.exec(url)?.[1]
  return path === undefined ? DEFAULT_DATABASE : decodeURIComponent(path)
}

/** The name of the database with the secrets: that of the main one, with `_secrets`. */
export const secretsDatabase = (url: string): string => `${databaseOf(url)}_secrets`

/**
 * Asks whether MongoDB can be used.
 * @throws StoreUnavailable in one line, which says what to do, when it does not answer or refuses the user
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

/** The error of a call that MongoDB did not answer; any other error stays what it is. */
function unavailable(error: unknown): unknown {
  if (!isUnavailable(error)) return error
  const denied = denial(error)
  if (denied !== undefined) return new StoreDenied(denied, { cause: error })
  const reason = error instanceof Error ? error.message : String(error)
  return new StoreUnavailable(`MongoDB does not answer: ${reason}`, { cause: error })
}
