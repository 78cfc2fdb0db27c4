/** Stopped read models: what they keep and report, and that the others continue. On both kinds of logs. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import type { EventStore, Position } from '../../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../../src/events/store/eventstoredb/eventstoredb.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import { createProjector } from '../../../src/projections/projector/projector.ts'
import { type Fold, readModel } from '../../../src/projections/projector/read-model.ts'
import { openSqliteReadStore } from '../../../src/projections/store/sqlite/sqlite.ts'
import { startEventStoreDouble } from '../../doubles/eventstore.ts'
import { aContext, writerOf } from '../../stores.ts'
import { until } from '../../until.ts'

interface Tally {
  count: number
}

/** A fold that counts numbers, and throws at those of the sequence `poison`. */
function tally(name: string, where: 'nowhere' | 'touches' | 'evolve' = 'nowhere'): Fold<Tally> {
  const throwAt = (place: string, event: DomainEvent) => {
    if (place === where && event.type === 'NumberTaken' && event.data.sequence === 'poison')
      throw new Error('cannot digest this')
  }
  return {
    collection: { name, indexes: [], arrays: [] },
    version: 1,
    handles: ({ type }) => type === 'NumberTaken',
    touches(event) {
      throwAt('touches', event)
      return event.type === 'NumberTaken' ? ['all'] : []
    },
    evolve(document, event) {
      throwAt('evolve', event)
      return { count: (document?.count ?? 0) + 1 }
    },
  }
}

const claims: Fold<Tally> = {
  ...tally('claims'),
  handles: ({ type }) => type === 'ClaimTaken',
  touches: ({ type }) => (type === 'ClaimTaken' ? ['all'] : []),
}

const taken = (sequence: string): DomainEvent => ({ type: 'NumberTaken', data: { sequence } })
async function take(events: EventStore, sequence: string): Promise<Position> {
  const { position } = await append(
    writerOf(events),
    aContext(),
    `numbers-${sequence}`,
    'take',
    [taken(sequence)],
    'any',
  )
  return position
}

/** Appends an event of any type and data to a stream, as from a newer version or a damaged one. */
async function appendAnything(events: EventStore, type: string, data: object): Promise<Position> {
  const at = new Date().toISOString()
  const metadata = { actor: null, at, correlationId: 'c', causationId: 'c', schema: 1 }
  const { position } = await events.append('x-1', [{ id: randomUUID(), type, data, metadata }], 'any')
  return position
}

const logs = {
  'the embedded log': async (t: Test) => openSqliteEventStore(join(t.testdir(), 'events.db')),
  async EventStoreDB(t: Test) {
    const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'server.db') })
    t.teardown(() => double.close())
    return openEventStoreDb(double.url)
  },
}

async function setUp(t: Test, open: (t: Test) => Promise<EventStore>) {
  const events = await open(t)
  const views = openSqliteReadStore(join(t.testdirName, 'views.db'))
  t.teardown(() => Promise.all([events.close(), views.close()]))
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
  async function start(...folds: Fold<Tally>[]) {
    const projector = createProjector({ log, events, views, models: folds.map(readModel) })
    await projector.start()
    t.teardown(() => projector.stop())
    return projector
  }
  return { events, views, lines, start }
}

for (const [name, open] of Object.entries(logs)) {
  t.test(
    `${name}: a checkpoint is the position of the last event taken; after a restart the reason is reported again, the others continue`,
    async (t) => {
      const { events, views, lines, start } = await setUp(t, open)
      const folds = [tally('good'), tally('picky', 'evolve')]
      const before = await take(events, 'a')
      const poison = await take(events, 'poison')
      const first = await start(...folds)
      await until('picky stops', async () => first.status()[1]?.stopped !== undefined)
      t.match(await views.checkpoint('picky'), { position: before })
      await first.stop()
      lines.length = 0
      const second = await start(...folds)
      t.equal(await second.waitFor(await take(events, 'a'), 5000), true)
      t.match(await views.get(folds[0]?.collection ?? claims.collection, 'all'), { count: 3 })
      const reason = new RegExp(`event ${poison} .*cannot digest this`)
      t.match(
        second.status()[1],
        { name: 'picky', position: before, stopped: reason },
        'the reason is named again',
      )
      t.match(lines.join(''), reason, 'in the log, too')
      t.equal(lines.length, 1, 'and nothing else is logged')
    },
  )

  t.test(
    `${name}: one event that stops several read models is one line in the log, which names them`,
    async (t) => {
      const { events, lines, start } = await setUp(t, open)
      const poison = await take(events, 'poison')
      const folds = [tally('one', 'evolve'), tally('two', 'touches'), tally('three', 'evolve'), tally('good')]
      const projector = await start(...folds)
      t.equal(await projector.waitFor(await take(events, 'a'), 60_000), true)
      const reason = `event ${poison} (NumberTaken, numbers-poison@0): cannot digest this`
      t.match(
        projector.status().map(({ stopped }) => stopped),
        [reason, reason, reason, undefined],
      )
      t.equal(lines.length, 1)
      t.match(JSON.parse(lines[0] ?? ''), {
        models: ['one', 'two', 'three'],
        position: poison,
        msg: `read models stopped at ${reason} (one, two, three)`,
      })
      const unreadable = await appendAnything(events, 'FromTheFuture', {})
      await until('good stops, too', async () => projector.status()[3]?.stopped !== undefined)
      t.equal(lines.length, 2)
      t.match(JSON.parse(lines[1] ?? ''), { models: ['good'], position: unreadable })
    },
  )

  t.test(
    `${name}: a fold that throws in touches() is poison: its model stops by name, and no other`,
    async (t) => {
      const { events, start } = await setUp(t, open)
      const before = await take(events, 'a')
      const poison = await take(events, 'poison')
      const projector = await start(tally('good'), tally('picky', 'touches'))
      const after = await take(events, 'a')
      t.equal(await projector.waitFor(after, 5000), true)
      t.match(projector.status(), [
        { name: 'good', position: after },
        { name: 'picky', position: before, stopped: new RegExp(`event ${poison} .*cannot digest this`) },
      ])
    },
  )

  t.test(`${name}: an event that can't be read stops only the models that handle its type`, async (t) => {
    const { events, start } = await setUp(t, open)
    const before = await take(events, 'a')
    await appendAnything(events, 'ClaimTaken', { key: 7, holder: 'x' })
    const projector = await start(tally('good'), claims)
    const after = await take(events, 'a')
    t.equal(await projector.waitFor(after, 5000), true)
    t.match(projector.status(), [
      { name: 'good', position: after },
      { name: 'claims', position: before, stopped: /ClaimTaken.*data\/key must be string/ },
    ])
    t.notOk(projector.status()[0]?.stopped)
  })
}
