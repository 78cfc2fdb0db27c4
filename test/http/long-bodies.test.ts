import Fastify from 'fastify'
import t from 'tap'
import { registerErrors } from '../../src/http/errors.ts'
import { LONG_BODY, takeTurnsWithLongBodies } from '../../src/http/long-bodies.ts'
import { until } from '../until.ts'

t.test('requests with long bodies are worked on one at a time for each client', async (t) => {
  const app = Fastify({ forceCloseConnections: true })
  registerErrors(app, () => '/docs')
  takeTurnsWithLongBodies(app, ({ headers }) => `${headers['x-client']}`)
  const running = new Map<string, (() => void)[]>()
  app.post('/', async ({ headers }) => {
    const client = `${headers['x-client']}`
    await new Promise<void>((resolve) => running.set(client, [...(running.get(client) ?? []), resolve]))
    return {}
  })
  t.teardown(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const post = async (client: string, length: number, signal: AbortSignal | null = null) => {
    const headers = { 'Content-Type': 'application/json', 'X-Client': client }
    return (await fetch(url, { method: 'POST', headers, body: JSON.stringify('x'.repeat(length)), signal }))
      .status
  }
  const runningFor = (client: string) => running.get(client)?.length ?? 0

  const first = post('mallory', LONG_BODY)
  await until('it runs', async () => runningFor('mallory') === 1)
  const gone = new AbortController()
  const given = t.rejects(post('mallory', LONG_BODY, gone.signal), { name: 'AbortError' })
  const second = post('mallory', LONG_BODY)
  const short = post('mallory', 10)
  const other = post('alice', LONG_BODY)
  await until('a short one and that of another client do not wait', async () => {
    return runningFor('mallory') === 2 && runningFor('alice') === 1
  })
  gone.abort()
  await given

  const many = Array.from({ length: 40 }, () => post('mallory', LONG_BODY))
  t.equal(await Promise.race(many), 429, 'not more may wait than there are places')
  t.equal(runningFor('mallory'), 2)
  const finishing = setInterval(() => {
    for (const finish of [...running.values()].flat()) finish()
  }, 5)
  t.teardown(() => clearInterval(finishing))
  t.strictSame(await Promise.all([first, second, short, other]), [200, 200, 200, 200])
  const statuses = await Promise.all(many)
  t.ok(statuses.every((status) => status === 200 || status === 429))
  t.ok(statuses.includes(200))
})
