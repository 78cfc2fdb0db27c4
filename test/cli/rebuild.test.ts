import { execFile } from 'node:child_process'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { accountFold } from '../../src/projections/models/users/accounts.fold.ts'
import { READ_MODELS } from '../../src/projections/views/views.ts'
import { openReadStores } from '../../src/server/stores.ts'
import { lockDataDir } from '../../src/storage/data-lock.ts'
import { PROGRAM_ENVIRONMENT, program } from '../program.ts'
import { ADMIN_PASSWORD } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { mergelog } from './command-line.ts'

const accounts = accountFold.collection

/** Damages the read model of issues, so that a rebuild has to repair it. */
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
    const { dataDir: DATA_DIR, url: PUBLIC_URL } = server
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
    const { code, stdout } = await mergelog(['rebuild', '--json'], { DATA_DIR, PUBLIC_URL, ADMIN_PASSWORD })
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
    t.same(await open(), { rows: 30, total: '30' }, 'repaired')
    await alice.repos.issueCreateIssue('alice', 'app', { title: 'One more' })
    t.same((await open()).total, '31', 'new events are applied')

    const unknown = await mergelog(['rebuild', '--model', 'nothing'], { DATA_DIR })
    t.match(unknown, { code: 2, stderr: /there is no read model nothing; there are accounts, / })

    await t.test('with the token of a site admin', async (t) => {
      const body = JSON.stringify({ name: 'rebuilding', scopes: ['write:admin'] })
      const answer = await server.fetch('admin', '/api/v1/users/admin/tokens', { method: 'POST', body })
      const { sha1: MERGELOG_TOKEN } = JSON.parse(await answer.text())
      const elsewhere = { DATA_DIR: t.testdir(), MERGELOG_TOKEN }
      const { code, stdout } = await mergelog(
        ['rebuild', '--model', 'issues', '--url', `${PUBLIC_URL}/`],
        elsewhere,
      )
      t.equal(code, 0)
      t.match(stdout, /^issues from \d+ events\n$/)
    })

    await t.test('a refusal of other users is one line', async (t) => {
      t.match(await mergelog(['rebuild'], { DATA_DIR, PUBLIC_URL }), {
        code: 1,
        stdout: '',
        stderr:
          /^mergelog: DATA_DIR: another process.* uses \S+; if it is a server, MERGELOG_TOKEN or ADMIN_PASSWORD is needed to use it\n$/,
      })
      t.match(await mergelog(['rebuild', '--url', PUBLIC_URL], { DATA_DIR }), {
        code: 1,
        stderr: 'mergelog: MERGELOG_TOKEN or ADMIN_PASSWORD is needed; see --help\n',
      })
      t.match(await mergelog(['rebuild'], { DATA_DIR, PUBLIC_URL, MERGELOG_TOKEN: 'x' }), {
        code: 1,
        stderr: /^mergelog: http:\S+ answered 401: .+\n$/,
      })
    })
  },
)

t.test('mergelog rebuild without a server; the next start uses the rebuilt read models', async (t) => {
  const DATA_DIR = t.testdir()
  const environment = { DATA_DIR }
  await t.test('a server runs and stops', async (t) => {
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

t.test(
  'the next start rebuilds a read model of another version, and frees the documents of a killed rebuild',
  async (t) => {
    const DATA_DIR = t.testdir()
    await t.test('a server runs and stops', async (t) => {
      const server = await startTestServer(t, { DATA_DIR })
      const alice = await server.as('alice')
      await alice.user.createCurrentUserRepo({ name: 'app' })
      await alice.repos.issueCreateIssue('alice', 'app', { title: 'Here' })
      await closeAllIssues(server.services.readStore)
      const older = { position: await server.services.events.lastPosition(), version: 0 }
      await server.stop()
      const { readStore, generations, secrets } = await openReadStores({ ...server.services.config })
      await readStore.apply([], new Map([['issues', older]]))
      // The documents that a killed rebuild leaves.
      await generations.spare.prepare([accounts])
      const [account] = await readStore.range(accounts, { limit: 1 })
      if (account === undefined) throw new Error('there is an account')
      await generations.spare.apply([{ op: 'put', collection: accounts, ...account }], new Map())
      await Promise.all([readStore.close(), secrets.close()])
    })
    const server = await startTestServer(t, { DATA_DIR })
    t.match(await (await server.fetch('admin', '/api/v1/repos/alice/app/issues/1')).json(), { state: 'open' })
    t.equal(server.services.projector.status().find(({ name }) => name === 'pulls')?.stopped, undefined)

    const { generations, secrets } = await openReadStores(server.services.config)
    const spares = () => generations.spare.range(accounts, { limit: 1 })
    t.equal((await spares()).length, 1, 'not freed immediately, which would slow the start')
    await until('the documents of the killed rebuild are freed', async () => (await spares()).length === 0)
    await Promise.all([generations.current.close(), secrets.close()])
  },
)

t.test(
  'mergelog rebuild without a server: only JSON on standard output, and nothing is left to free',
  async (t) => {
    const DATA_DIR = t.testdir()
    const server = await startTestServer(t, { DATA_DIR })
    await server.stop()
    const { config } = server.services
    // Another version built these, so the server writes a line to the log.
    const before = await openReadStores(config)
    await before.readStore.apply([], new Map([['accounts', { position: 1, version: 0 }]]))
    await Promise.all([before.readStore.close(), before.secrets.close()])
    await rm(join(DATA_DIR, 'secrets.db'))

    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [program('src/cli/mergelog'), 'rebuild', '--model', 'accounts', '--json'],
      { env: { ...PROGRAM_ENVIRONMENT, DATA_DIR } },
    )
    t.match(JSON.parse(stdout), { rebuilt: [{ model: 'accounts' }] })
    t.match(stderr, /"msg":"the read model has changed/)
    t.notOk((await readdir(DATA_DIR)).includes('secrets.db'), 'the secrets are not opened')

    const { generations, secrets } = await openReadStores(config)
    t.ok((await generations.current.range(accounts, { limit: 1 })).length > 0)
    t.same(await generations.spare.range(accounts, { limit: 1 }), [], 'the old generation is freed')
    await Promise.all([generations.current.close(), secrets.close()])
  },
)

t.test('mergelog rebuild while another command uses the data directory: one line that says so', async (t) => {
  const DATA_DIR = t.testdir({ 'events.db': '' })
  const unlock = lockDataDir(DATA_DIR)
  t.teardown(unlock)
  const PUBLIC_URL = 'http://127.0.0.1:2'
  t.match(await mergelog(['rebuild'], { DATA_DIR, PUBLIC_URL, ADMIN_PASSWORD }), {
    code: 1,
    stdout: '',
    stderr: new RegExp(
      `^mergelog: DATA_DIR: another process.* uses ${DATA_DIR}, but no server answers at ${PUBLIC_URL}: ` +
        'connect ECONNREFUSED 127.0.0.1:2. It may be another command, a server that is still starting, ' +
        'or one at another address \\(see --url\\)\n$',
    ),
  })
})
