import t from 'tap'
import { createNodeMutex, NODE_LOCKS } from '../../../src/events/nodes/node-mutex.ts'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { until } from '../../until.ts'
import { at, type Member, nodeWorld } from './node-world.ts'

/** MongoDB's error while it has no primary. */
const AWAY = { code: 10107, codeName: 'NotWritablePrimary' }

type World = Awaited<ReturnType<typeof nodeWorld>>

/** The mutex of a node, and the keys that it has taken over from lost nodes. */
function turnsOf(world: World, nodes: Member, fail?: () => Promise<void>) {
  const takenOver: string[] = []
  const turns = createNodeMutex({
    ...world.database,
    nodes,
    log: world.log,
    async takeOver(key) {
      takenOver.push(key)
      await fail?.()
    },
  })
  return { ...turns, takenOver }
}

const stored = (world: World) =>
  world.database.database
    .collection<{ _id: string; holder: string; wanted?: boolean }>(NODE_LOCKS)
    .find({})
    .toArray()

/** Work that the test ends. */
function gate() {
  const { promise: opened, resolve: open } = Promise.withResolvers<void>()
  return { open: () => open(), opened }
}

t.test('one at a time per key on all nodes, and each gets the lock', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b', 'c')
  const turns = nodes.map((node) => turnsOf(world, node))
  let running = 0
  const done: string[] = []
  const work = (name: string) => async () => {
    running += 1
    t.equal(running, 1, name)
    await new Promise((resolve) => setImmediate(resolve))
    running -= 1
    done.push(name)
    return name
  }
  const asked = turns.flatMap(({ runExclusive }, n) =>
    Array.from({ length: 20 }, (_, i) => runExclusive('git 1', work(`${n}.${i}`))),
  )
  t.equal(new Set(await Promise.all(asked)).size, 60)
  for (const n of [0, 1, 2]) {
    const own = done.filter((name) => name.startsWith(`${n}.`))
    t.strictSame(
      own,
      Array.from({ length: 20 }, (_, i) => `${n}.${i}`),
      'in order within a node',
    )
  }
  for (const { idle } of turns) await idle()
  t.strictSame(await stored(world), [])
})

t.test('a node with much work passes locks to other nodes', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = nodes.map((node) => turnsOf(world, node))
  if (a === undefined || b === undefined) throw new Error('no nodes')
  let mayEnd = false
  let ofB = false
  // Each asks again as soon as it has released the lock, until the other one has had it.
  const keepBusy = async (): Promise<void> => {
    while (!mayEnd) await a.runExclusive('k', async () => {})
  }
  const busy = [keepBusy(), keepBusy()]
  const other = b.runExclusive('k', async () => {
    ofB = true
  })
  await until('the other node had its turn', () => ofB)
  mayEnd = true
  await Promise.all([...busy, other])
})

t.test('failed work releases its lock, and other keys do not wait', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = nodes.map((node) => turnsOf(world, node))
  if (a === undefined || b === undefined) throw new Error('no nodes')
  const { open, opened } = gate()
  const held = a.runExclusive('one', () => opened)
  t.equal(await b.runExclusive('two', async () => 'two'), 'two')
  open()
  await held
  await t.rejects(
    a.runExclusive('one', () => Promise.reject(new Error('broken'))),
    { message: 'broken' },
  )
  t.equal(await b.runExclusive('one', async () => 'next'), 'next')
  t.strictSame([a.takenOver, b.takenOver], [[], []])
})

t.test('the lock of a lost node is taken over, after the recovery of its work', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = [at(nodes, 0), at(nodes, 1)]
  const [dead, living] = [turnsOf(world, a), turnsOf(world, b)]
  const { open, opened } = gate()
  const lost = dead.runExclusive('git 7', () => opened)
  await until('it has the turn', async () => (await stored(world)).length === 1)
  const order: string[] = []
  const next = living.runExclusive('git 7', async () => {
    order.push(...living.takenOver, 'work')
  })
  await world.seconds(5, b)
  t.strictSame(order, [], 'it waits while the other one may come back')
  await world.seconds(2, b)
  await next
  t.strictSame(order, ['git 7', 'work'])

  // A fenced-out node queues like all nodes, as another incarnation, and does not release its lost lock.
  const second = gate()
  const holding = living.runExclusive('git 7', () => second.opened)
  await until('the turn is held', async () => (await stored(world))[0]?.holder === b.self().id)
  const before = a.self().id
  let isLate = false
  const late = dead.runExclusive('git 7', async () => {
    isLate = true
  })
  open()
  await lost
  await until('it wants the turn', async () => (await stored(world))[0]?.wanted === true)
  t.not(a.self().id, before)
  t.match(await stored(world), [{ _id: 'git 7', holder: b.self().id }])
  t.equal(isLate, false)
  second.open()
  await Promise.all([holding, late])
  t.strictSame(dead.takenOver, [])
})

