import { once } from 'node:events'
import Fastify from 'fastify'
import t from 'tap'
import { currentWorkKey, currentWorkSignal, scheduleWork } from '../../../src/concurrency/event-loop.ts'
import { networkOf } from '../../../src/config/address-ranges.ts'
import { scheduleByAccount } from '../../../src/http/connections/fair-scheduling.ts'
import { until } from '../../until.ts'

t.test("a handler's work is attributed to its account, or to its network without one", async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  app.addHook('onRequest', ({ ip }, _reply, done) => scheduleWork(networkOf(ip), done))
  scheduleByAccount(app, ({ headers }) => (typeof headers.from === 'string' ? headers.from : null))
  app.get('/', async () => {
    await Promise.resolve()
    return { client: currentWorkKey() ?? null }
  })
  // Over sockets, because simultaneous `inject` requests begin in one tick, unlike requests to a real server.
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const clientOf = async (headers: Record<string, string>) => (await fetch(url, { headers })).json()
  const asked = [{ from: 'ann' }, {}, { from: 'bob' }].map(clientOf)
  t.strictSame(await Promise.all(asked), [{ client: 'ann' }, { client: '127.0.0.1' }, { client: 'bob' }])
})

t.test('a reading handler is aborted when its client disconnects; a command is not', async (t) => {
  // A client that has aborted connects again, and sends nothing.
  const app = Fastify({ forceCloseConnections: true })
  t.teardown(() => app.close())
  app.addHook('onRequest', ({ ip }, _reply, done) => scheduleWork(networkOf(ip), done))
  scheduleByAccount(app, ({ headers }) => (typeof headers.from === 'string' ? headers.from : null))
  const seen: (AbortSignal | undefined)[] = []
  app.get('/', async () => {
    const gone = currentWorkSignal()
    seen.push(gone)
    if (gone !== undefined) await once(gone, 'abort')
  })
  app.post('/', async () => void seen.push(currentWorkSignal()))
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  t.equal((await fetch(url, { method: 'POST', headers: { from: 'ann' } })).status, 200)
  t.strictSame(seen, [undefined])
  for (const headers of [{ from: 'ann' }, {}]) {
    const leaving = new AbortController()
    const asked = fetch(url, { headers, signal: leaving.signal })
    const count = seen.length
    await until('the request is there', () => seen.length > count)
    const gone = seen.at(-1)
    t.equal(gone?.aborted, false)
    leaving.abort()
    await t.rejects(asked)
    await until('it is known that the client is gone', () => gone?.aborted === true)
    t.match(gone?.reason, { message: 'the client is gone' })
  }
})
