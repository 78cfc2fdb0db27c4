import { pino } from 'pino'
import t from 'tap'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import type { EventStore } from '../../../src/events/store/event-store.ts'
import { type Generations, withGenerations } from '../../../src/projections/generations/generations.ts'
import { createProjector } from '../../../src/projections/projector/projector.ts'
import { type Fold, readModel } from '../../../src/projections/projector/read-model.ts'
import {
  createRebuild,
  type Rebuilding,
  RebuildUnderWay,
} from '../../../src/projections/projector/rebuild.ts'
import type { Collection } from '../../../src/projections/store/read-store.ts'
import { appendMany, openStores } from '../../stores.ts'
import { until } from '../../until.ts'

interface Tally {
  count: number
}

const tallies: Collection<Tally> = { name: 'tallies', indexes: [{ count: 1 }], arrays: [] }
const tally: Fold<Tally> = {
  collection: tallies,
  version: 1,
  handles: ({ type }) => type === 'NumberTaken',
  touches: (event) => (event.type === 'NumberTaken' ? [event.data.sequence] : []),
  evolve: (document) => ({ count: (document?.count ?? 0) + 1 }),
}
const tallyModel = readModel(tally)
/** The same model under another name, with its own spare generation. */
const others: Collection<Tally> = { ...tallies, name: 'others' }
const otherModel = readModel({ ...tally, collection: others })
const MORE_MODELS = [otherModel]
const log = pino({ level: 'silent' })

const take = (events: EventStore, sequence: string, times = 1) => {
  const taken: DomainEvent = { type: 'NumberTaken', data: { sequence } }
  return appendMany(events, `numbers-${sequence}`, Array(times).fill(taken))
}

type Test = Parameters<typeof openStores>[0]

async function following(
  t: Test,
  { fold = tally, ...more }: Partial<Rebuilding> & { fold?: Fold<Tally> } = {},
) {
  const { events, views } = openStores(t)
  const generations = withGenerations(views)
  const projector = createProjector({
    log,
    events,
    views: generations.current,
    models: [readModel(fold), ...MORE_MODELS],
  })
  await projector.start()
  const stopping = new AbortController()
  t.teardown(async () => {
    stopping.abort()
    await projector.stop()
  })
  const exchanged: string[] = []
  const { rebuild, freeSpares } = createRebuild({
    events,
    generations,
    projector,
    exchanged: (collection) => void exchanged.push(collection),
    signal: stopping.signal,
    ...more,
  })
  const caughtUp = async () => projector.waitFor(await events.lastPosition(), 5000)
  return { events, views, generations, projector, rebuild, freeSpares, exchanged, caughtUp }
}

/** Writes a wrong document, which a rebuild repairs. */
const spoil = ({ current }: Generations, id: string) =>
  current.apply([{ op: 'put', collection: tallies, id, position: 10 ** 9, body: { count: -1 } }], new Map())

t.test(
  'a rebuilt model holds the result of the log; queries read the old documents until it is done',
  async (t) => {
    const { events, generations, rebuild, exchanged, caughtUp } = await following(t)
    await take(events, 'a', 700)
    await caughtUp()
    await spoil(generations, 'a')
    const steps = []
    for await (const step of rebuild([tallyModel])) {
      steps.push(step)
      const expected = step.done ? { count: 700 } : { count: -1 }
      t.same(await generations.current.get(tallies, 'a'), expected, 'the old document until the exchange')
    }
    t.ok(steps.length > 2)
    t.match(steps.at(-1), { model: 'tallies', events: 700, done: true })
    t.same(exchanged, ['tallies'])
    await take(events, 'a')
    await caughtUp()
    t.same(await generations.current.get(tallies, 'a'), { count: 701 }, 'the model continues from there')
  },
)

t.test('events that are appended during a rebuild are counted exactly once', async (t) => {
  const { events, generations, rebuild, caughtUp } = await following(t)
  await take(events, 'a', 2000)
  let more = 0
  for await (const step of rebuild([tallyModel])) {
    if (step.done) continue
    more += 1
    await take(events, 'a')
  }
  await caughtUp()
  t.same(await generations.current.get(tallies, 'a'), { count: 2000 + more })
  t.same(await generations.current.find(tallies, { count: 2000 + more }), [{ count: 2000 + more }])
})

