/** Opens the stores that the configuration names: embedded ones by default, servers when a URL is set. */
import { join } from 'node:path'
import type { Config } from './config.ts'
import type { EventStore } from './events/event-store.ts'
import { openSqliteEventStore } from './events/sqlite.ts'
import { type Generations, withGenerations } from './projections/generations.ts'
import type { ReadStore } from './projections/read-store.ts'
import { openSqliteReadStore } from './projections/sqlite.ts'

/** The file of the embedded log in a data directory. */
export const eventsFile = (dataDir: string) => join(dataDir, 'events.db')

/** The file of the embedded read models in a data directory. */
export const viewsFile = (dataDir: string) => join(dataDir, 'views.db')

/** Opens the event log. Loads the EventStoreDB driver only when it is needed: loading it is slow. */
export async function openEvents({ eventStoreUrl, dataDir }: Config): Promise<EventStore> {
  if (eventStoreUrl === undefined) return openSqliteEventStore(eventsFile(dataDir))
  const { openEventStoreDb } = await import('./events/eventstoredb.ts')
  return openEventStoreDb(eventStoreUrl)
}

/** The store of the read models, and the store of the secrets: the same kind of store, but never rebuilt. */
export interface ReadStores {
  generations: Generations
  /** The current generation. */
  readStore: ReadStore
  secrets: ReadStore
}

export async function openReadStores(config: Config): Promise<ReadStores> {
  const { documents, secrets } = await openDocuments(config)
  const generations = withGenerations(documents)
  return { generations, readStore: generations.current, secrets }
}

async function openDocuments({ mongodbUrl, dataDir }: Config) {
  if (mongodbUrl === undefined) {
    return {
      documents: openSqliteReadStore(viewsFile(dataDir)),
      secrets: openSqliteReadStore(join(dataDir, 'secrets.db'), 'FULL'),
    }
  }
  const { openMongoReadStore } = await import('./projections/mongodb.ts')
  return {
    documents: openMongoReadStore(mongodbUrl),
    secrets: openMongoReadStore(mongodbUrl, { database: 'mergelog_secrets' }),
  }
}
