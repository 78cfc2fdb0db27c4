/** The stores that a configuration names: embedded by default, distributed by a URL. */
import { join } from 'node:path'
import type { Config } from './config.ts'
import type { EventStore } from './events/event-store.ts'
import { openEventStoreDb } from './events/eventstoredb.ts'
import { openSqliteEventStore } from './events/sqlite.ts'
import { type Generations, withGenerations } from './projections/generations.ts'
import { openMongoReadStore } from './projections/mongodb.ts'
import type { ReadStore } from './projections/read-store.ts'
import { openSqliteReadStore } from './projections/sqlite.ts'

/** File of the embedded log in a data directory. */
export const eventsFile = (dataDir: string) => join(dataDir, 'events.db')

/** File of the embedded read models. */
export const viewsFile = (dataDir: string) => join(dataDir, 'views.db')

export function openEvents({ eventStoreUrl, dataDir }: Config): EventStore {
  return eventStoreUrl === undefined
    ? openSqliteEventStore(eventsFile(dataDir))
    : openEventStoreDb(eventStoreUrl)
}

/** The read models, and the secrets: a store of the same kind that is never rebuilt. */
export interface ReadStores {
  generations: Generations
  /** The current generation. */
  readStore: ReadStore
  secrets: ReadStore
}

export function openReadStores({ mongodbUrl, dataDir }: Config): ReadStores {
  const [documents, secrets] =
    mongodbUrl === undefined
      ? [openSqliteReadStore(viewsFile(dataDir)), openSqliteReadStore(join(dataDir, 'secrets.db'), 'FULL')]
      : [openMongoReadStore(mongodbUrl), openMongoReadStore(mongodbUrl, { database: 'mergelog_secrets' })]
  const generations = withGenerations(documents)
  return { generations, readStore: generations.current, secrets }
}
