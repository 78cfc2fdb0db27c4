/** The log, for commands that only read it. */
import { existsSync } from 'node:fs'
import type { Config } from '../config.ts'
import type { EventStore } from '../events/event-store.ts'
import { eventsFile, openEvents } from '../stores.ts'
import { CommandFailed } from './explain.ts'

/**
 * Opens the log that the environment names; other than the server it makes no new one in a directory that was
 * mistyped. A server may run beside it.
 *
 * @throws CommandFailed when there is none
 */
export async function openLog(config: Config): Promise<EventStore> {
  if (config.eventStoreUrl === undefined && !existsSync(eventsFile(config.dataDir))) {
    throw new CommandFailed(`DATA_DIR: there is no log in ${config.dataDir}`)
  }
  return openEvents(config)
}
