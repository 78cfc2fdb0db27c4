import Fastify from 'fastify'
import t from 'tap'
import { registerErrors } from '../../../src/http/answers/errors.ts'
import { limitProxiedRequests } from '../../../src/http/connections/proxied-requests.ts'
import { until } from '../../until.ts'

t.test('line 1: behind a trusted proxy, the open requests of a client are limited', async (t) => {
  const app = Fastify({ trustProxy: (address: string) => address === '127.0.0.1' })
  registerErrors(app, () => '')
  limitProxiedRequests(app, { all: 4, perNetwork: 2 }, (address) => address === '127.0.0.1')
  const waiting: (() => void)[] = []
  app.get('/held', () => new Promise((resolve) => waiting.push(() => resolve({}))))
  app.get('/short', async () => ({}))
  t.teardown(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const ask = (path: string, client?: string) =>
    fetch(`${url}${path}`, client === undefined ? {} : { headers: { 'x-forwarded-for': client } })

  const held = [ask('/held', '192.0.2.1'), ask('/held', '2001:db8::1'), ask('/held', '2001:db8::2')]
  await until('they are being answered', async () => waiting.length === 3)
  const refused = await ask('/short', '203.0.113.9, 2001:db8::3')
  t.match({ status: refused.status, retry: refused.headers.get('retry-after') }, { status: 429, retry: '1' })
  t.equal((await ask('/short', '192.0.2.1')).status, 200, 'another client')
  t.equal((await ask('/short')).status, 200, 'the proxy itself')
  const fourth = ask('/held', '192.0.2.1')
  await until('they are being answered', async () => waiting.length === 4)
  t.equal((await ask('/short', '192.0.2.2')).status, 503, 'all together have too many')
  t.equal((await ask('/short')).status, 200)
  for (const answer of waiting) answer()
  for (const answer of await Promise.all([...held, fourth])) t.equal(answer.status, 200)
  await until('there is room again', async () => (await ask('/short', '2001:db8::3')).status === 200)
})
