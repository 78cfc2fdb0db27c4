import { pino } from 'pino'
import t from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { type EventStore, StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { createProjector } from '../../../src/projections/projector/projector.ts'
import { type Fold, readModel } from '../../../src/projections/projector/read-model.ts'
import type {
  Change,
  Changes,
  Collection,
  ReadStore,
  Touched,
} from '../../../src/projections/store/read-store.ts'
import { aContext, openStores, writerOf } from '../../stores.ts'
import { until } from '../../until.ts'

interface Tally {
  count: number
}

const tallies: Collection<Tally> = { name: 'tallies', indexes: [], arrays: [] }
const tally: Fold<Tally> = {
  collection: tallies,
  version: 1,
  handles: ({ type }) => type === 'NumberTaken',
  touches: (event) => (event.type === 'NumberTaken' ? [event.data.sequence] : []),
  evolve: (document) => ({ count: (document?.count ?? 0) + 1 }),
}
const isEmpty = (changes: Changes) => Array.isArray(changes) && changes.length === 0
const others: Collection<Tally> = { name: 'others', indexes: [], arrays: [] }

const log = pino({ level: 'silent' })
const taken = (sequence: string): DomainEvent => ({ type: 'NumberTaken', data: { sequence } })
const take = (events: EventStore, sequence: string, times = 1) =>
  append(
    writerOf(events),
    aContext(),
    `numbers-${sequence}`,
    'take',
    Array(times).fill(taken(sequence)),
    'any',
  )

function project(events: EventStore, views: ReadStore, folds: Fold<Tally>[] = [tally]) {
  return createProjector({ log, events, views, models: folds.map(readModel) })
}

t.test('a reader that waits for a position sees the documents of that position', async (t) => {
  const { events, views } = openStores(t)
  const projector = project(events, views)
  await projector.start()
  t.teardown(() => projector.stop())
  for (let i = 1; i <= 20; i++) {
    const { position } = await take(events, 'a')
    t.equal(await projector.waitFor(position, 5000), true)
    t.same(await views.get(tallies, 'a'), { count: i })
  }
})

t.test('a projector reports when it has the events that the log had at its start', async (t) => {
  const { events, views } = openStores(t)
  await take(events, 'a', 10)
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const held: EventStore = {
    ...events,
    async *subscribe(options) {
      await released
      yield* events.subscribe(options)
    },
  }
  const projector = project(held, views)
  await projector.start()
  t.teardown(() => projector.stop())
  t.equal(await projector.caughtUp(10), false)
  release()
  t.equal(await projector.caughtUp(5000), true)
  t.same(await views.get(tallies, 'a'), { count: 10 })
})

t.test('a wait returns false after its timeout', async (t) => {
  const { events, views } = openStores(t)
  const projector = project(events, views)
  await projector.start()
  t.teardown(() => projector.stop())
  t.equal(await projector.waitFor(1_000_000, 10), false)
})

t.test(
  'a projector that stops at any point continues there; no event is lost or counted twice',
  async (t) => {
    const { events, views } = openStores(t)
    for (let round = 1; round <= 5; round++) {
      const projector = project(events, views)
      await projector.start()
      const { position } = await take(events, 'a', 700)
      if (round % 2 === 1) await projector.waitFor(position, 5000)
      await projector.stop()
    }
    const projector = project(events, views)
    await projector.start()
    t.teardown(() => projector.stop())
    t.equal(await projector.waitFor(await events.lastPosition(), 5000), true)
    t.same(await views.get(tallies, 'a'), { count: 3500 })
  },
)

t.test('documents without their checkpoint (a crash between the two) are not counted twice', async (t) => {
  const { events, views } = openStores(t)
  const { position } = await take(events, 'a', 10)
  const first = project(events, views)
  await first.start()
  await first.waitFor(position, 5000)
  await first.stop()
  await views.apply([], new Map([['tallies', { position: 3, version: 1 }]]))
  const second = project(events, views)
  await second.start()
  t.teardown(() => second.stop())
  t.equal(await second.waitFor(position, 5000), true)
  t.same(await views.get(tallies, 'a'), { count: 10 })
})

t.test('a fold with a new version rebuilds its documents, and no others', async (t) => {
  const { events, views } = openStores(t)
  const { position } = await take(events, 'a', 3)
  const other: Fold<Tally> = { ...tally, collection: others }
  const first = project(events, views, [tally, other])
  await first.start()
  await first.waitFor(position, 5000)
  await first.stop()
  const twice: Fold<Tally> = {
    ...tally,
    version: 2,
    evolve: (document) => ({ count: (document?.count ?? 0) + 2 }),
  }
  const second = project(events, views, [twice, other])
  await second.start()
  t.teardown(() => second.stop())
  t.equal(await second.waitFor(position, 5000), true)
  t.same(await views.get(tallies, 'a'), { count: 6 })
  t.same(await views.get(others, 'a'), { count: 3 })
})

t.test(
  'a poison event stops its read model before it with a reason; the other models keep running',
  async (t) => {
    const { events, views } = openStores(t)
    const picky: Fold<Tally> = {
      ...tally,
      collection: others,
      evolve(document, event) {
        if (event.type === 'NumberTaken' && event.data.sequence === 'poison')
          throw new Error('cannot digest this')
        return { count: (document?.count ?? 0) + 1 }
      },
    }
    const projector = project(events, views, [tally, picky])
    await projector.start()
    t.teardown(() => projector.stop())
    await take(events, 'a', 2)
    const { position: poison } = await take(events, 'poison')
    const { position: after } = await take(events, 'a')
    t.equal(await projector.waitFor(after, 5000), true)
    t.same(await views.get(tallies, 'a'), { count: 3 })
    t.same(await views.get(others, 'a'), { count: 2 })
    t.match(projector.status(), [
      { name: 'tallies', position: after },
      { name: 'others', position: poison - 1, stopped: new RegExp(`event ${poison} .*cannot digest this`) },
    ])
    t.match(await views.checkpoint('others'), { position: poison - 1 })
  },
)

t.test('an event of an unknown type stops every read model before it', async (t) => {
  const { events, views } = openStores(t)
  const projector = project(events, views)
  await projector.start()
  t.teardown(() => projector.stop())
  const { position } = await take(events, 'a')
  const { metadata } = (await events.readAll({ maxCount: 1 })[Symbol.asyncIterator]().next()).value ?? {}
  await events.append(
    'x-1',
    [{ id: 'b2f6f9a2-6c3c-4c1b-9f5d-6f3b4f7e9d11', type: 'FromTheFuture', data: {}, metadata }],
    'any',
  )
  while (projector.status()[0]?.stopped === undefined) await new Promise((resolve) => setImmediate(resolve))
  t.match(projector.status(), [{ position, stopped: /FromTheFuture/ }])
})

t.test('after a read store was unavailable for a while, the projector continues without loss', async (t) => {
  const { events, views } = openStores(t)
  let away = 3
  const flaky: ReadStore = {
    ...views,
    apply(changes, checkpoints) {
      if (!isEmpty(changes) && away-- > 0) return Promise.reject(new StoreUnavailable('away'))
      return views.apply(changes, checkpoints)
    },
  }
  const projector = project(events, flaky)
  await projector.start()
  t.teardown(() => projector.stop())
  const { position } = await take(events, 'a', 5)
  t.equal(await projector.waitFor(position, 60_000), true)
  t.same(await views.get(tallies, 'a'), { count: 5 })
})

t.test('the store gets the changes of one read model before the next one folds', async (t) => {
  const { events, views } = openStores(t)
  const steps: string[] = []
  const stepped = (name: string, collection: Collection<Tally>): Fold<Tally> => ({
    ...tally,
    collection,
    evolve(document, event, id) {
      steps.push(`fold ${name}`)
      return tally.evolve(document, event, id)
    },
  })
  const watched: ReadStore = {
    ...views,
    apply(changes, checkpoints) {
      async function* watchedLists(lists: AsyncIterable<readonly Change[]>) {
        for await (const list of lists) {
          steps.push(`write ${list.map(({ collection }) => collection.name)}, ${checkpoints.size} checkpoint`)
          yield list
        }
      }
      return views.apply(Symbol.asyncIterator in changes ? watchedLists(changes) : changes, checkpoints)
    },
  }
  const projector = project(events, watched, [stepped('first', tallies), stepped('second', others)])
  await projector.start()
  t.teardown(() => projector.stop())
  const { position } = await take(events, 'a')
  t.equal(await projector.waitFor(position, 60_000), true)
  t.same(steps, ['fold first', 'write tallies, 1 checkpoint', 'fold second', 'write others, 2 checkpoint'])
  const [tallied, other] = (await views.checkpoints(['tallies', 'others'])).values()
  t.match(tallied, { position, version: 1, event: new RegExp(`^${position}:`) })
  t.same(other, tallied)
})

t.test(
  'when a later read model cannot fold, because the store is away, nothing of the batch is written',
  async (t) => {
    const { events, views } = openStores(t)
    let away = 1
    const flaky: ReadStore = {
      ...views,
      async getMany(collection, ids) {
        if (collection.name === 'others' && away-- > 0) {
          t.equal(await views.get(tallies, 'a'), undefined)
          throw new StoreUnavailable('away')
        }
        return views.getMany(collection, ids)
      },
    }
    const counted: number[] = []
    const watched: ReadStore = {
      ...flaky,
      async apply(changes, checkpoints) {
        try {
          await views.apply(changes, checkpoints)
        } catch (error) {
          counted.push(await views.count(tallies, {}))
          throw error
        }
      },
    }
    const projector = project(events, watched, [tally, { ...tally, collection: others }])
    await projector.start()
    t.teardown(() => projector.stop())
    const { position } = await take(events, 'a', 5)
    t.equal(await projector.waitFor(position, 60_000), true)
    t.same(counted, [0])
    t.same([await views.get(tallies, 'a'), await views.get(others, 'a')], [{ count: 5 }, { count: 5 }])
  },
)

t.test(
  'events that change nothing for any read model cost no write; the checkpoints follow with the next change, after a while, or when the projector stops',
  async (t) => {
    const { events, views } = openStores(t)
    let writes = 0
    const counted: ReadStore = {
      ...views,
      apply(changes, checkpoints) {
        writes += 1
        return views.apply(changes, checkpoints)
      },
    }
    const onlyB: Fold<Tally> = {
      ...tally,
      touches: (event) => (event.type === 'NumberTaken' && event.data.sequence === 'b' ? ['b'] : []),
    }
    const quiet: Fold<Tally> = { ...onlyB, collection: others, handles: () => false, touches: () => [] }
    const folds = [onlyB, quiet]
    const saved = async () =>
      [...(await views.checkpoints(['tallies', 'others'])).values()].map(({ position }) => position)
    const first = project(events, counted, folds)
    await first.start()
    const atStart = writes
    const [one, change] = [await take(events, 'a', 5), await take(events, 'b')]
    t.equal(await first.waitFor(change.position, 5000), true)
    t.same(
      first.status().map(({ position }) => position),
      [change.position, change.position],
    )
    t.equal((await views.checkpoint('tallies'))?.position, change.position, 'written with the change')
    t.ok(one.position < change.position && writes - atStart <= 2, `${writes - atStart} writes`)
    const later = await take(events, 'a')
    await until('the checkpoints follow', async () => (await saved()).every((p) => p === later.position))
    const last = await take(events, 'a')
    t.equal(await first.waitFor(last.position, 5000), true)
    await first.stop()
    t.same(await saved(), [last.position, last.position])

    // As after a kill: events that change nothing come again.
    await views.apply([], new Map([['tallies', { position: change.position, version: 1 }]]))
    const second = project(events, counted, folds)
    await second.start()
    t.teardown(() => second.stop())
    t.equal(await second.waitFor(last.position, 5000), true)
    t.same(await views.get(tallies, 'b'), { count: 1 })
  },
)

t.test(
  'a document that the projector has written is not read again, until another writer may have changed it',
  async (t) => {
    const { events, views } = openStores(t)
    const read: string[] = []
    let failures = 0
    const watched: ReadStore = {
      ...views,
      getMany(collection, ids) {
        read.push(...ids)
        return views.getMany(collection, ids)
      },
      async apply(changes, checkpoints) {
        await views.apply(changes, checkpoints)
        if (failures-- > 0) throw new StoreUnavailable('the answer was lost')
      },
    }
    const projector = project(events, watched)
    await projector.start()
    t.teardown(() => projector.stop())
    for (let count = 1; count <= 3; count++) {
      const { position } = await take(events, 'a')
      t.equal(await projector.waitFor(position, 5000), true)
      t.same(await views.get(tallies, 'a'), { count })
    }
    t.same(read, ['a'])
    failures = 1
    const { position } = await take(events, 'a')
    t.equal(await projector.waitFor(position, 60_000), true)
    t.same(await views.get(tallies, 'a'), { count: 4 })
    t.same(read, ['a', 'a'], 'after a write that failed')
    await projector.exchange('tallies', async (end) => {
      const body = { count: 10 }
      await views.apply([{ op: 'put', collection: tallies, id: 'a', position: end, body }], new Map())
      return end
    })
    const last = await take(events, 'a')
    t.equal(await projector.waitFor(last.position, 5000), true)
    t.same(await views.get(tallies, 'a'), { count: 11 }, 'after a rebuild')
  },
)

t.test('a document that an event begins is not read; a later version of it stays', async (t) => {
  const { events, views } = openStores(t)
  const begun: Fold<Tally> = {
    ...tally,
    begins: () => true,
    evolve: (_, { revision }) => ({ count: revision }),
  }
  const unread: ReadStore = {
    ...views,
    getMany: () => Promise.reject(new Error('it was read')),
  }
  const { position } = await take(events, 'a', 2)
  const first = project(events, unread, [begun])
  await first.start()
  t.equal(await first.waitFor(position, 5000), true)
  await first.stop()
  t.same(await views.get(tallies, 'a'), { count: 1 })
  // A crash came before the checkpoint, and more was written.
  await views.apply(
    [{ op: 'put', collection: tallies, id: 'a', position: position + 1, body: { count: 2 } }],
    new Map([['tallies', { position: 0, version: 1 }]]),
  )
  const second = project(events, unread, [begun])
  await second.start()
  t.teardown(() => second.stop())
  t.equal(await second.waitFor(position, 5000), true)
  t.same(await views.get(tallies, 'a'), { count: 2 })
})

/** A projector, and the ids of the documents that it reported as changed: caches evict them. */
function recording(events: EventStore, views: ReadStore) {
  const reported: string[] = []
  const applied = (touched: readonly Touched[]) => void reported.push(...touched.map(({ id }) => id))
  return { reported, projector: createProjector({ log, events, views, models: [readModel(tally)], applied }) }
}

t.test('documents written before the store was lost are reported, too', async (t) => {
  const { events, views } = openStores(t)
  let losses = 1
  const flaky: ReadStore = {
    ...views,
    async apply(changes, checkpoints) {
      if (isEmpty(changes) || losses-- <= 0) return views.apply(changes, checkpoints)
      await views.apply(changes, new Map())
      throw new StoreUnavailable('lost before the checkpoint')
    },
  }
  const { reported, projector } = recording(events, flaky)
  await projector.start()
  t.teardown(() => projector.stop())
  const { position } = await take(events, 'a')
  t.equal(await projector.waitFor(position, 60_000), true)
  t.same(await views.get(tallies, 'a'), { count: 1 })
  t.same(reported, ['a'])
})

t.test('documents that another node wrote first are reported, too', async (t) => {
  const { events, views } = openStores(t)
  const quick = project(events, views)
  await quick.start()
  const { position } = await take(events, 'a')
  await quick.waitFor(position, 5000)
  await quick.stop()
  // The state for the slower node: the document exists, but the checkpoint is before its event.
  await views.apply([], new Map([['tallies', { position: position - 1, version: 1 }]]))
  const slow = recording(events, views)
  await slow.projector.start()
  t.teardown(() => slow.projector.stop())
  t.equal(await slow.projector.waitFor(position, 5000), true)
  t.same(await views.get(tallies, 'a'), { count: 1 })
  t.same(slow.reported, ['a'])
})

t.test(
  'a log that ends before its read models (cut off, or an older copy) is refused at the start',
  async (t) => {
    const { events, views } = openStores(t)
    const { position } = await take(events, 'a', 3)
    await views.apply([], new Map([['tallies', { position: position + 1, version: 1 }]]))
    await t.rejects(project(events, views).start(), {
      name: 'BrokenFile',
      message: new RegExp(
        `^the log is broken: it ends at position ${position}, and the read model tallies holds events up to ${position + 1}\\. This is an older copy`,
      ),
    })
  },
)

t.test('a start that rebuilds a read model reports gaps of the log, as a rebuild does', async (t) => {
  const { events, views } = openStores(t)
  await take(events, 'a', 3)
  await take(events, 'b', 2)
  /** As on a server that has lost an event. */
  const lossy: EventStore = {
    ...events,
    problems: () => ({ denied: undefined, others: [], unusable: [] }),
    async *subscribe(options) {
      for await (const batch of events.subscribe(options)) {
        yield batch.filter(({ stream, revision }) => stream !== 'numbers-a' || revision !== 1)
      }
    },
  }
  const lines: string[] = []
  const toLines = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) })
  async function start(version: number): Promise<void> {
    const projector = createProjector({
      log: toLines,
      events: lossy,
      views,
      models: [readModel({ ...tally, version })],
    })
    await projector.start()
    t.ok(await projector.caughtUp(20_000))
    await projector.stop()
  }
  await start(1)
  const lacks = /"msg":"the log lacks, and so do the read models: numbers-a: revision 1"/
  t.match(lines, [lacks])
  await start(1)
  t.equal(lines.length, 1, 'a model that goes on was told before')
  await start(2)
  t.match(lines, [lacks, lacks])
})

t.test('it reports them also where the log ends with a foreign event', async (t) => {
  const { events, views } = openStores(t)
  await take(events, 'a', 3)
  const { position: end } = await take(events, 'others')
  const lossy: EventStore = {
    ...events,
    problems: () => ({ denied: undefined, others: [], unusable: [] }),
    async *subscribe(options) {
      for await (const batch of events.subscribe(options)) {
        const ours = batch.filter(({ stream }) => stream === 'numbers-a')
        if (ours.length > 0) yield ours.filter(({ revision }) => revision !== 1)
        options.passed?.(end)
      }
    },
  }
  const lines: string[] = []
  const toLines = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) })
  const projector = createProjector({ log: toLines, events: lossy, views, models: [readModel(tally)] })
  await projector.start()
  t.teardown(() => projector.stop())
  t.ok(await projector.caughtUp(20_000))
  await until('it says what the log lacks', async () =>
    lines.some((line) => /numbers-a: revision 1"/.test(line)),
  )
})
