/** A server with a read model that has stopped: what it makes is answered from the log, and its processes wait. */
import t, { type Test } from 'tap'
import { startTestServer, type TestServer } from './start-server.ts'
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
  'a stopped model: POST issue answers 201 with Mergelog-Projection: lagging, never 404 for what it made',
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

t.test(
  "processes stop at an event they can't read, are named in /healthz, and don't ask again",
  async (t) => {
    const { server } = await withRepository(t)
    let subscriptions = 0
    const { events } = server.services
    const subscribe = events.subscribe
    events.subscribe = (options) => {
      subscriptions += 1
      return subscribe(options)
    }
    await appendBad(server, 'git-1', 'RefsUpdated', { repoId: 1, cause: 'push', refs: [{ ref: 7 }] })
    await until('a process has stopped', async () =>
      (await healthOf(server)).processes.some(({ stopped }) => stopped !== undefined),
    )
    const { code, status, processes } = await healthOf(server)
    t.match({ code, status }, { code: 503, status: 'unhealthy' })
    const stopped = processes.filter(({ stopped }) => stopped !== undefined)
    t.match(stopped[0], {
      name: String,
      stopped: /RefsUpdated in git-1\): data\.refs\[0\]\.ref is not a text/,
    })
    t.equal(subscriptions, 0, 'nobody asks again')
  },
)

t.test('a process waits for a read model that has stopped: it never acts on old documents', async (t) => {
  const { server } = await withRepository(t)
  await appendBad(server, 'label-9', 'LabelDeleted', { id: 9 })
  await server.fetch('alice', '/api/v1/repos/alice/one', { method: 'DELETE' })
  const stopped = async () => (await healthOf(server)).processes.filter((one) => one.stopped !== undefined)
  await until('a process waits', async () => (await stopped()).length > 0)
  t.match(await stopped(), [{ stopped: /waits for the read model \w+, which has stopped/ }])
})
