import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import Fastify from 'fastify'
import t from 'tap'
import { registerErrors } from '../../../src/http/answers/errors.ts'
import { jsonAnswer, withLongList } from '../../../src/http/answers/json-answer.ts'
import { limitUnreadBytes, type UnreadLimits } from '../../../src/http/answers/unread-bytes.ts'
import { until } from '../../until.ts'
import { rawClient, requestText } from '../raw-client.ts'

type Test = Parameters<typeof rawClient>[0]

const MB = 1_000_000
const NEVER = 3_600_000
/** Long rows: more than the buffers of the system take, so that the answer waits in the server. */
const rows = Array.from({ length: 50 }, (_, id) => ({ id, body: `${id} `.repeat(120_000) }))
const size = JSON.stringify(rows).length

/** A server with `/rows`, `/few` and `/text`. It believes in `X-Forwarded-For`. */
async function serve(test: Test, limits: UnreadLimits) {
  const app = Fastify({ trustProxy: 'loopback', forceCloseConnections: true })
  app.setSerializerCompiler(() => jsonAnswer)
  registerErrors(app, () => '/docs')
  limitUnreadBytes(app, limits)
  const schema = { response: { 200: { type: 'array' } } }
  app.get('/rows', { schema }, async (_request, reply) => reply.header('X-Total-Count', 50).send(rows))
  app.get('/few', { schema }, async () => rows.slice(0, 1).map(({ id }) => ({ id })))
  const object = { schema: { response: { 200: { type: 'object' } } } }
  app.get('/field', object, async () => withLongList({ total: 50, rows, note: '"' }, 'rows'))
  app.get('/only', object, async () => withLongList({ rows: [{ id: 1 }] }, 'rows'))
  app.get('/none', { schema }, async () => [])
  app.get('/text', async () => 'x'.repeat(size))
  test.teardown(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  return { url, connections: () => promisify(app.server.getConnections.bind(app.server))() }
}

const ROOMY = { all: 1000 * MB, perNetwork: 1000 * MB, timeoutMs: NEVER }

// The first, because lists of other tests would share the event loop with it.
t.test('a client that takes a whole long list gets it in slices, and other requests continue', async (t) => {
  const done: string[] = []
  const row = (id: string) => ({
    toJSON() {
      done.push(id)
      setImmediate(() => done.push('others'))
      for (const began = performance.now(); performance.now() - began < 5; );
      return id.repeat(300_000)
    },
  })
  const answer = jsonAnswer(['a', 'b', 'c', 'd'].map(row))
  if (typeof answer === 'string') throw new Error('the list is not sent in pieces')
  await text(answer)
  t.ok(done.indexOf('others') < done.indexOf('c'), done.join(' '))
})

t.test('a page has a budget of bytes: it is produced as the client reads it, with all rows', async (t) => {
  const { url } = await serve(t, ROOMY)
  const answer = await fetch(`${url}/rows`)
  t.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8')
  t.equal(answer.headers.get('x-total-count'), '50')
  t.equal(answer.headers.get('content-length'), null, 'a long page is not held as one text')
  t.equal(await answer.text(), JSON.stringify(rows))
  const few = await fetch(`${url}/few`)
  t.equal(few.headers.get('content-length'), '10')
  t.equal(await few.text(), '[{"id":0}]')
  t.equal(await (await fetch(`${url}/none`)).text(), '[]')
  const field = await fetch(`${url}/field`)
  t.equal(field.headers.get('content-length'), null, 'nor is a long list that is a field')
  t.same(await field.json(), { total: 50, note: '"', rows })
  t.equal(await (await fetch(`${url}/only`)).text(), '{"rows":[{"id":1}]}')
  t.equal((await fetch(`${url}/rows`, { method: 'HEAD' })).status, 200)
})

const ask = (path: string, client: string) =>
  requestText('GET', path, { 'X-Forwarded-For': client, Connection: 'close' })

t.test('unread answers are bounded in bytes, per address and in all', async (t) => {
  for (const path of ['/rows', '/text']) {
    const { url } = await serve(t, { all: 2.5 * size, perNetwork: 1.5 * size, timeoutMs: NEVER })
    const statusFor = async (client: string) =>
      (await fetch(`${url}${path}`, { headers: { 'X-Forwarded-For': client } })).status
    const first = rawClient(t, url, ask(path, '192.0.2.1'), { reads: false })
    await until('the address has its share', async () => (await statusFor('192.0.2.1')) === 429)
    t.equal(await statusFor('192.0.2.2'), 200, 'another address has its own share')
    t.equal((await fetch(`${url}/few`, { headers: { 'X-Forwarded-For': '192.0.2.1' } })).status, 200)

    rawClient(t, url, ask(path, '192.0.2.2'), { reads: false })
    await until('all together have what there is', async () => (await statusFor('192.0.2.3')) === 503)
    await until('who does not read loses the place', async () => (await statusFor('192.0.2.1')) === 200)
    first.socket.resume()
    await first.closed()
  }
})

t.test('a connection with an unread answer is closed; a slowly reading one continues', async (t) => {
  const { url, connections } = await serve(t, { ...ROOMY, timeoutMs: 1500 })
  const silent = rawClient(t, url, ask('/rows', '192.0.2.1'), { reads: false })
  const slow = rawClient(t, url, ask('/rows', '192.0.2.1'))
  slow.socket.on('data', () => {
    slow.socket.pause()
    setTimeout(() => slow.socket.resume(), 5)
  })
  await slow.got(/\r\n0\r\n\r\n$/)
  t.ok(slow.text().length > size)
  // A client that does not read is not told that it was disconnected.
  await until('both connections are gone', async () => (await connections()) === 0)
  let received = 0
  silent.socket.on('data', (part) => {
    received += part.length
  })
  await silent.closed()
  t.ok(received < size, `${received} of ${size} bytes came`)
})