t.test('each rebuild exchanges the two generations, and a new start reads the right one', async (t) => {
  const { events, views, generations, rebuild, caughtUp } = await following(t)
  for (let round = 1; round <= 3; round++) {
    await take(events, 'a')
    await caughtUp()
    for await (const _ of rebuild([tallyModel]));
    for (const { current } of [generations, withGenerations(views)]) {
      t.same(await current.get(tallies, 'a'), { count: round })
      t.equal((await current.checkpoint('tallies'))?.version, 1)
      const snapshot = await current.snapshot()
      t.match(await snapshot.range(tallies, { limit: 10 }), [{ id: 'a', body: { count: round } }])
      if (!snapshot.isIsolated) throw new Error('it is isolated')
      t.equal(await snapshot.count(tallies), 1)
      const [stored] = await snapshot.getMany(tallies, ['a'])
      t.match(stored, {
        id: 'a',
        position: Number,
        text: JSON.stringify({ count: round }),
        body: { count: round },
      })
      await snapshot.close()
    }
  }
})

t.test('a rebuild that is cancelled or fails leaves the old documents', async (t) => {
  let broken = false
  const fold: Fold<Tally> = {
    ...tally,
    evolve(document, event, id) {
      if (broken) throw new Error('the fold is broken')
      return tally.evolve(document, event, id)
    },
  }
  const { events, generations, rebuild, exchanged, caughtUp } = await following(t, { fold })
  await take(events, 'a', 600)
  await caughtUp()
  for await (const _ of rebuild([readModel(fold)])) break
  broken = true
  await t.rejects(async () => {
    for await (const _ of rebuild([readModel(fold)]));
  }, /the fold is broken/)
  t.same(await generations.current.get(tallies, 'a'), { count: 600 })
  t.same(exchanged, [])
})

t.test('a stopped model continues after a rebuild with a fold that works', async (t) => {
  let broken = true
  const fold: Fold<Tally> = {
    ...tally,
    evolve(document, event, id) {
      if (broken && document?.count === 2) throw new Error('three is too many')
      return tally.evolve(document, event, id)
    },
  }
  const { events, generations, projector, rebuild, caughtUp } = await following(t, { fold })
  await take(events, 'a', 3)
  await caughtUp()
  t.match(projector.status()[0], { name: 'tallies', stopped: /three is too many/ })
  broken = false
  for await (const _ of rebuild([readModel(fold)]));
  t.equal(projector.status()[0]?.stopped, undefined)
  t.same(await generations.current.get(tallies, 'a'), { count: 3 })
  await take(events, 'a')
  await caughtUp()
  t.same(await generations.current.get(tallies, 'a'), { count: 4 })
})

t.test('there is one rebuild at a time', async (t) => {
  const { events, rebuild, caughtUp } = await following(t)
  await take(events, 'a')
  await caughtUp()
  for await (const _ of rebuild([tallyModel])) {
    await t.rejects(async () => {
      for await (const _ of rebuild([tallyModel]));
    }, RebuildUnderWay)
  }
  for await (const _ of rebuild([tallyModel]));
})

const spareIsEmpty =
  ({ spare }: Generations, collection = tallies) =>
  async () =>
    (await spare.range(collection, { limit: 1 })).length === 0

t.test(
  'old generations are emptied some time later, even if another model is rebuilt meanwhile',
  async (t) => {
    const { events, generations, rebuild, caughtUp } = await following(t, { graceMs: 50 })
    await take(events, 'a', 3)
    await caughtUp()
    for await (const _ of rebuild([tallyModel]));
    for await (const _ of rebuild([otherModel]));
    await until('the first is freed', spareIsEmpty(generations))
    await until('and the second', spareIsEmpty(generations, others))
    t.same(await generations.current.get(tallies, 'a'), { count: 3 })
    t.same(await generations.current.get(others, 'a'), { count: 3 })
  },
)

t.test('a cancelled rebuild leaves no documents in the spare generation', async (t) => {
  const { events, generations, rebuild, caughtUp } = await following(t, { graceMs: 1 })
  await take(events, 'a', 600)
  await caughtUp()
  for await (const _ of rebuild([tallyModel])) break
  await until('it is freed', spareIsEmpty(generations))
  t.same(await generations.current.get(tallies, 'a'), { count: 600 })
})

t.test(
  'the next process empties the leftover spare generations, but not those of a running rebuild',
  async (t) => {
    const { events, generations, rebuild, freeSpares, caughtUp } = await following(t)
    await take(events, 'a', 600)
    await caughtUp()
    await t.resolves(freeSpares([tallyModel]), 'also when there never was a rebuild')
    for await (const _ of rebuild([tallyModel, otherModel]));
    t.notOk(await spareIsEmpty(generations)())
    await freeSpares([tallyModel])
    t.ok(await spareIsEmpty(generations)())
    t.notOk(await spareIsEmpty(generations, others)(), 'only the named models')
    t.same(await generations.current.get(tallies, 'a'), { count: 600 })

    const freeing = freeSpares([tallyModel], 1)
    for await (const { done } of rebuild([tallyModel])) if (!done) await freeing
    t.same(await generations.current.get(tallies, 'a'), { count: 600 })
  },
)
