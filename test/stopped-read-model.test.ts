/** A server with a stopped read model: new resources are answered from the log, and processes wait. */
import t, { type Test } from 'tap'
import { workTree } from './git-client.ts'
import { listen } from './queries/history-client.ts'
import { passwordOf, startTestServer, type TestServer } from './start-server.ts'
import { until } from './until.ts'

interface Health {
  code: number
  status: string
  readModels: { name: string; stopped?: string }[]
  processes: { name: string; stopped?: string; position: number }[]
}

async function healthOf({ url }: TestServer): Promise<Health> {
  const answer = await fetch(`${url}/healthz`)
  const health: Omit<Health, 'code'> = JSON.parse(await answer.text())
  return { ...health, code: answer.status }
}

/** Appends an event as a damaged or a newer program may have written it. */
async function appendBad(server: TestServer, stream: string, type: string, data: object) {
  const metadata = {
    actor: null,
    at: new Date().toISOString(),
    correlationId: 'x',
    causationId: 'x',
    schema: 1,
  }
  const id = '8e0d0c3e-7c32-4c8a-9d7c-0f4f4f0f9a11'
  await server.services.events.append(stream, [{ id, type, data, metadata }], 'any')
  await until('a read model has stopped', async () =>
    server.services.projector.status().some(({ stopped }) => stopped !== undefined),
  )
}

async function withRepository(t: Test) {
  const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'one', auto_init: true })
  return { server }
}

const post = (server: TestServer, path: string, body: object) =>
  server.fetch('alice', `/api/v1${path}`, { method: 'POST', body: JSON.stringify(body) })

t.test(
  'a stopped model: POST issue answers 201 with Mergelog-Projection: lagging, never 404 for the new issue',
  async (t) => {
    const { server } = await withRepository(t)
    await appendBad(server, 'issue-1.99', 'IssueOpened', { repoId: 1, index: 99 })
    const began = performance.now()
    const answer = await post(server, '/repos/alice/one/issues', { title: 'after the stop', body: 'text' })
    t.equal(answer.status, 201)
    t.ok(
      performance.now() - began < server.services.config.projectionWaitMs,
      'it does not wait for the stopped model',
    )
    t.equal(answer.headers.get('mergelog-projection'), 'lagging')
    t.match(await answer.json(), {
      number: 1,
      title: 'after the stop',
      body: 'text',
      user: { login: 'alice' },
    })
  },
)

t.test(
  'a stopped model: POST of a repository and of a fork never answers 404 for what it made',
  async (t) => {
    const { server } = await withRepository(t)
    await appendBad(server, 'repo-99', 'RepositoryCreated', { repoId: 99 })
    const made = await post(server, '/user/repos', { name: 'two', auto_init: true })
    t.equal(made.status, 201)
    t.equal(made.headers.get('mergelog-projection'), 'lagging')
    t.match(await made.json(), { name: 'two', full_name: 'alice/two' })
    const fork = await server.fetch('bob', '/api/v1/repos/alice/one/forks', { method: 'POST', body: '{}' })
    t.equal(fork.status, 202)
    t.match(await fork.json(), { full_name: 'bob/one' })
  },
)

t.test('processes stop at an unreadable event, are named in /healthz, and do not retry', async (t) => {
  const { server } = await withRepository(t)
  let subscriptions = 0
  const { events } = server.services
  const subscribe = events.subscribe
  events.subscribe = (options) => {
    subscriptions += 1
    return subscribe(options)
  }
  await appendBad(server, 'git-1', 'RefsUpdated', {
    repoId: 1,
    cause: 'push',
    refs: [{ ref: 7, from: null, to: null }],
    commits: [],
  })
  await until('a process has stopped', async () =>
    (await healthOf(server)).processes.some(({ stopped }) => stopped !== undefined),
  )
  const { code, status, processes } = await healthOf(server)
  t.match({ code, status }, { code: 503, status: 'unhealthy' })
  const stopped = processes.filter(({ stopped }) => stopped !== undefined)
  t.match(stopped[0], {
    name: String,
    stopped: /RefsUpdated in git-1\): data\/refs\/0\/ref must be string/,
  })
  t.equal(subscriptions, 0, 'nobody asks again')
})

