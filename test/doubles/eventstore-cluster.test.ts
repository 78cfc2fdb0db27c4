import { join } from 'node:path'
import { ErrorType, EventStoreDBClient, jsonEvent } from '@eventstore/db-client'
import t, { type Test } from 'tap'
import { all, newStream } from '../events/event-store-contract.ts'
import { certificateFor } from './certificates.ts'
import { startEventStoreCluster, startEventStoreDouble } from './eventstore.ts'
import { refusal } from './refusal.ts'

const numbered = (n: number) => jsonEvent({ type: 'Numbered', data: { n } })

function connected(t: Test, url: string): EventStoreDBClient {
  const client = EventStoreDBClient.connectionString(url)
  t.teardown(() => client.dispose())
  return client
}

async function cluster(t: Test) {
  const started = await startEventStoreCluster({ nodes: 3, file: join(t.testdir(), 'events.db') })
  t.teardown(() => started.close())
  return started
}

const node = (port: number | undefined) => `esdb://127.0.0.1:${port}?tls=false`

t.test('a list of hosts and esdb+discover find the leader by gossip', async (t) => {
  const { url, discoverUrl } = await cluster(t)
  const stream = newStream()
  await connected(t, url).appendToStream(stream, numbered(0))
  await connected(t, discoverUrl).appendToStream(stream, numbered(1))
  const read = await all(connected(t, discoverUrl).readStream(stream))
  t.equal(read.length, 2, 'the nodes share one log')
})

t.test('a node that does not lead names the leader to a client that requires it', async (t) => {
  const { nodes, elect } = await cluster(t)
  elect(1)
  const follower = connected(t, node(nodes[0]?.port))
  const stream = newStream()
  const written = follower.appendToStream(stream, numbered(0), { requiresLeader: true })
  const leader = { address: '127.0.0.1', port: nodes[1]?.port }
  t.match(await refusal(written), { type: ErrorType.NOT_LEADER, leader })
  const read = all(connected(t, node(nodes[2]?.port)).readStream(stream, { requiresLeader: true }))
  t.match(await refusal(read), { type: ErrorType.NOT_LEADER, leader })
  const other = connected(t, node(nodes[2]?.port))
  await other.appendToStream(stream, numbered(0), { requiresLeader: false })
  t.equal((await all(other.readStream(stream))).length, 1, 'a follower answers reads')
})

t.test('a client finds the new leader, and the cluster again when all nodes were away', async (t) => {
  const { url, nodes } = await cluster(t)
  const stream = newStream()
  const [first, second] = nodes
  await connected(t, url).appendToStream(stream, numbered(0))
  first?.stop()
  await connected(t, url).appendToStream(stream, numbered(1))
  second?.stop()
  const leaderless = `${url}&maxDiscoverAttempts=1`
  await t.rejects(connected(t, leaderless).appendToStream(stream, numbered(2)), /Failed to discover/)
  const third = connected(t, node(nodes[2]?.port))
  await t.rejects(all(third.readStream(stream)), {
    type: ErrorType.UNAVAILABLE,
    message: /Server Is Not Ready/,
  })
  for (const { stop } of nodes) stop()
  await t.rejects(connected(t, leaderless).appendToStream(stream, numbered(2)), /Failed to discover/)
  for (const { start } of nodes) await start()
  await connected(t, url).appendToStream(stream, numbered(2))
  t.equal((await all(connected(t, url).readStream(stream))).length, 3)
})

t.test('reads and writes of a stream can be denied', async (t) => {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
  t.teardown(() => double.close())
  const client = connected(t, double.url)
  const denied = { type: ErrorType.ACCESS_DENIED }
  const options = { credentials: { username: 'admin', password: 'changeit' } }
  const [open, closed] = [newStream(), newStream()]
  await client.appendToStream(closed, numbered(0))
  double.access.deniedReads.add('$all').add(closed)
  double.access.deniedWrites.add(closed)
  await client.appendToStream(open, numbered(0))
  t.match(await refusal(client.appendToStream(closed, numbered(1))), denied, 'a batch append')
  t.match(await refusal(client.appendToStream(closed, numbered(1), options)), denied, 'a plain append')
  t.match(await refusal(client.deleteStream(closed)), denied)
  t.match(await refusal(client.tombstoneStream(closed)), denied)
  t.match(await refusal(all(client.readStream(closed))), denied)
  t.match(await refusal(all(client.readAll())), denied)
  t.match(await refusal(all(client.subscribeToAll())), denied)
  double.access.deniedReads.clear()
  t.equal((await all(client.readStream(closed))).length, 1)
  double.access.refuseAll = true
  t.match(await refusal(all(client.readStream(open))), { ...denied, message: /UNAUTHENTICATED/ })
})

t.test('with TLS a client must know the certificate, and its user and password', async (t) => {
  const dir = t.testdir()
  const tls = certificateFor(join(dir, 'own'), 'DNS:localhost')
  const double = await startEventStoreDouble({
    port: 0,
    file: join(dir, 'events.db'),
    tls,
    users: new Map([['ann', 'p@ss']]),
  })
  t.teardown(() => double.close())
  const read = (user: string, query = `?tlsCAFile=${encodeURIComponent(tls.caFile)}`) =>
    all(connected(t, double.url.replace('esdb://127.0.0.1', `esdb://${user}localhost`) + query).readAll())
  t.equal((await read('ann:p%40ss@')).length, 1)
  t.match(await refusal(read('ann:wrong@')), { type: ErrorType.ACCESS_DENIED, message: /UNAUTHENTICATED/ })
  t.match(await refusal(read('')), { type: ErrorType.ACCESS_DENIED, message: /PERMISSION_DENIED/ })
  t.match(await refusal(read('ann:p%40ss@', '')), { type: ErrorType.UNAVAILABLE }, 'an unknown certificate')
})
