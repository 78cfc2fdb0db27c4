/** Installations of each kind, to move data between them. */
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Config, loadConfig } from '../../../src/config/config.ts'
import type { RecordedEvent } from '../../../src/events/store/event-store.ts'
import { openEvents } from '../../../src/server/stores.ts'
import { startEventStoreDouble } from '../../doubles/eventstore.ts'
import { eventStoreWithLongTimeouts, mongoWithLongTimeouts } from '../../doubles/long-timeouts.ts'
import { startMongoDouble } from '../../doubles/mongodb.ts'
import { temporaryDirectory } from '../backup/restored.ts'

export type Kind = 'embedded' | 'both servers' | 'EventStoreDB' | 'MongoDB'

/** The environment of an installation: its DATA_DIR, which does not exist yet, and the URLs of its servers. */
export type Installation = Record<string, string> & { DATA_DIR: string }

/** An empty installation with servers of its own. */
export async function anInstallation(t: Test, kind: Kind): Promise<Installation> {
  const dir = await temporaryDirectory(t)
  const environment: Installation = { DATA_DIR: join(dir, 'data') }
  if (kind === 'both servers' || kind === 'EventStoreDB') {
    const eventStore = await startEventStoreDouble({ port: 0, file: join(dir, 'eventstore.db') })
    t.teardown(() => eventStore.close())
    environment.EVENTSTORE_URL = eventStoreWithLongTimeouts(eventStore)
  }
  if (kind === 'both servers' || kind === 'MongoDB') {
    const mongo = await startMongoDouble({ port: 0, file: join(dir, 'mongo.db') })
    t.teardown(() => mongo.close())
    environment.MONGODB_URL = mongoWithLongTimeouts(mongo)
  }
  return environment
}

export const configOf = (installation: Record<string, string>): Config =>
  loadConfig({ ...installation, PORT: '0', GRPC_PORT: '0' })

/** All events of an installation's log, without their positions. */
export async function eventsOf(installation: Installation): Promise<Omit<RecordedEvent, 'position'>[]> {
  const log = await openEvents(configOf(installation))
  try {
    const events: Omit<RecordedEvent, 'position'>[] = []
    for await (const { position: _, ...event } of log.readAll()) events.push(event)
    return events
  } finally {
    await log.close()
  }
}
