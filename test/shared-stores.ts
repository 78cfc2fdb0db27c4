/** The stores and the data directory of several nodes: each node is a `startTestServer` with this environment. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { startEventStoreDouble } from './doubles/eventstore.ts'
import { eventStoreWithLongTimeouts, mongoWithLongTimeouts } from './doubles/long-timeouts.ts'
import { startMongoDouble } from './doubles/mongodb.ts'

/** Starts the doubles of both stores; they end with the test, and the directory is gone. */
export async function sharedStores(t: Test) {
  const directory = await mkdtemp(join(tmpdir(), 'mergelog-nodes-'))
  t.teardown(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }))
  const eventStore = await startEventStoreDouble({ port: 0, file: join(directory, 'eventstore.db') })
  t.teardown(() => eventStore.close())
  const mongo = await startMongoDouble({ port: 0, file: join(directory, 'mongo.db') })
  t.teardown(() => mongo.close())
  return {
    EVENTSTORE_URL: eventStoreWithLongTimeouts(eventStore),
    MONGODB_URL: mongoWithLongTimeouts(mongo),
    DATA_DIR: join(directory, 'data'),
  }
}