t.test('a lock whose recovery fails can still be taken over', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = [at(nodes, 0), at(nodes, 1)]
  const dead = turnsOf(world, a)
  void dead.runExclusive('git 7', () => new Promise(() => {}))
  await until('it has the turn', async () => (await stored(world)).length === 1)
  await world.seconds(7, b)
  let isBroken = true
  const living = turnsOf(world, b, async () => {
    if (isBroken) throw new StoreUnavailable('no log')
  })
  await t.rejects(
    living.runExclusive('git 7', async () => t.fail('it must not begin')),
    StoreUnavailable,
  )
  isBroken = false
  t.equal(await living.runExclusive('git 7', async () => 'done'), 'done')
  t.strictSame(living.takenOver, ['git 7', 'git 7'])
})

t.test('without MongoDB no work starts', async (t) => {
  const world = await nodeWorld(t)
  const [a] = (await world.joined('a', 'b')).map((node) => turnsOf(world, node))
  if (a === undefined) throw new Error('no node')
  world.double.fail({ command: 'insert', with: AWAY })
  await t.rejects(
    a.runExclusive('k', async () => t.fail('it must not begin')),
    StoreUnavailable,
  )
})

t.test(
  'a lock that an outage of MongoDB has left with a living node does not block the others',
  async (t) => {
    const world = await nodeWorld(t)
    const nodes = await world.joined('a', 'b')
    const [a, b] = nodes.map((node) => turnsOf(world, node))
    const [self] = nodes.map((node) => node.self().id)
    if (a === undefined || b === undefined || self === undefined) throw new Error('no nodes')

    // No node was fenced out meanwhile, so it keeps its incarnation.
    world.double.fail({ command: 'findAndModify', with: AWAY })
    t.equal(
      await a.runExclusive('not given up', async () => {
        world.wait(5000)
        return 'done'
      }),
      'done',
    )
    await a.idle()
    t.equal(at(nodes, 0).isMember(), false)
    t.match(await stored(world), [{ _id: 'not given up', holder: self }])
    await a.releaseUnused()
    t.equal((await stored(world)).length, 1, 'a node that is no member gives up nothing')
    for (const node of nodes) await node.tick()
    t.equal(at(nodes, 0).self().id, self)

    // MongoDB has executed a command that failed for the node.
    const turns = world.database.database.collection<{ _id: string; holder: string }>(NODE_LOCKS)
    await turns.insertOne({ _id: 'taken', holder: self })

    const { open, opened } = gate()
    const working = a.runExclusive('in use', () => opened)
    await until('it has the turn', async () => (await stored(world)).length === 3)
    const waiting = ['not given up', 'taken'].map((key) => b.runExclusive(key, async () => key))
    await a.releaseUnused()
    t.strictSame(await Promise.all(waiting), ['not given up', 'taken'])
    await b.idle()
    t.match(await stored(world), [{ _id: 'in use', holder: self }], 'one in use stays')
    open()
    await working
    await a.idle()
    t.strictSame(await stored(world), [])
    t.strictSame(
      a.takenOver.sort(),
      ['not given up', 'taken'],
      'what the work has left is brought in order first',
    )
    t.strictSame(b.takenOver, [])
  },
)

t.test('when work fails in a store outage, all queued work of this node fails with it', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = nodes.map((node) => turnsOf(world, node))
  if (a === undefined || b === undefined) throw new Error('no nodes')
  const { open, opened } = gate()
  const away = new StoreUnavailable('the log does not answer')
  const first = a.runExclusive('k', async () => {
    await opened
    throw away
  })
  const waiting = [1, 2].map(() => a.runExclusive('k', async () => t.fail('it must not begin')))
  const elsewhere = b.runExclusive('k', async () => 'elsewhere')
  open()
  await t.rejects(first, away)
  await Promise.all(waiting.map((one) => t.rejects(one, away)))
  t.equal(await elsewhere, 'elsewhere', 'another node asks by itself')
  t.equal(await a.runExclusive('k', async () => 'later'), 'later')
  for (const { idle } of [a, b]) await idle()
  t.strictSame(await stored(world), [])
})

t.test('a node that has left starts no work', async (t) => {
  const world = await nodeWorld(t)
  const [a] = await world.joined('a')
  if (a === undefined) throw new Error('no node')
  const { runExclusive, idle } = turnsOf(world, a)
  await runExclusive('k', async () => {})
  await idle()
  await a.leave()
  await t.rejects(
    runExclusive('k', async () => t.fail('it must not begin')),
    StoreUnavailable,
  )
})
