/** The stores that a configuration names: embedded by default, distributed by a URL. */
import { join } from 'node:path'
import type { Config } from './config.ts'
import type { EventStore } from './events/event-store.ts'
import { openSqliteEventStore } from './events/sqlite.ts'
import { type Generations, withGenerations } from './projections/generations.ts'
import type { ReadStore } from './projections/read-store.ts'
import { openSqliteReadStore } from './projections/sqlite.ts'

/** File of the embedded log in a data directory. */
export const eventsFile = (dataDir: string) => join(dataDir, 'events.db')

/** File of the embedded read models. */
export const viewsFile = (dataDir: string) => join(dataDir, 'views.db')

/** The drivers of servers take a while to load: only who names a server waits for them. */
export async function openEvents({ eventStoreUrl, dataDir }: Config): Promise<EventStore> {
  if (eventStoreUrl === undefined) return openSqliteEventStore(eventsFile(dataDir))
  const { openEventStoreDb } = await import('./events/eventstoredb.ts')
  return openEventStoreDb(eventStoreUrl)
}

/** The read models, and the secrets: a store of the same kind that is never rebuilt. */
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
