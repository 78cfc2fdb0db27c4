/** Several servers of one installation: EventStoreDB's and MongoDB's doubles, and one data directory. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type t from 'tap'
import { startEventStoreDouble } from './doubles/eventstore.ts'
import { startMongoDouble } from './doubles/mongodb.ts'

/** The environment of each node; the stores stop, and the data is gone, when the test ends. */
export async function sharedStores(test: Pick<typeof t, 'teardown'>) {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-nodes-'))
  test.teardown(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }))
  const eventStore = await startEventStoreDouble({ port: 0, file: join(dir, 'eventstore.db') })
  test.teardown(() => eventStore.close())
  const mongo = await startMongoDouble({ port: 0, file: join(dir, 'mongo.db') })
  test.teardown(() => mongo.close())
  return { EVENTSTORE_URL: eventStore.url, MONGODB_URL: mongo.url, DATA_DIR: join(dir, 'data') }
}
