/** Deliveries of a suspended node, while the other nodes continue. */
import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { NODES } from '../../../src/events/nodes/membership.ts'
import { checkpointName } from '../../../src/processes/process-manager.ts'
import { openMongoDatabase } from '../../../src/projections/store/mongodb/database.ts'
import { sharedStores } from '../../shared-stores.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { admin, hook, send } from './admin-requests.ts'
import { startReceiver } from './receiver.ts'

/** Fences a node out, as the others do when its heartbeats are missing. Resolves when it has rejoined. */
async function fenceOut(t: Test, mongodbUrl: string, { services: { nodes } }: TestServer): Promise<void> {
  const database = openMongoDatabase(mongodbUrl, 'the nodes')
  t.teardown(() => database.close())
  const { id } = nodes.self()
  await database.database.collection<{ _id: string }>(NODES).deleteOne({ _id: id })
  await until('it is back, as another incarnation', () => nodes.self().id !== id && nodes.isMember())
}

/** One node is suspended while it waits for an answer, the other continues without it, and then the answer arrives. */
async function deliveredAfterStandstill(t: Test, answerLate: (response: ServerResponse) => void) {
  const receiver = await startReceiver(t)
  const stores = await sharedStores(t)
  const environment = { ...stores, WEBHOOK_ALLOWED_HOSTS: 'loopback' }
  const one = await startTestServer(t, { ...environment, NODE_NAME: 'one', LOG_LEVEL: 'fatal' })
  await send(one.url, '/user/repos', { name: 'app' })
  await send(one.url, '/repos/admin/app/hooks', hook(receiver.url('/still')))
  const held: ServerResponse[] = []
  receiver.answer('/still', (response) => void held.push(response))
  for (const title of ['one', 'two', 'three']) await send(one.url, '/repos/admin/app/issues', { title })
  await receiver.count('/still', 1)
  receiver.answer('/still', (response) => response.writeHead(200).end())
  const two = await startTestServer(t, { ...environment, NODE_NAME: 'two', LOG_LEVEL: 'fatal' })

  await fenceOut(t, stores.MONGODB_URL, one)
  await receiver.count('/still', 4)
  for (const response of held) answerLate(response)
  await send(two.url, '/repos/admin/app/issues', { title: 'four' })
  await until('the last one is delivered', () => receiver.at('/still').some(({ json }) => json.number === 4))
  await send(two.url, '/repos/admin/app/issues', { title: 'five' })
  await until('what comes next is delivered', () =>
    receiver.at('/still').some(({ json }) => json.number === 5),
  )
  t.same(
    receiver.at('/still').map(({ json }) => json.number),
    [1, 1, 2, 3, 4, 5],
  )
}

t.test('a suspended node does not repeat a delivery after later ones', async (t) => {
  await t.test('when the receiver has refused it', (t) =>
    deliveredAfterStandstill(t, (response) => response.writeHead(503).end()),
  )
  await t.test('when the connection has ended', (t) =>
    deliveredAfterStandstill(t, (response) => response.destroy()),
  )
})

t.test('a fenced-out node runs no process any more, also without new events', async (t) => {
  const stores = await sharedStores(t)
  const one = await startTestServer(t, { ...stores, NODE_NAME: 'one', LOG_LEVEL: 'fatal' })
  const two = await startTestServer(t, { ...stores, NODE_NAME: 'two', LOG_LEVEL: 'fatal' })
  const runs = async ({ url }: TestServer) => {
    const answer = await fetch(`${url}/metrics`, { headers: { authorization: admin } })
    return (await answer.text()).includes('mergelog_process_stopped{process="webhooks"}')
  }
  await until('the first one runs it', () => runs(one))
  t.notOk(await runs(two))
  const { id } = one.services.nodes.self()
  await fenceOut(t, stores.MONGODB_URL, one)
  const name = checkpointName('webhooks')
  const holder = async () => (await two.services.readStore.shared?.read([name]))?.get(name)?.holder
  await until('one of them has taken it', async () => ![id, undefined].includes(await holder()))
  const others = (await holder()) === two.services.nodes.self().id ? [one, two] : [two, one]
  await until('the other one does not run it', async () => {
    const [other = false, taker = false] = await Promise.all(others.map(runs))
    return taker && !other
  })
})
