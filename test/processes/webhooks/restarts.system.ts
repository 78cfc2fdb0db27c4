/** Pending deliveries survive a killed server, and one of several nodes sends them. */
import t, { type Test } from 'tap'
import {
  createWebhookDeliveries,
  type WebhookDelivery,
} from '../../../src/projections/models/webhooks/webhook-deliveries.fold.ts'
import { openReadStores } from '../../../src/server/stores.ts'
import { workTree } from '../../git-client.ts'
import { startServerProcess } from '../../server-process.ts'
import { sharedStores } from '../../shared-stores.ts'
import { ADMIN_PASSWORD, startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { hook, send } from './admin-requests.ts'
import { startReceiver } from './receiver.ts'

async function deliveredAfterKill(t: Test, stores: Record<string, string>, dataDir: string) {
  const environment = { ...stores, WEBHOOK_ALLOWED_HOSTS: 'loopback' }
  const receiver = await startReceiver(t)
  const first = await startServerProcess(t, dataDir, environment)
  await send(first.url, '/user/repos', { name: 'app', auto_init: true })
  await send(first.url, '/repos/admin/app/hooks', hook(receiver.url('/issues')))
  await send(first.url, '/repos/admin/app/hooks', { ...hook(receiver.url('/tags')), events: ['create'] })
  // The server dies during a delivery without an answer: at the second issue, and in the middle of a push of many tags.
  receiver.answer('/issues', (response, { json }) => {
    if (json.number === 1) response.writeHead(200).end()
  })
  receiver.answer('/tags', (response, { json }) => {
    if (json.ref !== 'v2') response.writeHead(200).end()
  })
  for (const title of ['one', 'two', 'three']) await send(first.url, '/repos/admin/app/issues', { title })
  const remote = new URL(`${first.url}/admin/app.git`)
  Object.assign(remote, { username: 'admin', password: ADMIN_PASSWORD })
  const work = await workTree(t, remote.href)
  await work.git('fetch', '-q', 'origin')
  const tags = ['v0', 'v1', 'v2', 'v3', 'v4']
  await work.git('push', '-q', 'origin', ...tags.map((tag) => `origin/main:refs/tags/${tag}`))
  await receiver.count('/tags', 3)
  const before = await receiver.count('/issues', 2)
  t.same(
    before.map(({ json }) => json.number),
    [1, 2],
  )
  first.child.kill('SIGKILL')
  await new Promise((ended) => first.child.once('exit', ended))
  for (const path of ['/issues', '/tags']) receiver.answer(path, (response) => response.writeHead(200).end())
  await startServerProcess(t, dataDir, environment)
  const issues = await receiver.count('/issues', 4)
  t.same(
    issues.map(({ json }) => json.number),
    [1, 2, 2, 3],
  )
  t.equal(issues[2]?.headers['x-gitea-delivery'], issues[1]?.headers['x-gitea-delivery'])
  const told = await receiver.count('/tags', 6)
  t.same(
    told.map(({ json }) => json.ref),
    ['v0', 'v1', 'v2', 'v2', 'v3', 'v4'],
  )
}

t.test('after kill -9 all undelivered events are delivered, in order, with the same ids', async (t) => {
  await t.test('on embedded stores', (t) => deliveredAfterKill(t, {}, t.testdir()))
  await t.test('on EventStoreDB and MongoDB', async (t) => {
    const { DATA_DIR, ...stores } = await sharedStores(t)
    await deliveredAfterKill(t, stores, DATA_DIR)
  })
})

/** A delivery with one attempt waits while no server runs, and the clock makes its times wrong. */
async function triedAfterStop(t: Test, times: Partial<Pick<WebhookDelivery, 'at' | 'notBefore'>>) {
  const receiver = await startReceiver(t)
  const environment = { DATA_DIR: t.testdir(), WEBHOOK_ALLOWED_HOSTS: 'loopback' }
  await t.test('a server runs and stops', async (t) => {
    receiver.answer('/clock', (response) => response.writeHead(503).end())
    const server = await startTestServer(t, environment)
    await send(server.url, '/user/repos', { name: 'app' })
    await send(server.url, '/repos/admin/app/hooks', hook(receiver.url('/clock')))
    await send(server.url, '/repos/admin/app/issues', { title: 'one' })
    await receiver.count('/clock', 1)
    await server.stop()
    const { readStore, secrets } = await openReadStores({ ...server.services.config })
    const deliveries = createWebhookDeliveries(readStore)
    await deliveries.prepare()
    const [waiting] = await deliveries.heads()
    if (waiting === undefined) throw new Error('nothing waits')
    await deliveries.put({ ...waiting, ...times })
    await Promise.all([readStore.close(), secrets.close()])
  })
  receiver.answer('/clock', (response) => response.writeHead(200).end())
  const before = receiver.at('/clock').length
  const server = await startTestServer(t, environment)
  await send(server.url, '/repos/admin/app/issues', { title: 'two' })
  const got = await receiver.count('/clock', before + 2)
  t.same(
    got.slice(before).map(({ json }) => json.number),
    [1, 2],
  )
}

const HOUR = 3_600_000

t.test('a retry that a wrong clock has scheduled is attempted at the next start', (t) =>
  triedAfterStop(t, { notBefore: Date.now() + 400 * 24 * HOUR }),
)

t.test('a clock that was set forward by more than a day expires no delivery without an attempt since', (t) =>
  triedAfterStop(t, { at: Date.now() - 30 * HOUR, notBefore: 0 }),
)

t.test('of two nodes one delivers; when it leaves, the other one does', async (t) => {
  const receiver = await startReceiver(t)
  const stores = await sharedStores(t)
  const environment = { ...stores, WEBHOOK_ALLOWED_HOSTS: 'loopback' }
  const one = await startTestServer(t, { ...environment, NODE_NAME: 'one' })
  const two = await startTestServer(t, { ...environment, NODE_NAME: 'two' })
  await send(two.url, '/user/repos', { name: 'app' })
  await send(two.url, '/repos/admin/app/hooks', hook(receiver.url('/nodes')))
  for (const title of ['one', 'two', 'three']) await send(two.url, '/repos/admin/app/issues', { title })
  await receiver.count('/nodes', 3)
  await one.stop()
  for (const title of ['four', 'five']) await send(two.url, '/repos/admin/app/issues', { title })
  const numbers = () => receiver.at('/nodes').map(({ json }) => json.number)
  await until('all are delivered', () => numbers().includes(5))
  // The server may have stopped before the answer to the third, which is then sent again.
  t.same([...new Set(numbers())], [1, 2, 3, 4, 5])
  t.ok(numbers().length <= 6, `${numbers()}`)
})
