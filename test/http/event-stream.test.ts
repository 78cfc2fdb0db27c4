import Fastify from 'fastify'
import t from 'tap'
import { registerErrors } from '../../src/http/errors.ts'
import {
  type Beginning,
  beginningOf,
  type StreamedEvent,
  sendEventStream,
} from '../../src/http/event-stream.ts'
import { preferredType } from '../../src/http/media-type.ts'

type Test = Pick<typeof t, 'teardown'>

/** A server whose `/` streams these batches, and that says where a client wants to begin. */
async function serve(t: Test, batches: () => AsyncIterable<readonly StreamedEvent[]>) {
  const app = Fastify()
  const ending = new AbortController()
  let beginning: Beginning | undefined
  registerErrors(app, () => '/docs')
  app.get<{ Querystring: { after?: string } }>('/', (request, reply) => {
    beginning = beginningOf(request, request.query.after)
    sendEventStream(request, reply, batches, ending.signal)
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

t.test('events come with their ids, silence as a comment', async (t) => {
  const { url } = await serve(t, once([{ id: 0, data: '{"a":1}' }], [], [{ id: 7, data: '"b"' }]))
  const answer = await fetch(url)
  t.equal(answer.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  t.equal(answer.headers.get('cache-control'), 'no-store')
  t.equal(answer.headers.get('x-accel-buffering'), 'no')
  t.equal(await answer.text(), 'retry: 2000\n\nid: 0\ndata: {"a":1}\n\n:\n\nid: 7\ndata: "b"\n\n')
})

t.test('HEAD gets the headers, and nothing is begun', async (t) => {
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

t.test('Last-Event-ID goes before the query, and an empty one is none', async (t) => {
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

t.test('no more is asked for than the client takes, and nothing after it has gone', async (t) => {
  let asked = 0
  let over = () => {}
  const ended = new Promise<void>((resolve) => {
    over = resolve
  })
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

t.test('a client that takes nothing does not hold up the end of the server', async (t) => {
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

t.test('Accept: the form with the most weight, and of equals the first that is offered', async (t) => {
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
})
