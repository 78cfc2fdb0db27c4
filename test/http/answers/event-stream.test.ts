import { once as event, getEventListeners } from 'node:events'
import { get } from 'node:http'
import Fastify from 'fastify'
import t from 'tap'
import { Refused, refuse } from '../../../src/errors/refusal.ts'
import { registerErrors } from '../../../src/http/answers/errors.ts'
import {
  type Beginning,
  requestedBeginning,
  requireExistingBeginning,
  type StreamedEvent,
  sendEventStream,
} from '../../../src/http/answers/event-stream.ts'
import { preferredType } from '../../../src/http/answers/media-type.ts'

type Test = Pick<typeof t, 'teardown'>

/** A server whose `/` streams these batches, and the start position of the last client. `last` is the last id. */
async function serve(t: Test, batches: () => AsyncIterable<readonly StreamedEvent[]>, last = 1000) {
  const app = Fastify()
  const ending = new AbortController()
  let beginning: Beginning | undefined
  registerErrors(app, () => '/docs')
  app.get<{ Querystring: { after?: string } }>('/', async (request, reply) => {
    beginning = requestedBeginning(request, request.query.after)
    await requireExistingBeginning(request, beginning, async () => last)
    sendEventStream(request, reply, batches, ending.signal)
    return reply
  })
  const url = await app.listen({ port: 0 })
  t.teardown(async () => {
    ending.abort()
    app.server.closeAllConnections()
    await app.close()
  })
  return { url, app, ending, beginning: () => beginning }
}

const once = (...batches: StreamedEvent[][]) =>
  async function* () {
    yield* batches
  }

