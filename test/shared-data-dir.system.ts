import t from 'tap'
import { lockDataDir } from '../src/storage/data-lock.ts'
import { VERSION } from '../src/storage/version.ts'
import { mergelog } from './cli/command-line.ts'
import { listen } from './queries/history-client.ts'
import { sharedStores } from './shared-stores.ts'
import { ADMIN_PASSWORD, startTestServer, type TestServer } from './start-server.ts'
import { until } from './until.ts'

const statusWith = async (server: TestServer, authorization: string) =>
  (await fetch(`${server.url}/api/v1/user`, { headers: { authorization } })).status

const basic = (login: string, password: string) =>
  `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`

t.test('servers on EventStoreDB and MongoDB share one DATA_DIR', async (t) => {
  const shared = await sharedStores(t)
  const one = await startTestServer(t, { ...shared, NODE_NAME: 'one' })
  const two = await startTestServer(t, { ...shared, NODE_NAME: 'two' })
  const admin = await one.as('admin')
  await admin.user.createCurrentUserRepo({ name: 'app' })
  await admin.repos.issueCreateIssue('admin', 'app', { title: 'By the first' })
  const path = '/api/v1/repos/admin/app/issues'
  await until('the second node has it', async () => (await two.fetch('admin', `${path}/1`)).status === 200)

  await t.test('each event names the node that appended it', async (t) => {
    const body = JSON.stringify({ title: 'By the second' })
    t.equal((await two.fetch('admin', path, { method: 'POST', body })).status, 201)
    const nodes = new Map<string, string | undefined>()
    for await (const { type, data, metadata } of one.services.events.readAll()) {
      if (type === 'IssueOpened' && 'title' in data) nodes.set(String(data.title), metadata.node)
    }
    t.strictSame(
      [...nodes],
      [
        ['By the first', 'one'],
        ['By the second', 'two'],
      ],
    )
  })

  await t.test('site admins see the live nodes, with their versions', async (t) => {
    const seen = async () => (await one.fetch('admin', '/api/v1/admin/nodes')).json()
    await until('it has seen the other', async () => JSON.stringify(await seen()).includes('"two"'))
    t.match(await seen(), {
      nodes: [
        { id: one.services.nodes.self().id, name: 'one', version: VERSION },
        { id: two.services.nodes.self().id, name: 'two', version: VERSION },
      ],
    })
  })

  await t.test(
    'an embedded store, also only one of both, and a command that needs exclusive access are refused',
    async (t) => {
      const { DATA_DIR, EVENTSTORE_URL, MONGODB_URL } = shared
      const refused = { name: 'DataDirInUse', message: /^DATA_DIR: another process.* uses / }
      for (const environment of [{ DATA_DIR }, { DATA_DIR, EVENTSTORE_URL }, { DATA_DIR, MONGODB_URL }]) {
        await t.rejects(startTestServer(t, environment), refused, Object.keys(environment).join())
      }
      t.throws(() => lockDataDir(DATA_DIR), refused)
    },
  )

  await t.test('a token that a repeated request replaced on another node is refused at once', async (t) => {
    const create = async (server: TestServer): Promise<string> => {
      const answer = await server.fetch('admin', '/api/v1/users/admin/tokens', {
        method: 'POST',
        headers: { 'idempotency-key': 'the-token' },
        body: JSON.stringify({ name: 'repeated', scopes: ['all'] }),
      })
      t.equal(answer.status, 201)
      const { sha1 }: { sha1: string } = JSON.parse(await answer.text())
      return sha1
    }
    const first = await create(one)
    t.equal(await statusWith(one, `token ${first}`), 200)
    const second = await create(two)
    t.equal(await statusWith(one, `token ${first}`), 401, 'though this node has just let it in')
    t.equal(await statusWith(one, `token ${second}`), 200)
    const answers = await Promise.all(
      [first, second, first, second].map((token) => statusWith(one, `token ${token}`)),
    )
    t.strictSame(answers, [401, 200, 401, 200], 'those who share a look-up get their own answer')
  })

  await t.test('set-password works beside the servers, and each of them knows the new one', async (t) => {
    for (const server of [one, two]) t.equal(await statusWith(server, basic('admin', ADMIN_PASSWORD)), 200)
    const { code, stdout } = await mergelog(['set-password', 'admin'], { ...shared, NODE_NAME: 'operator' })
    t.equal(code, 0)
    const password = /password "([^"]+)"/.exec(stdout)?.[1] ?? ''
    for (const server of [one, two]) {
      await until('the new one is known', async () => {
        return (await statusWith(server, basic('admin', password))) === 200
      })
      t.equal(await statusWith(server, basic('admin', ADMIN_PASSWORD)), 401, 'and the old one is not')
    }
  })

  await t.test('a live stream of a stopping node continues on another one by Last-Event-ID', async (t) => {
    const alice = await two.as('alice')
    const history = '/repos/admin/app/issues/1/history'
    await until('alice can sign in at the first', async () => {
      return (await one.fetch('alice', '/api/v1/user')).status === 200
    })
    const before = await listen(t, one, 'alice', history)
    const [opened] = await before.has(1)
    await one.stop()
    await before.ended
    await alice.repos.issueCreateComment('admin', 'app', 1, { body: 'Meanwhile' })
    const after = await listen(t, two, 'alice', history, { 'last-event-id': `${opened?.id}` })
    t.match(await after.has(1), [{ id: 1, event: { data: { body: 'Meanwhile' } } }])
    t.equal((await two.fetch(null, '/healthz')).status, 200)
  })
})
