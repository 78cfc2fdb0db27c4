import { join } from 'node:path'
import t from 'tap'
import { StoreUnavailable } from '../../src/events/store/event-store.ts'
import { withGenerations } from '../../src/projections/generations/generations.ts'
import { openSqliteReadStore } from '../../src/projections/store/sqlite/sqlite.ts'
import { READ_MODELS } from '../../src/projections/views/views.ts'
import { readersBelow } from '../git/reader-processes.ts'
import { workTree } from '../git-client.ts'
import { dataDirectory, healthOf, isHealthy } from '../health.ts'
import { startTestServer, type TestServer } from '../start-server.ts'
import { until } from '../until.ts'

t.test('GET /healthz names the store of the read models while it does not answer', async (t) => {
  const server = await startTestServer(t)
  const { readStore } = server.services
  const { ping } = readStore
  readStore.ping = () => Promise.reject(new StoreUnavailable('connect ECONNREFUSED 10.0.0.5:27017'))
  t.teardown(() => {
    readStore.ping = ping
  })
  const away = await healthOf(server)
  t.match(away, { code: 503, status: 'unhealthy', readStore: 'unreachable' })
  t.same(away.problems, ['the store of the read models does not answer: the output of the server tells why'])
  const inBrowser = await server.fetch(null, '/healthz', { headers: { accept: 'text/html' } })
  t.equal(inBrowser.status, 503)
  t.match(await inBrowser.json(), { status: 'unhealthy' }, 'a browser gets the report, too')
  readStore.ping = ping
  t.match(await healthOf(server), { code: 200, readStore: 'ok' })
})

t.test('healthz is 200 without lag when the stores answer and all events are projected', async (t) => {
  const server = await startTestServer(t)
  await until('all is read', isHealthy(server))
  const health = await healthOf(server)
  t.match(health, { status: 'ok', readStore: 'ok', lag: 0 })
  const names = health.readModels.map(({ name }: { name: string }) => name)
  t.strictSame(names.sort(), READ_MODELS.map(({ name }) => name).sort())
})

t.test('an event that a read model cannot fold stops this model, and healthz names it', async (t) => {
  const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'before' })
  const metadata = {
    actor: null,
    at: new Date().toISOString(),
    correlationId: 'x',
    causationId: 'x',
    schema: 1,
  }
  const id = '8e0d0c3e-7c32-4c8a-9d7c-0f4f4f0f9a11'
  const poison = { id, type: 'RepositoryCreated', data: { repoId: 99 }, metadata }
  await server.services.events.append('repo-99', [poison], 'no-stream')
  await until('a read model has stopped', async () => (await healthOf(server)).status === 'unhealthy')
  const health = await healthOf(server)
  t.equal(health.code, 503)
  const stopped = health.readModels.filter(({ stopped }: { stopped?: string }) => stopped !== undefined)
  const concerned = READ_MODELS.filter((model) => model.handles(poison)).map(({ name }) => name)
  t.same(stopped.map(({ name }: { name: string }) => name).sort(), concerned.sort(), 'and no other model')
  t.match(stopped[0], { stopped: /RepositoryCreated, repo-99@0.*data must have required properties name/ })
  t.equal(
    (await alice.repos.repoGet('alice', 'before')).status,
    200,
    'documents from before are still served',
  )
})

t.test('a restart keeps everything, and rebuilds a read model of another version', async (t) => {
  const DATA_DIR = await dataDirectory(t)
  const first = await startTestServer(t, { DATA_DIR })
  const alice = await first.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const work = await workTree(t, first.gitUrl('alice', 'alice/app'))
  await work.git('checkout', '-q', '-b', 'topic')
  await work.commit('Change', { 'a.txt': 'a\n' })
  await work.git('push', '-q', 'origin', 'topic')
  await alice.repos.repoCreatePullRequest('alice', 'app', { head: 'topic', base: 'main', title: 'T' })
  await alice.repos.repoMergePullRequest('alice', 'app', 1, { Do: 'merge' })
  const { views } = first.services
  const state = async (server: TestServer) => {
    const paths = ['/repos/alice/app', '/repos/alice/app/pulls/1', '/repos/alice/app/branches', '/user']
    const answers = await Promise.all(paths.map((path) => server.fetch('alice', `/api/v1${path}`)))
    const texts = await Promise.all(answers.map((answer) => answer.text()))
    return texts.map((text) =>
      JSON.parse(text.replaceAll(server.url, '').replaceAll(/"size":\d+/g, '"size":0')),
    )
  }
  await until('all is read', isHealthy(first))
  const before = await state(first)
  const [pull] = await views.pulls.find({})
  t.ok(pull?.merged)
  await first.stop()
  const { current: readStore } = withGenerations(openSqliteReadStore(join(DATA_DIR, 'views.db')))
  const position = (await readStore.checkpoint('pulls'))?.position ?? 0
  await readStore.apply([], new Map([['pulls', { position, version: 9999 }]]))
  await readStore.clear({ name: 'pulls', indexes: [], arrays: [] })
  await readStore.close()

  const second = await startTestServer(t, { DATA_DIR })
  t.same(second.adminPassword, { maybeLost: false }, 'the admin account is kept')
  await until('all is read', isHealthy(second))
  t.strictSame(await state(second), before)
  t.strictSame(await second.services.views.pulls.find({}), [pull])
})

t.test('an interrupted merge in a deleted repository does not block a start', async (t) => {
  const DATA_DIR = await dataDirectory(t)
  const first = await startTestServer(t, { DATA_DIR })
  const alice = await first.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const work = await workTree(t, first.gitUrl('alice', 'alice/app'))
  await work.git('push', '-q', 'origin', 'main:topic')
  const { data } = await alice.repos.repoCreatePullRequest('alice', 'app', {
    head: 'topic',
    base: 'main',
    title: 'T',
  })
  const repoId = data.base?.repo_id ?? 0
  const sha = data.head?.sha ?? ''
  const by = { id: data.user?.id ?? 0, login: 'alice' }
  const started = {
    repoId,
    index: 1,
    style: 'merge',
    baseBranch: 'main',
    from: sha,
    head: sha,
    mergeBase: null,
    commit: sha,
    message: 'M',
    by,
    deleteBranch: false,
  }
  const metadata = {
    actor: by,
    at: new Date().toISOString(),
    correlationId: 'x',
    causationId: 'x',
    schema: 1,
  }
  const id = '8e0d0c3e-7c32-4c8a-9d7c-0f4f4f0f9a12'
  await alice.repos.repoDelete('alice', 'app')
  await first.services.events.append(
    `pull-${repoId}.1`,
    [{ id, type: 'MergeStarted', data: started, metadata }],
    'any',
  )
  await first.stop()

  const second = await startTestServer(t, { DATA_DIR })
  await until('it is healthy', isHealthy(second))
  t.strictSame(await second.services.views.pulls.find({ merging: true }), [])
})

t.test('a server that stops ends the git processes that read its repositories', async (t) => {
  const dataDir = await dataDirectory(t)
  const server = await startTestServer(t, { DATA_DIR: dataDir })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'read', auto_init: true })
  const unknown = `/api/v1/repos/alice/read/statuses/${'e'.repeat(40)}`
  t.equal((await server.fetch('alice', unknown)).status, 404)
  t.equal((await readersBelow(dataDir)).length, 1, 'one process stays')
  await server.stop()
  t.same(await readersBelow(dataDir), [])
})
