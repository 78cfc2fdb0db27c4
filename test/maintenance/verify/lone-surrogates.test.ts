/** MongoDB keeps texts as UTF-8, which cannot hold half of a surrogate pair. A log may have such texts. */
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { createProjector } from '../../../src/projections/projector/projector.ts'
import { openMongoReadStore } from '../../../src/projections/store/mongodb/mongodb.ts'
import { READ_MODELS } from '../../../src/projections/views/views.ts'
import { mongoWithLongTimeouts } from '../../doubles/long-timeouts.ts'
import { startMongoDouble } from '../../doubles/mongodb.ts'
import { newEvent } from '../../events/event-store-contract.ts'

t.test('a read model with U+FFFD for a lone surrogate of the log is sound', async (t) => {
  const dir = t.testdir()
  const mongo = await startMongoDouble({ port: 0, file: join(dir, 'mongo.db') })
  const events = openSqliteEventStore(join(dir, 'events.db'))
  const readStore = openMongoReadStore(mongoWithLongTimeouts(mongo))
  t.teardown(async () => {
    await Promise.all([events.close(), readStore.close()])
    await mongo.close()
  })
  const user = {
    id: 1,
    login: 'ann',
    email: 'ann@example.org',
    fullName: 'half \ud83d of a pair',
    siteAdmin: false,
  }
  await events.append('user-1', [newEvent(user, 'UserCreated')], 'no-stream')
  const projector = createProjector({
    log: pino({ level: 'silent' }),
    events,
    views: readStore,
    models: READ_MODELS,
  })
  await projector.start()
  t.equal(await projector.waitFor(await events.lastPosition(), 60_000), true)
  await projector.stop()
  const report = await verifyServer({ events, readStore, models: READ_MODELS, scratchDir: dir })
  t.match(report, { sound: true })
  t.ok(report.views.documents > 0)
})
