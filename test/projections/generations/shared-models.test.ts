import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { type EventStore, StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { ReplacedMeanwhile } from '../../../src/projections/generations/generations.ts'
import type { Fold } from '../../../src/projections/projector/read-model.ts'
import type { Collection } from '../../../src/projections/store/read-store.ts'
import { aContext, writerOf } from '../../stores.ts'
import { until } from '../../until.ts'
import { startShared, take } from '../shared-nodes.ts'

interface Tally {
  id: string
  count: number
}

const tallies: Collection<Tally> = { name: 'tallies', indexes: [], arrays: [] }
const tally = (version = 1, step = 1): Fold<Tally> => ({
  collection: tallies,
  version,
  handles: ({ type }) => type === 'NumberTaken' || type === 'CreationAbandoned',
  touches: (event) => (event.type === 'NumberTaken' ? [event.data.sequence] : []),
  evolve: (document, _, id) => ({ id, count: (document?.count ?? 0) + step }),
})

async function startStores(t: Test) {
  const { events, double, gone, startNode } = await startShared(t)
  async function server(fold = tally(), own: EventStore = events) {
    const node = await startNode([fold], { events: own })
    const { projector, generations, membership } = node
    const [[view], [model]] = [node.views, node.models]
    if (view === undefined || model === undefined) throw new Error('a node has a view for each fold')
    return {
      ...node,
      view,
      model,
      /** The answer of a request to this server. */
      async count(id: string) {
        await projector.current()
        return (await view.get(id))?.count
      },
      holds: async () =>
        (await generations.current.shared?.read([tallies.name]))?.get(tallies.name)?.holder === membership.id,
    }
  }
  return { events, double, gone, server }
}

t.test('read your writes across nodes: a query on any server shows an acknowledged write', async (t) => {
  const { events, server } = await startStores(t)
  const nodes = [await server(), await server(), await server()]
  t.same(await Promise.all(nodes.map(({ holds }) => holds())), [true, false, false], 'one of them writes')
  for (let i = 1; i <= 60; i++) {
    // Each has the document of the previous round in its cache.
    const { position } = await take(events, 'a')
    const [answering, asked] = [nodes[i % 3], nodes[(i + 1) % 3]]
    t.equal(await answering?.projector.waitFor(position, 5000), true)
    t.equal(await asked?.count('a'), i)
    await answering?.count('a')
  }
})

t.test('a server that writes all read models alone reads no positions of others', async (t) => {
  const { events, server } = await startStores(t)
  const alone = await server()
  const { position } = await take(events, 'a')
  await alone.projector.waitFor(position, 5000)
  await alone.count('a')
  t.equal(alone.projector.current(), undefined)
  t.equal(await alone.count('a'), 1)
})

t.test('all requests that arrive during one read share the next one', async (t) => {
  const { events, double, server } = await startStores(t)
  const nodes = [await server(), await server()]
  const { position } = await take(events, 'a')
  await nodes[1]?.projector.waitFor(position, 5000)
  await nodes[1]?.count('a')
  const before = double.commands.length
  await Promise.all(Array.from({ length: 100 }, () => nodes[1]?.count('a')))
  t.ok(double.commands.length - before < 20, `${double.commands.length - before} commands for 100 requests`)
})

t.test('one of each: when the writer is gone, another server continues from its position', async (t) => {
  const { events, gone, server } = await startStores(t)
  const [one, other] = [await server(), await server()]
  const { position } = await take(events, 'a', 3)
  await one.projector.waitFor(position, 5000)
  t.equal(await other.count('a'), 3)
  gone.add(one.membership.id)
  await take(events, 'a')
  await until('the other one has taken the model', other.holds)
  const last = await take(events, 'a')
  t.equal(await other.projector.waitFor(last.position, 5000), true)
  t.equal(await other.count('a'), 5)
})

t.test(
  'a following server passes events without changes, although the writer has not moved its checkpoint',
  async (t) => {
    const { events, double, server } = await startStores(t)
    const [writer, follower] = [await server(), await server()]
    const { position } = await take(events, 'a')
    await Promise.all([writer, follower].map(({ projector }) => projector.waitFor(position, 5000)))
    // No checkpoint can move.
    double.fail({ command: 'update', times: 2, with: { code: 13, codeName: 'Unauthorized' } })
    const abandoned: DomainEvent = { type: 'CreationAbandoned', data: { key: 'k' } }
    const none = await append(writerOf(events), aContext(), 'issue-1.1', 'abandon', [abandoned], 'any')
    t.equal(await follower.projector.waitFor(none.position, 60_000), true)
    const at = await writer.generations.current.shared?.read([tallies.name])
    t.equal(at?.get(tallies.name)?.position, position)
    const last = await take(events, 'a')
    t.equal(await follower.projector.waitFor(last.position, 60_000), true)
    t.same([await follower.count('a'), await writer.count('a')], [2, 2])
  },
)

t.test('a stopping server releases its models', async (t) => {
  const { events, server } = await startStores(t)
  const [one, other] = [await server(), await server()]
  await one.stop()
  await until('the other one has taken the model', other.holds)
  const { position } = await take(events, 'a')
  t.equal(await other.projector.waitFor(position, 5000), true)
})

t.test('a fenced-out server writes nothing more, answers 503, and returns as another', async (t) => {
  const { events, gone, server } = await startStores(t)
  const [hung, other] = [await server(), await server()]
  const first = await take(events, 'a')
  await hung.projector.waitFor(first.position, 5000)
  t.equal(await hung.count('a'), 1)
  // It does not know yet.
  hung.membership.stopped = true
  gone.add(hung.membership.id)
  await until('the other one has taken the model', other.holds)
  const second = await take(events, 'a')
  await other.projector.waitFor(second.position, 5000)
  await t.rejects(hung.projector.current() ?? Promise.resolve(), StoreUnavailable)
  hung.membership.id = randomUUID()
  hung.membership.stopped = false
  t.equal(await hung.count('a'), 2, 'its own memory is older')
  t.notOk(await hung.holds())
  const third = await take(events, 'a')
  t.equal(await hung.projector.waitFor(third.position, 5000), true)
  t.equal(await hung.count('a'), 3)
})

t.test('the store refuses the checkpoint of a server that has unknowingly lost its model', async (t) => {
  const { events, server } = await startStores(t)
  const [one, other] = [await server(), await server()]
  const { shared } = other.generations.current
  const stolen = async () => {
    const at = (await shared?.read([tallies.name]))?.get(tallies.name)
    return at !== undefined && shared?.take(tallies.name, at, { ...at, holder: other.membership.id })
  }
  await until('the other one has stolen the model', async () => (await stolen()) === true)
  const { position } = await take(events, 'a', 2)
  t.equal(await one.projector.waitFor(position, 5000), true)
  t.equal(await one.count('a'), 2)
  t.equal(await other.count('a'), 2)
})

t.test('rebuild with every node switching together', async (t) => {
  const { events, server } = await startStores(t)
  const [one, other] = [await server(), await server()]
  const { position } = await take(events, 'a', 600)
  await one.projector.waitFor(position, 5000)
  const spoiled = {
    op: 'put',
    collection: tallies,
    id: 'a',
    position: 10 ** 9,
    body: { id: 'a', count: -1 },
  } as const
  await one.generations.current.apply([spoiled], new Map())
  t.equal(await other.count('a'), -1)
  // The server that does not write is asked.
  for await (const { done } of other.rebuild([other.model])) {
    if (!done) t.equal(await one.count('a'), -1)
  }
  t.same([await one.count('a'), await other.count('a')], [600, 600])
  t.ok(await other.holds(), 'it writes the model now')
  const last = await take(events, 'a')
  await one.projector.waitFor(last.position, 5000)
  t.same([await one.count('a'), await other.count('a')], [601, 601])
  for await (const _ of one.rebuild([one.model]));
  t.same([await one.count('a'), await other.count('a')], [601, 601], 'and the other way round')
})

t.test(
  'documents replaced by a rebuild stay for reads of other nodes, whichever node removes them',
  async (t) => {
    const { events, startNode } = await startShared(t)
    const unheldMs = 600_000
    const [one, other] = [await startNode([tally()], { unheldMs }), await startNode([tally()], { unheldMs })]
    const { position } = await take(events, 'a')
    await one.projector.waitFor(position, 5000)
    for await (const _ of one.rebuild(one.models));
    await other.projector.current()
    for (let i = 0; i < 2; i++) await other.freeSpares(other.models)
    t.equal(await one.generations.spare.count(tallies, {}), 1)
  },
)

t.test('a cancelled rebuild leaves no documents; of two at once, one counts', async (t) => {
  const { events, server } = await startStores(t)
  const [one, other] = [await server(), await server()]
  const { position } = await take(events, 'a', 600)
  await one.projector.waitFor(position, 5000)
  for await (const _ of one.rebuild([one.model])) break
  const { shared } = one.generations.spare
  t.equal((await shared?.read([tallies.name]))?.size, 0, 'nothing is left')
  const slow = one.rebuild([one.model])
  await slow.next()
  for await (const _ of other.rebuild([other.model]));
  await t.rejects(async () => {
    for await (const _ of slow);
  }, ReplacedMeanwhile)
  const last = await take(events, 'a')
  await Promise.all([one, other].map(({ projector }) => projector.waitFor(last.position, 5000)))
  t.same([await one.count('a'), await other.count('a')], [601, 601])
})

t.test("rolling upgrade: a fold's new version builds beside the old one", async (t) => {
  const { events, server } = await startStores(t)
  const old = await server()
  const first = await take(events, 'a', 3)
  await old.projector.waitFor(first.position, 5000)
  const newer = await server(tally(2, 10))
  await newer.projector.waitFor(first.position, 5000)
  t.same([await old.count('a'), await newer.count('a')], [3, 30])
  t.same([await old.holds(), await newer.holds()], [true, true])
  const second = await take(events, 'a')
  await Promise.all([old, newer].map(({ projector }) => projector.waitFor(second.position, 5000)))
  t.same([await old.count('a'), await newer.count('a')], [4, 40])

  await newer.freeSpares([newer.model])
  t.equal(await old.count('a'), 4, 'what a server uses is not removed')
  await old.stop()
  await newer.freeSpares([newer.model])
  await newer.freeSpares([newer.model])
  const again = await server()
  await again.projector.waitFor(second.position, 5000)
  t.same([await again.count('a'), await newer.count('a')], [4, 40], 'after it was removed, it is made again')
})

t.test(
  'rolling upgrade: an event of a newer schema stops only the older writer; a newer one continues',
  async (t) => {
    const { events, server } = await startStores(t)
    const older = await server(tally(), {
      ...events,
      async *subscribe(options) {
        for await (const batch of events.subscribe(options))
          yield batch.map((event) =>
            event.stream === 'numbers-new' ? { ...event, type: 'FromTheFuture' } : event,
          )
      },
    })
    const first = await take(events, 'a')
    await older.projector.waitFor(first.position, 5000)
    await take(events, 'new')
    await until('the older one has given it up, and says why', async () => {
      const [status] = older.projector.status()
      return status?.stopped?.includes('FromTheFuture') === true && !(await older.holds())
    })
    const newer = await server()
    const { position } = await take(events, 'a')
    t.equal(await newer.projector.waitFor(position, 5000), true)
    t.same([await newer.count('new'), await newer.count('a')], [1, 2])
    t.ok(await newer.holds())
    await until(
      'the older one knows that it goes on',
      () => older.projector.status()[0]?.stopped === undefined,
    )
    t.equal(await older.projector.waitFor(position, 5000), true)
    t.equal(await older.count('a'), 2, 'the older one shows what the newer one writes')
  },
)

t.test('rolling upgrade: an event that only the writer can read does not stop the followers', async (t) => {
  const { events, server } = await startStores(t)
  const one = await server()
  const older = await server(tally(), {
    ...events,
    async *subscribe(options) {
      for await (const batch of events.subscribe(options))
        yield batch.map((event) =>
          event.type === 'NumberTaken' ? { ...event, type: 'FromTheFuture' } : event,
        )
    },
  })
  const { position } = await take(events, 'a')
  await one.projector.waitFor(position, 5000)
  t.equal(await older.projector.waitFor(position, 5000), true)
  t.equal(await older.count('a'), 1)
  const next = await take(events, 'a')
  await older.projector.waitFor(next.position, 5000)
  t.equal(await older.count('a'), 2, 'it forgets all documents that the event may have changed')
})
