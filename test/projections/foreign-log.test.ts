/** Read models beside a foreign log: restored to an older state, and grown since. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { append } from '../../src/commands/execution/append.ts'
import type { EventStore } from '../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../src/events/store/eventstoredb/eventstoredb.ts'
import { openSqliteEventStore } from '../../src/events/store/sqlite/sqlite.ts'
import { createProjector } from '../../src/projections/projector/projector.ts'
import { type Fold, readModel } from '../../src/projections/projector/read-model.ts'
import { openMongoReadStore } from '../../src/projections/store/mongodb/mongodb.ts'
import { openSqliteReadStore } from '../../src/projections/store/sqlite/sqlite.ts'
import { startEventStoreDouble } from '../doubles/eventstore.ts'
import { startMongoDouble } from '../doubles/mongodb.ts'
import { aContext, writerOf } from '../stores.ts'

const tally: Fold<{ count: number }> = {
  collection: { name: 'tallies', indexes: [], arrays: [] },
  version: 1,
  handles: ({ type }) => type === 'NumberTaken',
  touches: (event) => (event.type === 'NumberTaken' ? [event.data.sequence] : []),
  evolve: (document) => ({ count: (document?.count ?? 0) + 1 }),
}
const log = pino({ level: 'silent' })

function take(events: EventStore, times: number) {
  const taken = { type: 'NumberTaken' as const, data: { sequence: 'a' } }
  return append(writerOf(events), aContext(), 'numbers-a', 'take', Array(times).fill(taken), 'any')
}

const node = { id: randomUUID(), name: 'a node' }
const sharing = {
  membership: { self: () => node, isMember: () => true, isGone: async () => true },
  forget() {},
}

const stores = {
  'embedded stores': {
    log: async (_: Test, file: string) => openSqliteEventStore(file),
    views: async (_: Test, file: string) => openSqliteReadStore(file),
  },
  servers: {
    async log(t: Test, file: string) {
      const double = await startEventStoreDouble({ port: 0, file })
      t.teardown(() => double.close())
      return openEventStoreDb(double.url)
    },
    async views(t: Test, file: string) {
      const double = await startMongoDouble({ port: 0, file })
      t.teardown(() => double.close())
      return openMongoReadStore(double.url)
    },
  },
}

for (const [name, open] of Object.entries(stores)) {
  t.test(`${name}: read models detect a log that was restored and has grown since`, async (t) => {
    const dir = t.testdir()
    const views = await open.views(t, join(dir, 'views.db'))
    t.teardown(() => views.close())
    async function logOf(file: string, events: number) {
      const store = await open.log(t, join(dir, file))
      t.teardown(() => store.close())
      await take(store, events)
      return store
    }
    async function start(events: EventStore) {
      const projector = createProjector({
        log,
        events,
        views,
        models: [readModel(tally)],
        applied: () => {},
        sharing,
      })
      await projector.start()
      t.teardown(() => projector.stop())
      return projector
    }
    const own = await logOf('events.db', 5)
    const first = await start(own)
    t.equal(await first.waitFor(await own.lastPosition(), 5000), true)
    await first.stop()
    t.match(await views.checkpoint('tallies'), { event: String })

    const grown = await logOf('older.db', 9)
    await t.rejects(start(grown), {
      name: 'BrokenFile',
      message: /has another event at position \d+, and the read model tallies .*This is an older copy/,
    })

    const second = await start(own)
    t.equal(await second.waitFor((await take(own, 1)).position, 5000), true)
    t.same(await views.get(tally.collection, 'a'), { count: 6 }, 'with its own log it goes on')
    await second.stop()
  })
}

t.test('a checkpoint at a position that the log lacks is refused', async (t) => {
  const dir = t.testdir()
  const events = await stores.servers.log(t, join(dir, 'events.db'))
  const views = await stores['embedded stores'].views(t, join(dir, 'views.db'))
  t.teardown(() => Promise.all([events.close(), views.close()]))
  const { position } = await take(events, 3)
  const stored = { position: position - 1, version: 1, event: `${position - 1}:${randomUUID()}` }
  await views.apply([], new Map([['tallies', stored]]))
  const projector = createProjector({ log, events, views, models: [readModel(tally)] })
  await t.rejects(projector.start(), { name: 'BrokenFile', message: /has another event at position/ })
  t.same(await views.checkpoint('tallies'), stored)
})

for (const [name, open] of Object.entries(stores)) {
  t.test(`${name}: a start that was refused moves no checkpoint, neither when it is stopped`, async (t) => {
    const dir = t.testdir()
    const views = await open.views(t, join(dir, 'views.db'))
    t.teardown(() => views.close())
    const events = await open.log(t, join(dir, 'events.db'))
    t.teardown(() => events.close())
    const { position } = await take(events, 3)
    const stored = { position, version: 1, event: `${position}:${randomUUID()}` }
    await views.prepare([tally.collection])
    await views.apply([], new Map([['tallies', stored]]))
    for (const _ of ['the first try', 'the second one']) {
      const projector = createProjector({
        log,
        events,
        views,
        models: [readModel(tally)],
        applied: () => {},
        sharing,
      })
      await t.rejects(projector.start(), { name: 'BrokenFile', message: /has another event at position/ })
      await projector.stop()
      t.same(await views.checkpoint('tallies'), stored)
    }
  })
}
