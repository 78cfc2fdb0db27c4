import { once } from 'node:events'
import { connect } from 'node:net'
import Fastify from 'fastify'
import t from 'tap'
import { limitConnections } from '../../src/http/connections.ts'

const HOUR_MS = 3_600_000

t.test('when the app closes, it waits for answers and for no connection without a request', async (t) => {
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
