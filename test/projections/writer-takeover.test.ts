/** Takeovers of read models while calls of the store fail. */
import t, { type Test } from 'tap'
import { type EventStore, StoreUnavailable } from '../../src/events/store/event-store.ts'
import type { Fold } from '../../src/projections/projector/read-model.ts'
import type { ReadStore } from '../../src/projections/store/read-store.ts'
import { until } from '../until.ts'
import { type SharedReadStore, startShared, take } from './shared-nodes.ts'

type Shared = SharedReadStore['shared']

interface Tally {
  id: string
  count: number
}

const tally = (name: string): Fold<Tally> => ({
  collection: { name, indexes: [], arrays: [] },
  version: 1,
  handles: ({ type }) => type === 'NumberTaken',
  touches: (event) => (event.type === 'NumberTaken' ? [event.data.sequence] : []),
  evolve: (document, _, id) => ({ id, count: (document?.count ?? 0) + 1 }),
})
const TALLIES = tally('tallies')
const FOLDS = [TALLIES, tally('others')]
const NAMES = FOLDS.map(({ collection }) => collection.name)

const away = () => Promise.reject(new StoreUnavailable('away'))

/** Two nodes, of which the first one writes. `trouble` of each can be changed later. */
async function twoNodes(t: Test) {
  const { events, gone, startNode } = await startShared(t)
  const start = async () => {
    const trouble: { apply?: ReadStore['apply']; shared?: Partial<Shared> } = {}
    const stores: Shared[] = []
    /** The node's position in the log. */
    let delivered = 0
    const own: EventStore = {
      ...events,
      async *subscribe(options) {
        for await (const batch of events.subscribe(options)) {
          yield batch
          delivered = batch.at(-1)?.position ?? delivered
        }
      },
    }
    const changed = (store: SharedReadStore): SharedReadStore => {
      const { shared } = store
      stores.push(shared)
      return {
        ...store,
        apply: (...args) => (trouble.apply ?? store.apply)(...args),
        shared: {
          ...shared,
          read: (...args) => (trouble.shared?.read ?? shared.read)(...args),
          take: (...args) => (trouble.shared?.take ?? shared.take)(...args),
          move: (...args) => (trouble.shared?.move ?? shared.move)(...args),
        },
      }
    }
    const node = await startNode(FOLDS, { events: own, changed })
    const { projector, views, membership } = node
    const [shared] = stores
    if (shared === undefined) throw new Error('a node has opened its store')
    return {
      ...node,
      trouble,
      /** The store without failures. */
      shared,
      delivered: () => delivered,
      /** The answers of the node. */
      async counts() {
        await projector.current()
        return Promise.all(views.map(async (view) => (await view.get('a'))?.count))
      },
      async holdsAll() {
        const checkpoints = await shared.read(NAMES)
        return NAMES.every((name) => checkpoints.get(name)?.holder === membership.id)
      },
    }
  }
  const [one, two] = [await start(), await start()]
  const { position } = await take(events, 'a', 6)
  for (const { projector, counts } of [one, two]) {
    t.equal(await projector.waitFor(position, 60_000), true)
    t.same(await counts(), [6, 6])
  }
  t.ok(await one.holdsAll())
  return { events, gone, one, two }
}

t.test('when a call fails while a node takes models, it misses no event of its earlier models', async (t) => {
  const { events, gone, one, two } = await twoNodes(t)
  one.trouble.apply = away
  const { position: unwritten } = await take(events, 'a')
  await until('the other one was given the event', () => two.delivered() >= unwritten)
  let hasFailed = false
  two.trouble.shared = {
    take(name, ...args) {
      if (name === 'tallies' || hasFailed) return two.shared.take(name, ...args)
      hasFailed = true
      return away()
    },
  }
  gone.add(one.membership.id)
  await until('a call has failed', () => hasFailed)
  const { position } = await take(events, 'a')
  t.equal(await two.projector.waitFor(position, 60_000), true)
  t.same(await two.counts(), [8, 8])
})

t.test('a node that takes models shows the last writes of their previous holder', async (t) => {
  const { events, one, two } = await twoNodes(t)
  two.trouble.shared = { read: away }
  const { position } = await take(events, 'a')
  t.equal(await one.projector.waitFor(position, 60_000), true)
  await until('the other one was given the event', () => two.delivered() >= position)
  await one.stop()
  delete two.trouble.shared
  await until('the other one has taken the models', two.holdsAll)
  t.same(await two.counts(), [7, 7])
})

t.test('when MongoDB fails between documents and checkpoint, other nodes show the documents', async (t) => {
  const { events, one, two } = await twoNodes(t)
  one.trouble.shared = {
    move() {
      delete one.trouble.shared
      return away()
    },
  }
  const { position } = await take(events, 'a')
  t.equal(await one.projector.waitFor(position, 60_000), true)
  t.same(await two.counts(), [7, 7])
})

t.test('a server that takes a checkpoint does not set back later moves of its holder', async (t) => {
  const { events, one, two } = await twoNodes(t)
  const { shared } = two
  const read = async () => (await shared.read(['tallies'])).get('tallies')
  const before = await read()
  const { position } = await take(events, 'a')
  t.equal(await one.projector.waitFor(position, 60_000), true)
  const after = { position: 6, version: 1, holder: two.membership.id }
  t.equal(await shared.take('tallies', before, after), false)
  t.equal(await shared.take('tallies', undefined, after), false)
  t.match(await read(), { position, holder: one.membership.id })
})

t.test('late writes of a fenced-out writer change no later documents', async (t) => {
  const { one } = await twoNodes(t)
  const { apply, find } = one.generations.current
  const { collection } = TALLIES
  const NONE = new Map()
  const doc = (id: string, position: number) =>
    ({ op: 'put', collection, id, position, body: { id, count: position } }) as const
  await apply([doc('later', 20)], NONE)
  await apply([{ op: 'delete', collection, id: 'later', position: 19 }], NONE)
  await apply([{ ...doc('gone', 19), replaces: { id: 'gone', count: 18 } }], NONE)
  t.same(await find(collection, { id: { $in: ['later', 'gone'] } }), [{ id: 'later', count: 20 }])
  await apply([{ op: 'delete', collection, id: 'later', position: 20 }], NONE)
  t.same(await find(collection, { id: { $in: ['later', 'gone'] } }), [])
})