t.test('events come with their ids, and an empty batch comes as a comment', async (t) => {
  const { url } = await serve(t, once([{ id: 0, data: '{"a":1}' }], [], [{ id: 7, data: '"b"' }]))
  const answer = await fetch(url)
  t.equal(answer.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  t.equal(answer.headers.get('cache-control'), 'no-store')
  t.equal(answer.headers.get('x-accel-buffering'), 'no')
  t.equal(await answer.text(), 'retry: 2000\n\nid: 0\ndata: {"a":1}\n\n:\n\nid: 7\ndata: "b"\n\n')
})

t.test('HEAD gets the headers, and no iteration starts', async (t) => {
  let begun = false
  const { url } = await serve(t, async function* () {
    begun = true
    yield []
  })
  const answer = await fetch(url, { method: 'HEAD' })
  t.equal(answer.status, 200)
  t.match(answer.headers.get('content-type'), /^text\/event-stream/)
  t.notOk(begun)
})

t.test('Last-Event-ID wins over the query, and an empty one is ignored', async (t) => {
  const { url, beginning } = await serve(t, once())
  const cases: [string, string | undefined, Beginning][] = [
    ['', undefined, 'first'],
    ['?after=', undefined, 'first'],
    ['?after=now', undefined, 'now'],
    ['?after=0', undefined, 0],
    ['?after=now', '12', 12],
    ['?after=3', '', 3],
  ]
  for (const [query, id, expected] of cases) {
    await (
      await fetch(`${url}/${query}`, { headers: id === undefined ? {} : { 'last-event-id': id } })
    ).text()
    t.equal(beginning(), expected, `${query} ${id}`)
  }
  for (const odd of ['x', '-1', '1 2', '9007199254740992']) {
    t.equal((await fetch(url, { headers: { 'last-event-id': odd } })).status, 422)
    t.equal((await fetch(`${url}/?after=${odd}`)).status, 422)
  }
  t.equal((await fetch(url, { headers: { 'last-event-id': 'now' } })).status, 422)
})

t.test('beginning after an event that does not exist is refused', async (t) => {
  const refused = async (url: string, id?: string) => {
    const answer = await fetch(url, { headers: id === undefined ? {} : { 'last-event-id': id } })
    return { status: answer.status, body: answer.status === 200 ? await answer.text() : await answer.json() }
  }
  const { url } = await serve(t, once(), 7)
  t.match(await refused(`${url}/?after=7`), { status: 200 })
  t.match(await refused(url, '7'), { status: 200 })
  t.match(await refused(`${url}/?after=now`), { status: 200 })
  t.match(await refused(`${url}/?after=8`), {
    status: 422,
    body: { errors: ['after: there is no such event; the last is 7'] },
  })
  t.match(await refused(`${url}/?after=now`, '9007199254740991'), {
    status: 422,
    body: { errors: ['Last-Event-ID: there is no such event; the last is 7'] },
  })
  const empty = await serve(t, once(), -1)
  t.match(await refused(`${empty.url}/?after=0`), { status: 422, body: { message: /there are none yet$/ } })
  t.match(await refused(empty.url), { status: 200 })
})

t.test(
  'a client that is refused for too many followers gets Retry-After, and the log has no error',
  async (t) => {
    const logged: { level: number; msg: string; err?: unknown }[] = []
    const stream = { write: (line: string) => logged.push(JSON.parse(line)) }
    const app = Fastify({ logger: { level: 'info', stream } })
    t.teardown(() => app.close())
    registerErrors(app, () => '/docs')
    app.get<{ Params: { kind: 'unavailable' | 'tooManyRequests' } }>('/:kind', async ({ params }) => {
      throw new Refused(refuse[params.kind]('too many follow'))
    })
    for (const [kind, status] of [
      ['unavailable', 503],
      ['tooManyRequests', 429],
    ] as const) {
      const answer = await app.inject(`/${kind}`)
      t.equal(answer.statusCode, status)
      t.match(answer.headers['retry-after'], /^[1-9]\d*$/)
    }
    t.ok(logged.some(({ msg }) => msg === 'too many follow'))
    t.strictSame(
      logged.filter(({ level, err }) => level > 30 || err !== undefined),
      [],
    )
  },
)

t.test('batches are read only as fast as the client reads, and not after it has gone away', async (t) => {
  let asked = 0
  const { promise: ended, resolve: over } = Promise.withResolvers<void>()
  const data = JSON.stringify('x'.repeat(1_000_000))
  const { url } = await serve(t, async function* () {
    try {
      for (let id = 0; id < 1000; id++) {
        asked += 1
        yield [{ id, data }]
      }
    } finally {
      over()
    }
  })
  const abort = new AbortController()
  const answer = await fetch(url, { signal: abort.signal })
  await answer.body?.getReader().read()
  abort.abort()
  await ended
  t.ok(asked < 100, `${asked} of 1000 MB were asked for`)
})

t.test('a client that reads nothing does not delay the end of the server', async (t) => {
  const data = JSON.stringify('x'.repeat(1_000_000))
  const { url, app, ending } = await serve(t, async function* () {
    for (let id = 0; id < 1000; id++) yield [{ id, data }]
  })
  const answer = await fetch(url)
  t.equal(answer.status, 200)
  ending.abort()
  await app.close()
  await t.rejects(answer.text(), 'the stream breaks off')
})

t.test(
  'Accept: the type with the largest weight wins, or the first offered one of several equals',
  async (t) => {
    const offered = ['application/json', 'application/x-ndjson', 'text/event-stream'] as const
    const cases: [string | undefined, string][] = [
      [undefined, 'application/json'],
      ['', 'application/json'],
      ['*/*', 'application/json'],
      ['image/png', 'application/json'],
      ['text/event-stream', 'text/event-stream'],
      ['application/x-ndjson, */*;q=0.1', 'application/x-ndjson'],
      ['application/json;q=0, application/*', 'application/x-ndjson'],
      ['text/event-stream;q=x', 'application/json'],
      [',,;;q=;=', 'application/json'],
    ]
    for (const [accept, type] of cases) t.equal(preferredType(accept, offered), type, `${accept}`)
  },
)

t.test('Accept: a type that must be named does not match any *', async (t) => {
  const offered = ['application/json', 'application/x-ndjson', 'text/event-stream'] as const
  const cases: [string, string][] = [
    ['*/*', 'application/json'],
    ['text/*', 'application/json'],
    ['text/*, application/json;q=0.5', 'application/json'],
    ['text/html, text/*;q=0.9', 'application/json'],
    ['application/json;q=0, */*', 'application/x-ndjson'],
    ['text/event-stream', 'text/event-stream'],
    ['TEXT/Event-Stream;q=0.2', 'text/event-stream'],
    ['text/event-stream, */*;q=0.1', 'text/event-stream'],
    ['text/event-stream;q=0.5, */*', 'application/json'],
  ]
  for (const [accept, type] of cases) {
    t.equal(preferredType(accept, offered, ['text/event-stream']), type, accept)
  }
})

t.test('a client that went away before its stream began leaves nothing behind', async (t) => {
  const app = Fastify()
  const ending = new AbortController()
  const { promise: isBegun, resolve: begun } = Promise.withResolvers<void>()
  const isSent = new Promise<void>((resolve) => {
    app.get('/', async (request, reply) => {
      begun()
      await event(reply.raw, 'close')
      sendEventStream(request, reply, once([]), ending.signal)
      resolve()
      return reply
    })
  })
  const url = await app.listen({ port: 0 })
  t.teardown(() => app.close())
  const leaving = get(url)
  leaving.on('error', () => {})
  await isBegun
  leaving.destroy()
  await isSent
  t.strictSame(getEventListeners(ending.signal, 'abort'), [])
})
