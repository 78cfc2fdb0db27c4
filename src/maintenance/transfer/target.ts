/** The stores that an import fills: embedded ones as files in `DATA_DIR/restoring`, servers directly. */
import { chmod } from 'node:fs/promises'
import { secretCollections } from '../../auth/secrets.ts'
import type { Config } from '../../config/config.ts'
import { type EventStore, StoreUnavailable } from '../../events/store/event-store.ts'
import { openSqliteEventStore } from '../../events/store/sqlite/sqlite.ts'
import { withGenerations } from '../../projections/generations/generations.ts'
import type { AnyCollection, ReadStore } from '../../projections/store/read-store.ts'
import { openSqliteReadStore } from '../../projections/store/sqlite/sqlite.ts'
import { READ_MODELS } from '../../projections/views/views.ts'
import { eventsFile, openReadStores, secretsFile, viewsFile } from '../../server/stores.ts'
import { checkpointWal } from '../backup/database-copies.ts'
import { BackupProblem } from '../backup/manifest.ts'

/** The log to fill. It stores events unchanged. */
export interface TargetLog extends Pick<EventStore, 'append' | 'readAll' | 'close'> {
  isEmbedded: boolean
  /** Whether it holds the first events of this export. @throws BackupProblem when it holds anything else */
  begun(): Promise<boolean>
  /** Marks the log as partly imported, so that no server starts on it. */
  mark(): Promise<void>
  unmark(): Promise<void>
  /** Checkpoints the file of an embedded log, so that it can be moved. */
  settle(): Promise<void>
}

/**
 * Opens the log for the export with this checksum. An embedded one is created in `directory` at its first use.
 * @throws StoreUnavailable as one line with a remedy, when a server cannot be read
 */
export async function openTargetLog(
  { eventStoreUrl }: Config,
  directory: string,
  sums: string,
): Promise<TargetLog> {
  if (eventStoreUrl === undefined) return embeddedLog(directory)
  const { openReadableEventStoreDb } = await import('../../events/store/eventstoredb/eventstoredb.ts')
  const { append, readAll, close, importMark } = await openReadableEventStoreDb(eventStoreUrl, {
    linked: false,
  })
  return {
    isEmbedded: false,
    append,
    readAll,
    close,
    async begun() {
      const unfinished = await importMark.unfinished()
      if (unfinished !== undefined) {
        if (unfinished === sums) return true
        throw new BackupProblem('EVENTSTORE_URL: an import of another export into this log was cut off')
      }
      for await (const _ of readAll({ maxCount: 1 })) {
        throw new BackupProblem('EVENTSTORE_URL: the log has events; an import needs an empty one')
      }
      return false
    },
    mark: () => importMark.begin(sums),
    unmark: () => importMark.end(),
    settle: async () => {},
  }
}

function embeddedLog(directory: string): TargetLog {
  let opened: EventStore | undefined
  const log = () => {
    opened ??= openSqliteEventStore(eventsFile(directory), { linked: false })
    return opened
  }
  return {
    isEmbedded: true,
    append: (...append) => log().append(...append),
    readAll: (options) => log().readAll(options),
    close: async () => opened?.close(),
    async settle() {
      await opened?.close()
      await checkpointWal(eventsFile(directory))
    },
    // `DATA_DIR/restoring` is its mark.
    begun: async () => false,
    mark: async () => void log(),
    unmark: async () => {},
  }
}

export interface TargetReadStores {
  views: ReadStore
  secrets: ReadStore
  /** Checkpoints the files of embedded stores, so that they can be moved. */
  settle(): Promise<void>
  close(): Promise<void>
}

/** Opens the read models and the secrets. Embedded ones are created in `directory`. */
export async function openTargetReadStores(config: Config, directory: string): Promise<TargetReadStores> {
  const { views, secrets } =
    config.mongodbUrl === undefined
      ? {
          views: withGenerations(openSqliteReadStore(viewsFile(directory))).current,
          secrets: openSqliteReadStore(secretsFile(directory), 'FULL'),
        }
      : await openMongo(config)
  return {
    views,
    secrets,
    async settle() {
      await Promise.all([views.close(), secrets.close()])
      if (config.mongodbUrl !== undefined) return
      await checkpointWal(viewsFile(directory))
      await checkpointWal(secretsFile(directory))
      await chmod(secretsFile(directory), 0o600)
    },
    async close() {
      await Promise.all([views.close(), secrets.close()])
    },
  }
}

async function openMongo(config: Config) {
  const { readStore, secrets } = await openReadStores(config)
  return { views: readStore, secrets }
}

/**
 * Refuses MongoDB when it has read models, or secrets of another import.
 * @throws BackupProblem
 */
export async function requireEmptyMongo(config: Config, continues: boolean): Promise<void> {
  if (config.mongodbUrl === undefined) return
  const { generations, readStore, secrets } = await openReadStores(config)
  try {
    for (const { name, collection } of READ_MODELS) {
      for (const store of [generations.current, generations.spare]) {
        const isUnused = (await store.checkpoint(name)) === undefined && (await isEmpty(store, collection))
        if (!isUnused) throw notEmpty(`the read model ${name}`)
      }
    }
    if (continues) return
    for (const collection of secretCollections) {
      if (!(await isEmpty(secrets, collection))) throw notEmpty('secrets')
    }
  } finally {
    await Promise.all([readStore.close(), secrets.close()])
  }
}

const isEmpty = async (store: ReadStore, collection: AnyCollection) =>
  (await store.range(collection, { limit: 1 })).length === 0

const notEmpty = (what: string) =>
  new BackupProblem(`MONGODB_URL: the database has ${what}; an import needs an empty one`)

/** Adds a remedy to the error of a store that became unavailable. Returns other errors unchanged. */
export const asInterrupted = (error: unknown) =>
  error instanceof StoreUnavailable
    ? new BackupProblem(
        `the import was interrupted: ${error.message}. Then run the same import again: it continues`,
        { cause: error },
      )
    : error
