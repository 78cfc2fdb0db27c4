import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { controlSocket } from '../../src/control/socket.ts'
import { pullModel } from '../../src/projections/pulls.ts'
import { openReadStores } from '../../src/stores.ts'
import { READ_MODELS } from '../../src/views.ts'
import { startTestServer } from '../start-server.ts'
import { mergelog } from './command-line.ts'

/** Read models that say what the log does not: a rebuild mends them. */
async function closeAllIssues(readStore: Awaited<ReturnType<typeof openReadStores>>['readStore']) {
  const issues = READ_MODELS.find(({ name }) => name === 'issues')
  if (issues === undefined) throw new Error('no model of issues')
  for (const { id, position, body } of await readStore.range(issues.collection, { limit: 1000 })) {
    const wrong = { ...body, state: 'closed' }
    await readStore.apply(
      [{ op: 'put', collection: issues.collection, id, position, body: wrong }],
      new Map(),
    )
  }
}

t.test(
  'mergelog rebuild beside a running server: no request fails, and the new models are read',
  async (t) => {
    const server = await startTestServer(t)
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'app' })
    for (let i = 1; i <= 30; i++) await alice.repos.issueCreateIssue('alice', 'app', { title: `Issue ${i}` })
    const open = async () => {
      const { data, headers } = await alice.repos.issueListIssues('alice', 'app', { state: 'open' })
      return { rows: data.length, total: headers.get('x-total-count') }
    }
    await closeAllIssues(server.services.readStore)
    server.services.views.issues.exchanged('issues')
    t.same(await open(), { rows: 0, total: '0' }, 'spoilt')

    let rebuilding = true
    let asked = 0
    const statuses = new Set<number>()
    const asking = (async () => {
      while (rebuilding) {
        asked += 1
        for (const path of [
          '/repos/alice/app/issues?state=all',
          '/repos/alice/app/issues/7',
          '/user/repos',
        ]) {
          statuses.add((await server.fetch('alice', `/api/v1${path}`)).status)
        }
      }
    })()
    const { code, stdout } = await mergelog(['rebuild', '--json'], { DATA_DIR: server.dataDir })
    rebuilding = false
    await asking
    t.equal(code, 0)
    const { rebuilt } = JSON.parse(stdout)
    t.same(
      rebuilt.map(({ model }: { model: string }) => model),
      READ_MODELS.map(({ name }) => name),
    )
    t.ok(asked > 0)
    t.same([...statuses], [200])
    t.same(await open(), { rows: 30, total: '30' }, 'mended')
    await alice.repos.issueCreateIssue('alice', 'app', { title: 'One more' })
    t.same((await open()).total, '31', 'and goes on')

    const unknown = await mergelog(['rebuild', '--model', 'nothing'], { DATA_DIR: server.dataDir })
    t.match(unknown, { code: 1, stderr: /there is no read model nothing; there are accounts, / })
    const { mode } = await stat(controlSocket(server.dataDir))
    t.equal(mode & 0o077, 0, 'only the owner may ask')
  },
)

t.test('mergelog rebuild without a server, which then starts on what it made', async (t) => {
  const DATA_DIR = t.testdir()
  const environment = { DATA_DIR }
  await t.test('a server, and its end', async (t) => {
    const server = await startTestServer(t, environment)
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'app' })
    await alice.repos.issueCreateIssue('alice', 'app', { title: 'Here' })
    await closeAllIssues(server.services.readStore)
  })
  const { code, stdout } = await mergelog(['rebuild', '--model', 'issues'], environment)
  t.equal(code, 0)
  t.match(stdout, /^issues from \d+ events\n$/)
  const server = await startTestServer(t, environment)
  t.match(await (await server.fetch('admin', '/api/v1/repos/alice/app/issues/1')).json(), { state: 'open' })
})

t.test('a fold of another version is rebuilt by the next start', async (t) => {
  const DATA_DIR = t.testdir()
  await t.test('a server, and its end', async (t) => {
    const server = await startTestServer(t, { DATA_DIR })
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'app' })
    await alice.repos.issueCreateIssue('alice', 'app', { title: 'Here' })
    await closeAllIssues(server.services.readStore)
    const older = { position: await server.services.events.lastPosition(), version: 0 }
    await server.stop()
    const { readStore, secrets } = await openReadStores({ ...server.services.config })
    await readStore.apply([], new Map([['issues', older]]))
    await Promise.all([readStore.close(), secrets.close()])
  })
  const server = await startTestServer(t, { DATA_DIR })
  t.match(await (await server.fetch('admin', '/api/v1/repos/alice/app/issues/1')).json(), { state: 'open' })
  t.equal(server.services.projector.status().find(({ name }) => name === pullModel.name)?.stopped, undefined)
})

t.test('the socket of a directory with a long path is elsewhere, and its own', async (t) => {
  const long = join('/srv', 'x'.repeat(200))
  t.equal(controlSocket('/srv/data'), '/srv/data/control.sock')
  t.ok(controlSocket(long).length <= 100)
  t.not(controlSocket(long), controlSocket(`${long}y`))
})
