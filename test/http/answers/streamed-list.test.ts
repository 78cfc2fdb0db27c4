import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import Fastify from 'fastify'
import t from 'tap'
import { sendStreamedList } from '../../../src/http/answers/streamed-list.ts'
import { until } from '../../until.ts'

type Parts = AsyncIterable<{ n: number }[]>

/** A server with one route that sends these parts. */
async function serve(test: Pick<typeof t, 'teardown'>, parts: () => Parts): Promise<string> {
  const app = Fastify()
  app.get('/', async (_request, reply) => {
    sendStreamedList(reply, parts())
    return reply
  })
  test.teardown(() => app.close())
  return app.listen({ host: '127.0.0.1', port: 0 })
}

/** Enough rows for a part that does not fit into a socket's buffer. */
const large = Array.from({ length: 20_000 }, (_, n) => ({ n }))

async function answerOf(url: string): Promise<IncomingMessage> {
  const request = get(url)
  const [answer]: IncomingMessage[] = await once(request, 'response')
  if (answer === undefined) throw new Error('no answer')
  return answer
}

t.test('several parts give one array', async (t) => {
  const url = await serve(t, async function* () {
    yield [{ n: 1 }, { n: 2 }]
    yield []
    yield [{ n: 3 }]
  })
  const answer = await fetch(url)
  t.equal(answer.headers.get('Content-Type'), 'application/json; charset=utf-8')
  t.equal(await answer.text(), '[{"n":1},{"n":2},{"n":3}]')
})

t.test('no rows give an empty array', async (t) => {
  const url = await serve(t, async function* () {})
  t.equal(await (await fetch(url)).text(), '[]')
})

t.test('an error before the first row gives a normal error answer', async (t) => {
  // biome-ignore lint/correctness/useYield: it fails before it has anything
  const url = await serve(t, async function* () {
    throw new Error('the store is away')
  })
  t.equal((await fetch(url)).status, 500)
})

t.test('an error in the middle breaks the connection', async (t) => {
  const url = await serve(t, async function* () {
    yield large
    throw new Error('the store is away')
  })
  const answer = await fetch(url)
  t.equal(answer.status, 200)
  await t.rejects(answer.text())
})

t.test('reading stops while the client reads nothing, and ends when the client goes away', async (t) => {
  let read = 0
  let ended = false
  const url = await serve(t, async function* () {
    try {
      for (;;) {
        read += 1
        yield large
      }
    } finally {
      ended = true
    }
  })
  const answer = await answerOf(url)
  let before = -1
  await until('the reading has paused', async () => {
    const still = read === before
    before = read
    return still
  })
  // Maximum bytes in the socket buffers of both sides.
  t.ok(read * JSON.stringify(large).length < 32e6, `${read} parts were read`)
  answer.destroy()
  await until('the reading has ended', async () => ended)
})
