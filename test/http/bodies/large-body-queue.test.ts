import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { registerErrors } from '../../../src/http/answers/errors.ts'
import { LARGE_BODY_BYTES, queueLargeBodies } from '../../../src/http/bodies/large-body-queue.ts'
import { until } from '../../until.ts'

/** A server with one route, which works on a request until the test ends it. */
async function worker(t: Test, now?: () => number, later?: (next: () => void, ms: number) => void) {
  const app = Fastify({ forceCloseConnections: true })
  registerErrors(app, () => '/docs')
  queueLargeBodies(app, ({ headers }) => `${headers['x-client']}`, now, later)
  const running = new Map<string, (() => void)[]>()
  app.post('/', async ({ headers }) => {
    const client = `${headers['x-client']}`
    await new Promise<void>((resolve) => running.set(client, [...(running.get(client) ?? []), resolve]))
    return {}
  })
  t.teardown(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const post = async (
    client: string,
    length: number,
    signal: AbortSignal | null = null,
    type = 'application/json',
  ) => {
    const headers = { 'Content-Type': type, 'X-Client': client }
    return (await fetch(url, { method: 'POST', headers, body: JSON.stringify('x'.repeat(length)), signal }))
      .status
  }
  return { running, post }
}

t.test('requests with long bodies are handled one at a time for each client', async (t) => {
  const { running, post } = await worker(t)
  const runningFor = (client: string) => running.get(client)?.length ?? 0

  const first = post('mallory', LARGE_BODY_BYTES)
  await until('it runs', async () => runningFor('mallory') === 1)
  const gone = new AbortController()
  const given = t.rejects(post('mallory', LARGE_BODY_BYTES, gone.signal), { name: 'AbortError' })
  const second = post('mallory', LARGE_BODY_BYTES)
  const short = post('mallory', 10)
  const other = post('alice', LARGE_BODY_BYTES)
  await until('a short one and that of another client do not wait', async () => {
    return runningFor('mallory') === 2 && runningFor('alice') === 1
  })
  gone.abort()
  await given

  const many = Array.from({ length: 40 }, () => post('mallory', LARGE_BODY_BYTES))
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

t.test('a long body waits for its slot, in whatever form its content type is written', async (t) => {
  const { running, post } = await worker(t)
  const first = post('mallory', LARGE_BODY_BYTES)
  await until('it runs', async () => running.get('mallory')?.length === 1)
  const types = ['Application/JSON', 'APPLICATION/JSON;charset=utf-8', 'application/json ; charset=utf-8']
  const others = types.map((type) => post('mallory', LARGE_BODY_BYTES, null, type))
  const short = post('mallory', 10)
  await until('only a short one does not wait', async () => (running.get('mallory')?.length ?? 0) > 1)
  const other = post('alice', LARGE_BODY_BYTES)
  await until('another client is served', async () => running.get('alice')?.length === 1)
  t.equal(running.get('mallory')?.length, 2)
  const finishing = setInterval(() => {
    for (const finish of [...running.values()].flat()) finish()
  }, 5)
  t.teardown(() => clearInterval(finishing))
  t.strictSame(await Promise.all([first, ...others, short, other]), [200, 200, 200, 200, 200, 200])
})

t.test('a disconnected client holds its slot until the work is done', async (t) => {
  const { running, post } = await worker(t)
  const gone = new AbortController()
  const first = t.rejects(post('mallory', LARGE_BODY_BYTES, gone.signal), { name: 'AbortError' })
  await until('it runs', async () => running.get('mallory')?.length === 1)
  gone.abort()
  await first
  const second = post('mallory', LARGE_BODY_BYTES)
  const other = post('alice', LARGE_BODY_BYTES)
  await until('another client is served', async () => running.get('alice')?.length === 1)
  t.equal(running.get('mallory')?.length, 1, 'the first one is still being worked on')
  for (const finish of [...running.values()].flat()) finish()
  await until('the next one runs', async () => running.get('mallory')?.length === 2)
  for (const finish of [...running.values()].flat()) finish()
  t.strictSame(await Promise.all([second, other]), [200, 200])
})

t.test('after a long body its client pauses, while other clients use the server', async (t) => {
  let now = 0
  const rests: { next: () => void; ms: number }[] = []
  const { running, post } = await worker(
    t,
    () => now,
    (next, ms) => rests.push({ next, ms }),
  )
  /** Works on a request of a client for some time. */
  async function work(client: string, length: number, ms: number): Promise<void> {
    const before = running.get(client)?.length ?? 0
    const answer = post(client, length)
    await until('it runs', async () => running.get(client)?.length === before + 1)
    now += ms
    running.get(client)?.at(-1)?.()
    t.equal(await answer, 200)
  }

  await work('alice', LARGE_BODY_BYTES, 100)
  t.same(rests, [], 'nobody else was there')
  await work('bob', 10, 1)
  await work('alice', LARGE_BODY_BYTES, 100)
  t.match(rests, [{ ms: 400 }], 'four times as long as the work')
  const second = post('alice', LARGE_BODY_BYTES)
  await work('bob', LARGE_BODY_BYTES, 300)
  t.match(rests[1], { ms: 1000 }, 'a second at most')
  t.equal(running.get('alice')?.length, 2, 'it still rests')
  rests[0]?.next()
  await until('it goes on', async () => running.get('alice')?.length === 3)
  now += 2000
  running.get('alice')?.at(-1)?.()
  t.equal(await second, 200)
  t.equal(rests.length, 2, 'the others have left')
})
