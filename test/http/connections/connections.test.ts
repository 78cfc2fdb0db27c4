import { once } from 'node:events'
import { connect } from 'node:net'
import Fastify from 'fastify'
import t from 'tap'
import { limitConnections } from '../../../src/http/connections/connections.ts'
import { until } from '../../until.ts'
import { rawClient, requestText } from '../raw-client.ts'

const HOUR_MS = 3_600_000

t.test('a closing app waits for answers, but not for connections without a request', async (t) => {
  const app = Fastify({ keepAliveTimeout: HOUR_MS, requestTimeout: HOUR_MS })
  limitConnections(app, { all: 10, perNetwork: 10 }, () => false, new AbortController().signal)
  let finish = () => {}
  app.get('/', (_, reply) => {
    reply.hijack()
    // A head without `Connection: close`: the app does not know yet that it will close.
    reply.raw.writeHead(200, { 'content-length': 6 })
    reply.raw.write('one')
    finish = () => reply.raw.end('two')
  })
  t.teardown(() => app.close())
  const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  const unused = connect(Number(port), '127.0.0.1')
  await once(unused, 'connect')
  const asking = connect(Number(port), '127.0.0.1')
  asking.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  let received = ''
  while (!received.endsWith('one')) received += (await once(asking, 'data')).toString()

  const ended = Promise.all([once(unused.resume(), 'close'), once(asking, 'close')])
  asking.on('data', (chunk) => {
    received += chunk.toString()
  })
  const closed = app.close()
  await once(unused, 'close')
  finish()
  await Promise.all([closed, ended])
  t.match(received, /onetwo$/)
})

t.test('requests of a connection are handled one at a time, in order', async (t) => {
  const app = Fastify({ forceCloseConnections: true })
  limitConnections(app, { all: 10, perNetwork: 10 }, () => false, new AbortController().signal)
  const begun: string[] = []
  const finish = new Map<string, () => void>()
  app.all<{ Params: { name: string }; Body: unknown }>('/:name', async ({ params: { name }, body }) => {
    begun.push(name)
    await new Promise<void>((resolve) => finish.set(name, resolve))
    return { name, body }
  })
  t.teardown(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const finishNext = (name: string) => {
    finish.get(name)?.()
    return until(`${name} is answered`, async () => client.text().includes(`"name":"${name}"`))
  }

  const body = JSON.stringify('x'.repeat(200_000))
  const post = { 'Content-Type': 'application/json', 'Content-Length': `${body.length}` }
  const client = rawClient(
    t,
    url,
    [
      requestText('GET', '/a'),
      requestText('POST', '/b', post, body),
      requestText('GET', '/nowhere/at/all'),
      requestText('GET', '/c'),
      requestText('GET', '/d'),
    ].join(''),
  )
  const other = rawClient(t, url, requestText('GET', '/other'))
  await until('both connections have a request', async () => begun.length === 2)
  t.strictSame(begun.toSorted(), ['a', 'other'], 'another connection does not wait')
  finish.get('other')?.()
  await other.got(/"name":"other"/)
  await finishNext('a')
  await until('the next one begins', async () => finish.has('b'))
  t.notOk(begun.includes('c'))
  await finishNext('b')
  await until('the next one begins', async () => finish.has('c'))
  await client.got(/HTTP\/1\.1 404 /)
  t.notOk(begun.includes('d'))

  client.socket.destroy()
  await client.closed()
  finish.get('c')?.()
  const last = rawClient(t, url, requestText('GET', '/last'))
  await until('another request begins', async () => finish.has('last'))
  finish.get('last')?.()
  await last.got(/"name":"last"/)
  t.notOk(begun.includes('d'), 'nothing is done for a connection that is gone')

  const many = rawClient(t, url, requestText('GET', '/flood').repeat(17))
  await many.closed()
  t.notOk(begun.includes('flood'), 'of too many that come together, not one begins')
})
