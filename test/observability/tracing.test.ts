/** Traces: each request is one trace at the collector; an unavailable collector delays nothing. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startEventStoreDouble } from '../doubles/eventstore.ts'
import { eventStoreWithLongTimeouts, mongoWithLongTimeouts } from '../doubles/long-timeouts.ts'
import { startMongoDouble } from '../doubles/mongodb.ts'
import { workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'

interface Span {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
}

interface Export {
  resourceSpans: { scopeSpans: { spans: Span[] }[] }[]
}

/** A collector of OTLP over HTTP. `hangs`: it accepts connections, and never answers. */
async function collector(t: Pick<Test, 'teardown'>, { hangs = false } = {}) {
  const spans: Span[] = []
  let asked = 0
  const server = createServer(async (request, answer) => {
    asked += 1
    const chunks: Buffer[] = await Array.fromAsync(request)
    if (hangs) return
    const body: Export = JSON.parse(Buffer.concat(chunks).toString())
    if (request.url !== '/v1/traces') return answer.writeHead(404).end()
    for (const { scopeSpans } of body.resourceSpans)
      for (const scope of scopeSpans) spans.push(...scope.spans)
    return answer.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const bound = server.address()
  const port = typeof bound === 'object' ? bound?.port : 0
  return { url: `http://127.0.0.1:${port}`, spans, asked: () => asked }
}

const callers = (digit: string) => ({
  traceId: digit.repeat(32),
  header: `00-${digit.repeat(32)}-${'b'.repeat(16)}-01`,
})

t.test(
  'a request, its appends, the batch of the projector and git are one trace: that of the caller',
  async (t) => {
    const { url, spans } = await collector(t)
    const server = await startTestServer(t, { OTEL_EXPORTER_OTLP_ENDPOINT: url })
    const { traceId, header } = callers('a')
    const body = JSON.stringify({ name: 'app', auto_init: true })
    const headers = { traceparent: header, 'x-request-id': 'my-request' }
    const made = await server.fetch('alice', '/api/v1/user/repos', { method: 'POST', body, headers })
    t.equal(made.status, 201)
    t.equal(made.headers.get('x-request-id'), 'my-request')
    const inTrace = () => spans.filter((span) => span.traceId === traceId)
    const names = () => new Set(inTrace().map(({ name }) => name))
    await until(
      'the spans are there',
      () => names().has('POST /api/v1/user/repos') && names().has('projector batch'),
    )
    const [request] = inTrace().filter(({ name }) => name === 'POST /api/v1/user/repos')
    t.equal(request?.parentSpanId, 'b'.repeat(16), 'it is a child of what the caller does')
    t.ok(names().has('log append'))
    t.ok(
      [...names()].some((name) => name.startsWith('git ')),
      [...names()].join(', '),
    )
    const ids = new Set(inTrace().map(({ spanId }) => spanId))
    const orphans = inTrace().filter((span) => span !== request && !ids.has(span.parentSpanId ?? ''))
    t.strictSame(orphans, [], 'each span is a part of another one of the trace')

    const correlations = new Set<string>()
    const causes = new Set<string>()
    for await (const { type, metadata } of server.services.events.readAll()) {
      if (type !== 'RepositoryCreated') continue
      correlations.add(metadata.correlationId)
      causes.add(metadata.causationId)
    }
    t.ok(correlations.has(traceId), 'the correlation id of the events is the id of the trace')
    t.ok(causes.has('my-request'), 'the id of the request is kept')

    const tree = await workTree(t, server.gitUrl('alice', 'alice/app'))
    await tree.commit('More', { b: 'b\n' })
    await tree.git('push', '-q', 'origin', 'HEAD')
    await until('the spans of the push', () => {
      const push = spans.find(({ name }) => name === 'POST /:owner/:repo/git-receive-pack')
      return spans.some(({ name, traceId }) => name === 'git receive-pack' && traceId === push?.traceId)
    })
  },
)

t.test('on EventStoreDB and MongoDB, the commands of a request are in its trace', async (t) => {
  const { url, spans } = await collector(t)
  const dir = t.testdir()
  const eventStore = await startEventStoreDouble({ port: 0, file: join(dir, 'eventstore.db') })
  t.teardown(() => eventStore.close())
  const mongo = await startMongoDouble({ port: 0, file: join(dir, 'mongo.db') })
  t.teardown(() => mongo.close())
  const server = await startTestServer(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    EVENTSTORE_URL: eventStoreWithLongTimeouts(eventStore),
    MONGODB_URL: mongoWithLongTimeouts(mongo),
  })
  const { traceId, header: traceparent } = callers('c')
  const body = JSON.stringify({ name: 'app' })
  const made = await server.fetch('admin', '/api/v1/user/repos', {
    method: 'POST',
    body,
    headers: { traceparent },
  })
  t.equal(made.status, 201)
  const names = () => new Set(spans.filter((span) => span.traceId === traceId).map(({ name }) => name))
  await until(
    'the spans are there',
    () => names().has('POST /api/v1/user/repos') && names().has('projector batch'),
  )
  t.ok(names().has('log append'))
  t.ok(
    [...names()].some((name) => name.startsWith('mongodb ')),
    [...names()].join(', '),
  )
})

t.test('a hanging or missing collector delays neither requests nor the stop', async (t) => {
  const hanging = await collector(t, { hangs: true })
  for (const endpoint of [hanging.url, 'http://127.0.0.1:1']) {
    const server = await startTestServer(t, { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })
    for (let i = 0; i < 50; i++) t.equal((await server.fetch(null, '/livez')).status, 200)
    if (endpoint === hanging.url) await until('the collector is asked', () => hanging.asked() > 0)
    await server.stop()
  }
})

t.test('without the setting, the correlation id is that of the request', async (t) => {
  const server = await startTestServer(t)
  const headers = { traceparent: callers('d').header, 'x-request-id': 'mine' }
  const body = JSON.stringify({ name: 'app' })
  await server.fetch('alice', '/api/v1/user/repos', { method: 'POST', body, headers })
  const found: string[] = []
  for await (const { type, metadata } of server.services.events.readAll()) {
    if (type === 'RepositoryCreated') found.push(metadata.correlationId)
  }
  t.strictSame(found, ['mine'])
})