t.test('a process waits for a stopped read model: it never acts on old documents', async (t) => {
  const { server } = await withRepository(t)
  await appendBad(server, 'label-9', 'LabelDeleted', { id: 9 })
  await server.fetch('alice', '/api/v1/repos/alice/one', { method: 'DELETE' })
  const stopped = async () => (await healthOf(server)).processes.filter((one) => one.stopped !== undefined)
  await until('a process waits', async () => (await stopped()).length > 0)
  t.match(await stopped(), [{ stopped: /waits for the read model \w+, which has stopped/ }])
})

t.test(
  'a stopped model: PATCH or comment on a resource created after the stop gives 503, never 404 for an existing one',
  async (t) => {
    const { server } = await withRepository(t)
    const before = await post(server, '/repos/alice/one/issues', { title: 'before the stop' })
    t.equal(before.status, 201)
    await appendBad(server, 'issue-1.99', 'IssueOpened', { repoId: 1, index: 99 })
    t.equal((await post(server, '/repos/alice/one/issues', { title: 'after the stop' })).status, 201)
    const send = async (method: string, path: string, body?: object) => {
      const init = { method, ...(body && { body: JSON.stringify(body) }) }
      return server.fetch('alice', `/api/v1/repos/alice/one${path}`, init)
    }
    for (const [method, path, body] of [
      ['PATCH', '/issues/2', { title: 'another' }],
      ['POST', '/issues/2/comments', { body: 'a comment' }],
      ['GET', '/issues/2', undefined],
    ] as const) {
      const answer = await send(method, path, body)
      t.equal(answer.status, 503, `${method} ${path}`)
      t.equal(answer.headers.get('retry-after'), null, 'to try again is of no use')
      t.match(await answer.json(), { message: /^issue not found: the read model has stopped/ })
    }
    // Its earlier documents are known, and other read models know missing resources.
    const edited = await send('PATCH', '/issues/1', { title: 'edited' })
    t.equal(edited.status, 201)
    t.equal(edited.headers.get('mergelog-projection'), 'lagging')
    t.equal((await send('POST', '/issues/1/comments', { body: 'a comment' })).status, 201)
    t.equal((await send('GET', '/labels/7')).status, 404)
    t.equal((await server.fetch('alice', '/api/v1/users/nobody')).status, 404)
  },
)

t.test(
  'a stopped model of repositories: a newer one, a hidden one and a missing one give the same 503',
  async (t) => {
    const { server } = await withRepository(t)
    const hidden = await post(server, '/user/repos', { name: 'hidden', private: true })
    t.equal(hidden.status, 201)
    await appendBad(server, 'repo-99', 'RepositoryCreated', { repoId: 99 })
    t.equal((await post(server, '/user/repos', { name: 'since' })).status, 201)
    const answers = ['since', 'hidden', 'none'].map(async (name) => {
      const answer = await server.fetch('bob', `/api/v1/repos/alice/${name}`)
      return { status: answer.status, body: await answer.json() }
    })
    const [first, ...others] = await Promise.all(answers)
    t.match(first, { status: 503, body: { message: /^repository not found: the read model has stopped/ } })
    for (const other of others) t.strictSame(other, first)
    t.equal((await server.fetch('bob', '/api/v1/repos/alice/one')).status, 200)
  },
)

