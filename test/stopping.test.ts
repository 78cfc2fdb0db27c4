import { stat } from 'node:fs/promises'
import { Agent, get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { unlessMissing } from '../src/storage/disk.ts'
import { rawClient, requestText } from './http/raw-client.ts'
import { listen } from './queries/history-client.ts'
import { startTestServer, type TestServer } from './start-server.ts'
import { until } from './until.ts'

/** Longer than any test: only `hurry` ends the wait. */
const DRAIN_MS = '600000'

/** Sends a request over the agent's connection; resolves to its read answer. */
async function ask(agent: Agent, url: string): Promise<IncomingMessage> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { agent }, resolve).on('error', reject)
  })
  await text(answer)
  return answer
}

const statusAt = async (server: TestServer, path: string) => {
  const answer = await server.fetch(null, path)
  return { code: answer.status, ...JSON.parse(await answer.text()) }
}

t.test('SIGTERM turns ready off first, answers new requests for DRAIN_MS, and then drains', async (t) => {
  const server = await startTestServer(t, { DRAIN_MS })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app' })
  await until('it is ready', async () => (await statusAt(server, '/healthz')).code === 200)
  t.strictSame(await statusAt(server, '/livez'), { code: 200, status: 'ok' })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  t.equal((await ask(agent, `${server.url}/livez`)).headers.connection, 'keep-alive')
  const live = await listen(t, server, 'alice', '/repos/alice/app/history?after=now')
  await until('the live history has begun', async () => live.text() !== '')

  const hurry = new AbortController()
  const stopped = server.stop(hurry.signal)
  const health = await statusAt(server, '/healthz')
  t.match(health, { code: 503, status: 'stopping', readStore: 'ok' })
  t.equal(health.readModels.length > 0, true, 'the rest is there as always')
  t.equal((await statusAt(server, '/livez')).code, 200, 'it is alive')

  const { status } = await alice.repos.repoGet('alice', 'app')
  t.equal(status, 200, 'a new request is answered')
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'Late' })
  t.match(await live.has(1), [{ event: { type: 'IssueOpened' } }], 'and live streams show it')
  const answer = await ask(agent, `${server.url}/livez`)
  t.equal(answer.headers.connection, 'close', 'each connection ends with its next answer')
  t.equal(answer.statusCode, 200)

  hurry.abort()
  await live.ended
  await stopped
  await t.rejects(server.fetch(null, '/livez'), 'nobody listens any more')
  await server.stop()
})

t.test('a hanging request delays a stop by at most STOP_TIMEOUT_MS', async (t) => {
  const server = await startTestServer(t, { STOP_TIMEOUT_MS: '50', REQUEST_TIMEOUT_MS: '3600000' })
  // The head and a part of the body: the rest never comes.
  const head = requestText('POST', '/api/v1/user/repos', {
    'content-type': 'application/json',
    'content-length': '100',
  })
  const client = rawClient(t, server.url, `${head}{`)
  await until('it has come', async () => {
    const answer = await server.fetch('admin', '/metrics')
    return /^mergelog_bodies_in_flight\{.*kind="api".*\} 1$/m.test(await answer.text())
  })
  await server.stop()
  await client.closed()
})

t.test('livez is 200 while the stores are away', async (t) => {
  const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
  await server.services.events.close()
  t.equal((await statusAt(server, '/healthz')).code, 503)
  t.strictSame(await statusAt(server, '/livez'), { code: 200, status: 'ok' })
})

t.test('after an orderly stop each database file has everything: nothing is left in its WAL', async (t) => {
  const DATA_DIR = t.testdir()
  const server = await startTestServer(t, { DATA_DIR })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'One' })
  await alice.repos.issueListIssues('alice', 'app')
  await server.stop()
  for (const name of ['events', 'views', 'secrets']) {
    const wal = await unlessMissing(stat(join(DATA_DIR, `${name}.db-wal`)))
    t.equal(wal?.size ?? 0, 0, name)
  }
})
