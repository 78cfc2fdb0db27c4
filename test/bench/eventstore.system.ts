import { join } from 'node:path'
import { EventStoreDBClient } from '@eventstore/db-client'
import t from 'tap'
import { requireEnd } from '../../bench/eventstore.ts'
import { startEventStoreDouble } from '../doubles/eventstore.ts'

t.test('npm run bench reports an EventStoreDB that is too old, and does not wait for it', async (t) => {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'eventstore.db') })
  const client = EventStoreDBClient.connectionString(double.url)
  t.teardown(async () => {
    await client.dispose()
    await double.close()
  })
  await requireEnd(client)
  double.access.hidesEndOfLog = true
  await t.rejects(requireEnd(client, 200), { message: /"caughtUp".* use 23\.10 or later/ })
  double.access.hidesEndOfLog = false
  await requireEnd(client)
})