t.test(
  'POST pull request answers 201 from its own events when the projector lags or has stopped',
  async (t) => {
    const { server } = await withRepository(t)
    const work = await workTree(t, server.gitUrl('alice', 'alice/one'))
    for (const topic of ['lag', 'stop']) {
      await work.git('checkout', '-q', '-b', topic, 'main')
      await work.commit(`Add ${topic}`, { [topic]: `${topic}\n` })
      await work.git('push', '-q', 'origin', topic)
    }
    const head = await work.git('rev-parse', 'lag')
    const { readStore, projector } = server.services
    // The projector is paused: it writes nothing until it is resumed.
    const { apply } = readStore
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
    readStore.apply = async (changes, checkpoints) => {
      await held
      await apply.call(readStore, changes, checkpoints)
    }
    const waitFor = projector.waitFor
    projector.waitFor = (position) => waitFor(position, 50)
    const lagging = await post(server, '/repos/alice/one/pulls', {
      head: 'lag',
      base: 'main',
      title: 'While it lags',
      body: 'text',
    })
    t.equal(lagging.status, 201)
    t.equal(lagging.headers.get('mergelog-projection'), 'lagging')
    const expected = {
      number: 1,
      title: 'While it lags',
      body: 'text',
      state: 'open',
      merged: false,
      mergeable: true,
      changed_files: 1,
      user: { login: 'alice' },
      head: { ref: 'lag', sha: head },
      base: { ref: 'main' },
    }
    t.match(await lagging.json(), expected)
    letGo()
    projector.waitFor = waitFor
    const shown = async () => server.fetch('alice', '/api/v1/repos/alice/one/pulls/1')
    await until('the projector has caught up', async () => (await shown()).status === 200)
    t.match(await (await shown()).json(), expected, 'the document says the same later')

    await appendBad(server, 'pull-1.99', 'PullRequestOpened', { repoId: 1, index: 99 })
    const stopped = await post(server, '/repos/alice/one/pulls', {
      head: 'stop',
      base: 'main',
      title: 'Since',
    })
    t.equal(stopped.status, 201)
    t.equal(stopped.headers.get('mergelog-projection'), 'lagging')
    t.match(await stopped.json(), { number: 2, title: 'Since', head: { ref: 'stop' } })
    for (const [method, path, body] of [
      ['PATCH', '', { title: 'another' }],
      ['POST', '/merge', { Do: 'merge' }],
      ['GET', '', undefined],
    ] as const) {
      const init = { method, ...(body && { body: JSON.stringify(body) }) }
      const answer = await server.fetch('alice', `/api/v1/repos/alice/one/pulls/2${path}`, init)
      t.equal(answer.status, 503, `${method} of what was made after the stop`)
    }
  },
)

t.test(
  'a compromised token or password can be revoked immediately, also while the read model of accounts is stopped',
  async (t) => {
    const { server } = await withRepository(t)
    const basicOf = (login: string, password: string) =>
      `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`
    const signIn = async (authorization: string) =>
      (await server.fetch(null, '/api/v1/user', { headers: { authorization } })).status
    const made = await server.fetch('bob', '/api/v1/users/bob/tokens', {
      method: 'POST',
      body: JSON.stringify({ name: 'lost', scopes: ['all'] }),
    })
    const token = JSON.parse(await made.text())
    const byToken = `token ${token.sha1}`
    const byPassword = basicOf('bob', passwordOf('bob'))
    const live = (authorization: string) =>
      listen(t, server, null, '/repos/alice/one/history', { authorization })
    const [ofToken, ofPassword] = await Promise.all([live(byToken), live(byPassword)])
    await Promise.all([ofToken.has(1), ofPassword.has(1)])

    await appendBad(server, 'user-99', 'UserCreated', { id: 99 })
    t.equal(await signIn(byToken), 200)
    t.equal(await signIn(byPassword), 200)
    const admin = (path: string, method: string, body?: object) =>
      server.fetch('admin', `/api/v1/admin/users${path}`, {
        method,
        ...(body && { body: JSON.stringify(body) }),
      })
    t.equal((await admin('/bob', 'PATCH', { password: 'another password' })).status, 200)
    t.equal(await signIn(byPassword), 401, 'the old password')
    await ofPassword.ended
    t.equal(await signIn(basicOf('bob', 'another password')), 200)
    t.equal(await signIn(byToken), 200, 'tokens stay')
    const removed = await server.fetch(null, `/api/v1/users/bob/tokens/${token.id}`, {
      method: 'DELETE',
      headers: { authorization: basicOf('bob', 'another password') },
    })
    t.equal(removed.status, 204)
    t.equal(await signIn(byToken), 401, 'the token')
    await ofToken.ended
    t.equal((await admin('/bob', 'PATCH', { active: false })).status, 200)
    t.equal(await signIn(basicOf('bob', 'another password')), 403, 'the account')
    t.equal((await admin('/carol', 'PATCH', { must_change_password: true })).status, 200)
    t.equal(await signIn(basicOf('carol', passwordOf('carol'))), 403)
    t.equal((await admin('/carol', 'DELETE')).status, 503, 'what cannot be decided now is refused')
    t.equal(await signIn(basicOf('dave', passwordOf('dave'))), 200, 'nobody else')
  },
)
