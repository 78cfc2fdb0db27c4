import { pino } from 'pino'
import t, { type Test } from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { type EventStore, StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { createProjector } from '../../../src/projections/projector/projector.ts'
import { type Fold, readModel } from '../../../src/projections/projector/read-model.ts'
import type { Collection, ReadStore } from '../../../src/projections/store/read-store.ts'
import { aContext, openStores, writerOf } from '../../stores.ts'
import { until } from '../../until.ts'

interface Tally {
  count: number
  /** More than the cache of written documents holds. */
  padding: string
}

const tallies: Collection<Tally> = { name: 'tallies', indexes: [], arrays: [] }
const PADDING = 'x'.repeat(200_000)
/** Enough for two batches. */
const EVENTS = 1500

/** A fold that counts numbers by their sequence, and records the folded positions. */
function counting(folded: number[] = []): Fold<Tally> {
  return {
    collection: tallies,
    version: 1,
    handles: ({ type }) => type === 'NumberTaken',
    touches: (event) => (event.type === 'NumberTaken' ? [event.data.sequence] : []),
    evolve(document, { position }) {
      folded.push(position)
      return { count: (document?.count ?? 0) + 1, padding: PADDING }
    },
  }
}

const taken: DomainEvent = { type: 'NumberTaken', data: { sequence: 'a' } }

const takeHalf = (events: EventStore) =>
  append(writerOf(events), aContext(), 'numbers-a', 'take', Array<DomainEvent>(EVENTS / 2).fill(taken), 'any')

/** Resolves to the position of the last of `EVENTS` events. */
async function takeMany(events: EventStore): Promise<number> {
  await takeHalf(events)
  return (await takeHalf(events)).position
}

/** A log that reports the position of its subscriptions, as EventStoreDB does. `told` is called after each report. */
const passing = (events: EventStore, told: () => void): EventStore => ({
  ...events,
  async *subscribe(options) {
    for await (const batch of events.subscribe(options)) {
      yield batch
      options.passed?.(batch.at(-1)?.position ?? options.after)
      // The reader takes it in a later iteration.
      setImmediate(told)
    }
  },
})

function project(t: Test, events: EventStore, views: ReadStore, fold: Fold<Tally>) {
  const projector = createProjector({
    log: pino({ level: 'silent' }),
    events,
    views,
    models: [readModel(fold)],
  })
  t.teardown(() => projector.stop())
  return projector
}

/**
 * A store whose first write with documents ends on demand, with an error if given. `folded` resolves when it has the
 * documents.
 */
function slowly(views: ReadStore) {
  const { promise: folded, resolve: isFolded } = Promise.withResolvers<void>()
  let end: (error?: Error) => void = () => {}
  const ended = new Promise<Error | undefined>((resolve) => {
    end = resolve
  })
  let isFirst = true
  const slow: ReadStore = {
    ...views,
    async apply(changes, checkpoints) {
      if (Array.isArray(changes) || !isFirst) return views.apply(changes, checkpoints)
      isFirst = false
      const lists = []
      for await (const list of changes) lists.push(list)
      isFolded()
      const failure = await ended
      if (failure !== undefined) throw failure
      await views.apply(lists.flat(), checkpoints)
    },
  }
  return { slow, end, folded }
}

/**
 * Starts a projector on a log of two batches. Resolves when the first one is folded, and not yet written; `end` ends
 * that write.
 */
async function firstFolded(t: Test) {
  const { events, views } = openStores(t)
  const position = await takeMany(events)
  const { slow, end, folded: isFolded } = slowly(views)
  const folded: number[] = []
  const projector = project(t, events, slow, counting(folded))
  await projector.start()
  await isFolded
  return { views, position, projector, folded, end }
}

t.test('a batch is folded after the one before is written', async (t) => {
  const { views, position, projector, folded, end } = await firstFolded(t)
  t.equal(await views.get(tallies, 'a'), undefined, 'nothing of the first batch is written yet')
  t.ok(folded.length < EVENTS)
  end()
  t.equal(await projector.waitFor(position, 60_000), true)
  t.match(await views.get(tallies, 'a'), { count: EVENTS })
  t.equal(folded.length, EVENTS, 'no event was folded twice')
})

t.test('a batch whose write fails is folded again', async (t) => {
  const { views, position, projector, folded, end } = await firstFolded(t)
  const first = folded.length
  end(new StoreUnavailable('away'))
  t.equal(await projector.waitFor(position, 60_000), true)
  t.match(await views.get(tallies, 'a'), { count: EVENTS })
  t.equal(folded.length, first + EVENTS)
})

t.test('the next batch is folded on documents that were exchanged between two batches', async (t) => {
  const { views, position, projector, end } = await firstFolded(t)
  let first = 0
  const exchanged = projector.exchange('tallies', async (upTo) => {
    first = (await views.get(tallies, 'a'))?.count ?? 0
    const body = { count: 1_000_000, padding: '' }
    await views.apply([{ op: 'put', collection: tallies, id: 'a', position: upTo, body }], new Map())
    return upTo
  })
  end()
  await exchanged
  t.equal(await projector.waitFor(position, 60_000), true)
  t.ok(first > 0 && first < EVENTS, `${first} in the first batch`)
  t.match(await views.get(tallies, 'a'), { count: 1_000_000 + EVENTS - first })
})

t.test('a read model that stops in a batch takes no event of the next one', async (t) => {
  const { events, views } = openStores(t)
  await takeMany(events)
  const { slow, end } = slowly(views)
  const fold = counting()
  let last = 0
  const picky: Fold<Tally> = {
    ...fold,
    evolve(document, event, id) {
      if (document?.count === 3) throw new Error('cannot digest a fourth')
      last = event.position
      return fold.evolve(document, event, id)
    },
  }
  const projector = project(t, events, slow, picky)
  await projector.start()
  end()
  await until('the model has stopped', () => projector.stopped().length > 0)
  t.match(projector.stopped(), [{ name: 'tallies', position: last }])
  t.match(await views.get(tallies, 'a'), { count: 3 })
})

for (const [how, failure] of [
  ['slow', undefined],
  ['slow, and fails', new StoreUnavailable('away')],
] as const) {
  t.test(`the passed position does not count before the last batch is written: ${how}`, async (t) => {
    const { events, views } = openStores(t)
    const { position } = await takeHalf(events)
    const { slow, end } = slowly(views)
    let hasPassed = false
    const told = () => {
      hasPassed = true
    }
    const projector = project(t, passing(events, told), slow, counting())
    await projector.start()
    await until('the subscription has passed the batch', () => hasPassed)
    t.ok(projector.position() < position)
    t.equal(await projector.waitFor(position, 0), false)
    end(failure)
    t.equal(await projector.waitFor(position, 60_000), true)
    t.match(await views.get(tallies, 'a'), { count: EVENTS / 2 })
    const { position: next } = await takeHalf(events)
    t.equal(await projector.waitFor(next, 60_000), true)
    t.match(await views.get(tallies, 'a'), { count: EVENTS })
  })
}
