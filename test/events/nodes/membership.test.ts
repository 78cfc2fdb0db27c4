import t from 'tap'
import { NODES } from '../../../src/events/nodes/membership.ts'
import { aloneNode, joinIfNeeded, type Nodes, requireMember } from '../../../src/events/nodes/nodes.ts'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { at, nodeWorld } from './node-world.ts'

const names = (node: Nodes) =>
  node
    .all()
    .map(({ name }) => name)
    .sort()

t.test('all nodes', async (t) => {
  const world = await nodeWorld(t)
  const [member] = await world.joined('one')
  for (const node of [aloneNode('one'), member]) {
    if (node === undefined) throw new Error('no node')
    const self = node.self()
    t.match(self, { id: /^[0-9a-f-]{36}$/, name: 'one' })
    t.equal(node.isMember(), true)
    t.doesNotThrow(() => requireMember(node))
    t.equal(await node.confirm(), true)
    await joinIfNeeded(node)
    t.strictSame(node.all(), [self])
    t.equal(await node.isGone(self.id), false)
    t.equal(await node.isGone('6f9619ff-8b86-4d01-b42d-00cf4fc964ff'), true, 'an earlier start is gone')
    await node.leave()
    await node.leave()
  }
})

t.test('nodes see each other, and one that leaves is gone at once', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b', 'c')
  const [a, b, c] = [at(nodes, 0), at(nodes, 1), at(nodes, 2)]
  t.strictSame(names(a), ['a', 'b', 'c'])
  t.strictSame(names(c), ['a', 'b', 'c'])
  const lost: string[] = []
  const unsubscribe = a.onLost((id) => lost.push(id))
  await b.leave()
  t.equal(b.isMember(), false)
  t.throws(() => requireMember(b), StoreUnavailable)
  await t.rejects(joinIfNeeded(b), StoreUnavailable)
  t.equal(await a.isGone(b.self().id), true)
  await a.tick()
  t.strictSame(lost, [b.self().id])
  t.strictSame(names(a), ['a', 'c'])
  unsubscribe()
  await c.leave()
  await a.tick()
  t.strictSame(lost, [b.self().id])
  await b.tick()
  t.equal(b.isMember(), false, 'a node that has left does not come back by a tick')
})

t.test('a node whose machine was paused is no member until it has beaten again', async (t) => {
  const world = await nodeWorld(t)
  const [node] = await world.joined('a')
  world.sleep(3000)
  t.equal(node?.isMember(), true)
  world.sleep(1000)
  t.equal(node?.isMember(), false)
  await node?.tick()
  t.equal(node?.isMember(), true)
  world.sleep(-60_000)
  t.equal(node?.isMember(), true, 'a time of day that is set back changes nothing')
  world.wait(4000)
  t.equal(node?.isMember(), false)
})

t.test('a node without heartbeats is suspended before it is fenced out', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = [at(nodes, 0), at(nodes, 1)]
  const before = b.self().id
  const lost: string[] = []
  a.onLost((id) => lost.push(id))
  b.onLost((id) => lost.push(`own ${id}`))
  await world.seconds(3, a)
  t.equal(b.isMember(), true)
  await world.seconds(1, a)
  t.equal(b.isMember(), false)
  t.equal(await a.isGone(before), false)
  await world.seconds(1, a)
  t.strictSame(lost, [], 'after 5 s it may come back as what it was')
  await world.seconds(2, a)
  t.strictSame(lost, [before])
  t.equal(await a.isGone(before), true)
  t.equal(a.isMember(), true)

  // It continues as another incarnation, and drops the old one.
  await b.tick()
  t.strictSame(lost, [before, `own ${before}`])
  t.not(b.self().id, before)
  t.equal(b.self().name, 'b')
  t.equal(b.isMember(), true)
  t.equal(await a.isGone(b.self().id), false)
  await a.tick()
  t.strictSame(names(a), ['a', 'b'])
})

t.test('a node that was late, but not yet fenced out, keeps its incarnation', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = [at(nodes, 0), at(nodes, 1)]
  const { id } = b.self()
  await world.seconds(5, a)
  t.equal(b.isMember(), false)
  await b.tick()
  t.equal(b.isMember(), true)
  t.equal(b.self().id, id)
  await world.seconds(5, a)
  t.equal(await a.isGone(id), false, 'the time begins anew with each beat')
})

