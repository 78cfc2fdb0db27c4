/** The stores, for commands that look at what a server has made. A server may run beside them. */
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { refuseHalfRestored } from '../backup/half-restored.ts'
import type { Config } from '../config.ts'
import type { EventStore } from '../events/event-store.ts'
import { openSqliteEventStore } from '../events/sqlite.ts'
import { type Generations, withGenerations } from '../projections/generations.ts'
import { openSqliteReadStore } from '../projections/sqlite.ts'
import { eventsFile, openEvents, openReadStores, viewsFile } from '../stores.ts'
import { CommandFailed, openFile } from './explain.ts'

/**
 * Other than the server commands make no new log in a directory that was mistyped.
 * @throws CommandFailed when there is none
 * @throws DataDirInUse when it is half restored
 */
export async function requireLog({ dataDir, eventStoreUrl }: Config): Promise<void> {
  await refuseHalfRestored(dataDir)
  if (eventStoreUrl === undefined && !existsSync(eventsFile(dataDir))) {
    throw new CommandFailed(`DATA_DIR: there is no log in ${dataDir}`)
  }
}

/** Opens the log that the environment names. Throws as `requireLog` does. */
export async function openLog(config: Config): Promise<EventStore> {
  await requireLog(config)
  return open(config)
}

/** The same, for a command that may be the first to write to a log. @throws DataDirInUse when it is half restored */
export async function openOrMakeLog(config: Config): Promise<EventStore> {
  await mkdir(config.dataDir, { recursive: true })
  await refuseHalfRestored(config.dataDir)
  return open(config)
}

async function open(config: Config): Promise<EventStore> {
  if (config.eventStoreUrl !== undefined) return openEvents(config)
  return openFile(eventsFile(config.dataDir), (file) => openSqliteEventStore(file))
}

/** Opens the read models alone: the secrets beside them are no command's concern. They are made if need be. */
export async function openViews(config: Config): Promise<Generations> {
  if (config.mongodbUrl !== undefined) {
    const { generations, secrets } = await openReadStores(config)
    await secrets.close()
    return generations
  }
  return withGenerations(openFile(viewsFile(config.dataDir), (file) => openSqliteReadStore(file)))
}
