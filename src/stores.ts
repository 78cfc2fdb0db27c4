/** Opens the stores that the configuration names: embedded ones by default, servers when a URL is set. */
import { join } from 'node:path'
import type { Config } from './config.ts'
import { DataDirInUse } from './data-lock.ts'
import type { EventStore } from './events/event-store.ts'
import { openSqliteEventStore } from './events/sqlite.ts'
import { writtenBy } from './events/written-by.ts'
import { withGenerations } from './projections/generations.ts'
import type { ReadStore } from './projections/read-store.ts'
import { openSqliteReadStore } from './projections/sqlite.ts'
import { shareSecrets } from './rights/secrets.ts'

/** The file of the embedded log in a data directory. */
export const eventsFile = (dataDir: string) => join(dataDir, 'events.db')

/** The file of the embedded read models in a data directory. */
export const viewsFile = (dataDir: string) => join(dataDir, 'views.db')

/** The file of the embedded secrets in a data directory. */
export const secretsFile = (dataDir: string) => join(dataDir, 'secrets.db')

/**
 * Opens the event log. Loads the EventStoreDB driver only when it is needed: loading it is slow.
 * @throws StoreUnavailable in one line, which says what to do, when the log cannot be read
 * @throws DataDirInUse when an import into EventStoreDB was cut off
 */
export async function openEvents({ eventStoreUrl, dataDir, nodeName }: Config): Promise<EventStore> {
  if (eventStoreUrl === undefined) return writtenBy(nodeName, openSqliteEventStore(eventsFile(dataDir)))
  const { openReadableEventStoreDb } = await import('./events/eventstoredb.ts')
  const log = await openReadableEventStoreDb(eventStoreUrl)
  try {
    if ((await log.importMark.unfinished()) === undefined) return writtenBy(nodeName, log)
    throw new DataDirInUse('EVENTSTORE_URL: an import into this log is not done; run the same import again')
  } catch (error) {
    await log.close()
    throw error
  }
}

/**
 * Opens the store of the read models, and the store of the secrets: the same kind of store, but never rebuilt.
 * `readStore` is the current one of the generations.
 */
export async function openReadStores({ mongodbUrl, dataDir }: Config) {
  if (mongodbUrl === undefined) {
    const secrets = openSqliteReadStore(secretsFile(dataDir), 'FULL')
    return readStores(openSqliteReadStore(viewsFile(dataDir)), secrets)
  }
  const { openMongoReadStore, secretsDatabase } = await import('./projections/mongodb.ts')
  const secrets = openMongoReadStore(mongodbUrl, { database: await secretsDatabase(mongodbUrl) })
  shareSecrets(secrets)
  return readStores(openMongoReadStore(mongodbUrl), secrets, true)
}

function readStores(documents: ReadStore, secrets: ReadStore, isShared = false) {
  const generations = withGenerations(documents, isShared)
  return { generations, readStore: generations.current, secrets }
}