t.test('a MongoDB outage fences no node out', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = [at(nodes, 0), at(nodes, 1)]
  const ids = nodes.map((node) => node.self().id)
  await world.seconds(5, a)
  world.double.fail({ command: 'update', times: 10, with: { code: 10107, codeName: 'NotWritablePrimary' } })
  await world.seconds(5, a, b)
  t.strictSame([a.isMember(), b.isMember()], [false, false], 'nobody can know')
  world.double.fail({ command: 'update', times: 0, with: { code: 10107, codeName: 'NotWritablePrimary' } })
  // The first returning node sees an old beat, which may be a result of the outage.
  await a.tick()
  await world.seconds(5, a)
  t.strictSame(await Promise.all(ids.map(a.isGone)), [false, false])
  await b.tick()
  t.strictSame(
    nodes.map((node) => node.self().id),
    ids,
  )
  t.strictSame([a.isMember(), b.isMember()], [true, true])
})

t.test('a host that stood still fences no node out when it continues', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = [at(nodes, 0), at(nodes, 1)]
  world.wait(60_000)
  t.strictSame([a.isMember(), b.isMember()], [false, false])
  await a.tick()
  t.equal(await a.isGone(b.self().id), false)
  await world.seconds(7, a)
  t.equal(await a.isGone(b.self().id), true, 'unless it has not come back')
})

t.test('a beat that succeeds late counts from the moment when it was sent', async (t) => {
  const world = await nodeWorld(t)
  const { ask } = world.database
  const { createMembership } = await import('../../../src/events/nodes/membership.ts')
  let time = 0
  let slow = 0
  const node = createMembership({
    ...world.database,
    name: 'slow',
    log: world.log,
    now: () => time,
    async ask(command) {
      const answer = await ask(command)
      time += slow
      slow = 0
      return answer
    },
  })
  await node.tick()
  t.equal(node.isMember(), true)
  time += 1000
  slow = 4000
  await node.tick()
  t.equal(node.isMember(), false)
  await node.tick()
  t.equal(node.isMember(), true)
})

t.test('a node that beats once between the check of another and its fence stays', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = [at(nodes, 0), at(nodes, 1)]
  await world.seconds(5, a)
  // Node a first sees the old beat. When a removes it, there is a new one.
  const documents = world.database.database.collection<{ _id: string; beat: number }>(NODES)
  const before = await documents.findOne({ _id: b.self().id })
  await b.tick()
  t.equal((await documents.deleteOne({ _id: b.self().id, beat: before?.beat ?? -1 })).deletedCount, 0)
  await world.seconds(2, a)
  t.equal(await a.isGone(b.self().id), false)
})

t.test('a node that does not know whether it is a member asks before it gives up', async (t) => {
  const world = await nodeWorld(t)
  const nodes = await world.joined('a', 'b')
  const [a, b] = [at(nodes, 0), at(nodes, 1)]
  const { id } = b.self()
  await world.seconds(5, a)
  t.equal(b.isMember(), false)
  t.strictSame(await Promise.all([b.confirm(), b.confirm()]), [true, true])
  t.equal(b.self().id, id)
  await world.seconds(8, a)
  t.equal(await b.confirm(), true)
  t.not(b.self().id, id, 'the others have gone on without it')
  await world.seconds(5, a)
  world.double.fail({ command: 'update', times: 2, with: { code: 10107, codeName: 'NotWritablePrimary' } })
  t.equal(await b.confirm(), false)
  await t.resolves(joinIfNeeded(b))
})

t.test('the document of a node says whether it takes requests', async (t) => {
  const world = await nodeWorld(t)
  const { createMembership } = await import('../../../src/events/nodes/membership.ts')
  let isReady = false
  const node = createMembership({ ...world.database, name: 'n', log: world.log, isReady: () => isReady })
  const document = () =>
    world.database.database.collection<{ _id: string }>(NODES).findOne({ _id: node.self().id })
  await node.tick()
  t.match(await document(), { name: 'n', beat: 0, ready: false })
  isReady = true
  await node.tick()
  t.match(await document(), { name: 'n', beat: 1, ready: true })
})
