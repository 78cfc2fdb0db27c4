import { join } from 'node:path'
import t from 'tap'
import { openEventStoreDb } from '../../src/events/eventstoredb.ts'
import { startEventStoreDouble } from '../doubles/eventstore.ts'
import { eventStoreContract } from './event-store-contract.ts'

t.test('the contract, with the protocol double', async (t) => {
  eventStoreContract(t, async (t) => {
    const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
    const store = openEventStoreDb(double.url)
    t.teardown(async () => {
      await store.close()
      await double.close()
    })
    return { store, reopen: async () => openEventStoreDb(double.url) }
  })
})
