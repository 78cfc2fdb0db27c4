/** Opens the stores for commands that read a server's data. The server may be running at the same time. */
import { existsSync } from 'node:fs'
import { secretCollections } from '../auth/secrets.ts'
import { createTextKeys } from '../auth/text-keys.ts'
import type { Config } from '../config/config.ts'
import { createDataDir } from '../config/create-directories.ts'
import { aloneNode, type Membership } from '../events/nodes/nodes.ts'
import { type SealedStore, sealTexts } from '../events/sealing/sealed-store.ts'
import { noTextKeys } from '../events/sealing/text-keys.ts'
import type { EventStore } from '../events/store/event-store.ts'
import { openSqliteEventStore } from '../events/store/sqlite/sqlite.ts'
import { writtenBy } from '../events/store/written-by.ts'
import { type Generations, withGenerations } from '../projections/generations/generations.ts'
import type { ReadStore } from '../projections/store/read-store.ts'
import { openSqliteReadStore } from '../projections/store/sqlite/sqlite.ts'
import { eventsFile, openEvents, openReadStores, secretsFile, viewsFile } from '../server/stores.ts'
import { refuseNewerData } from '../storage/data-format.ts'
import { refuseUnfinishedRestore } from '../storage/unfinished-restore.ts'
import { CommandFailed, openFile } from './explain.ts'

/**
 * Unlike the server, commands create no log: DATA_DIR may be mistyped.
 * @throws CommandFailed when the data directory has no log
 * @throws DataDirInUse when the data directory is half restored
 * @throws NewerData when it is of a newer version of Mergelog
 */
export async function requireLog({ dataDir, eventStoreUrl }: Config): Promise<void> {
  await refuseUnfinishedRestore(dataDir)
  await refuseNewerData(dataDir)
  if (eventStoreUrl === undefined && !existsSync(eventsFile(dataDir))) {
    throw new CommandFailed(`DATA_DIR: there is no log in ${dataDir}`)
  }
}

/** Opens the configured log. Throws the same errors as `requireLog`. */
export async function openLog(config: Config): Promise<EventStore> {
  await requireLog(config)
  return open(config)
}

/**
 * Opens the configured log with readable texts. Closing it also closes the secrets. Never creates missing secrets: the
 * texts are then lost. Throws the same errors as `requireLog`.
 */
export async function openTexts(config: Config): Promise<SealedStore> {
  const stored = await openLog(config)
  try {
    const secrets = await openSecrets(config)
    const keys = secrets === undefined ? noTextKeys : createTextKeys(secrets)
    const events = sealTexts(stored, keys)
    return { ...events, close: async () => void (await Promise.all([stored.close(), secrets?.close()])) }
  } catch (error) {
    await stored.close()
    throw error
  }
}

/** Opens the secrets; undefined when they are missing. */
async function openSecrets(config: Config): Promise<ReadStore | undefined> {
  if (config.mongodbUrl !== undefined) {
    const { readStore, secrets } = await openReadStores(config)
    await readStore.close()
    return secrets
  }
  const file = secretsFile(config.dataDir)
  if (!existsSync(file)) return undefined
  const secrets = openFile(file, (path) => openSqliteReadStore(path, 'FULL'))
  await secrets.prepare(secretCollections)
  return secrets
}

/**
 * Runs `work` with the configured log and its readable texts, then closes it. Throws the same errors as `requireLog`.
 */
export async function withLog<T>(config: Config, work: (events: SealedStore) => Promise<T>): Promise<T> {
  const events = await openTexts(config)
  try {
    return await work(events)
  } finally {
    await events.close()
  }
}

/**
 * Opens the log for a command that may write the first event, and creates the log if needed.
 * @throws DataDirInUse when the data directory is half restored
 * @throws NewerData when it is of a newer version of Mergelog
 */
export async function openOrMakeLog(config: Config): Promise<EventStore> {
  await createDataDir(config.dataDir)
  await refuseUnfinishedRestore(config.dataDir)
  await refuseNewerData(config.dataDir)
  return open(config)
}

async function open(config: Config): Promise<EventStore> {
  if (config.eventStoreUrl !== undefined) return openEvents(config)
  const events = openFile(eventsFile(config.dataDir), (file) => openSqliteEventStore(file))
  return writtenBy(config.nodeName, events)
}

/** Opens the read models, and creates their store if needed. Closes the secrets: no command needs them. */
export async function openViews(
  config: Config,
  membership: Membership = aloneNode(config.nodeName),
): Promise<Generations> {
  if (config.mongodbUrl !== undefined) {
    const { generations, secrets } = await openReadStores(config, membership)
    await secrets.close()
    return generations
  }
  return withGenerations(openFile(viewsFile(config.dataDir), (file) => openSqliteReadStore(file)))
}
