import t from 'tap'
import { basic } from '../../server-template.ts'
import { startTestServer } from '../../start-server.ts'
import { rawClient, requestText } from '../raw-client.ts'

const server = await startTestServer(t)

/** The status and the JSON of an answer. */
function parsed(answer: string): { status: number; body: unknown } {
  const [head = '', body = ''] = answer.split('\r\n\r\n')
  return { status: Number(head.split(' ')[1]), body: JSON.parse(body) }
}

t.test(
  'a request that is not HTTP, has no host, or too large a header, gets the usual error body',
  async (t) => {
    const url = `${server.url}/api/docs`
    const cases: [string, number][] = [
      ['GET /api/v1/caf\xe9 HTTP/1.1\r\nHost: a\r\n\r\n', 400],
      ['nonsense\r\n\r\n', 400],
      ['GET /livez HTTP/1.1\r\n\r\n', 400],
      [`GET /livez HTTP/1.1\r\n\r\n${requestText('GET', '/livez')}`, 400],
      ['POST /api/v1/user/repos HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n', 400],
      [requestText('GET', '/api/v1/user', { 'X-A': 'x'.repeat(20_000) }), 431],
    ]
    for (const [text, status] of cases) {
      const client = rawClient(t, server.url)
      client.socket.write(Buffer.from(text, 'latin1'))
      await client.closed()
      t.match(parsed(client.text()), { status, body: { message: /./, url } }, text.slice(0, 60))
      t.notMatch(client.text(), /200 OK/)
    }
  },
)

t.test('a request of HTTP/1.0 needs no host', async (t) => {
  const client = rawClient(t, server.url, 'GET /livez HTTP/1.0\r\n\r\n')
  await client.closed()
  t.match(client.text(), /200 OK/)
})

t.test(
  'an ambiguous request (request smuggling) is refused, and the bytes after it are not read',
  async (t) => {
    const url = `${server.url}/api/docs`
    const next = requestText('GET', '/livez')
    const chunked = (coding: string, version = '1.1') =>
      `POST /api/v1/markdown/raw HTTP/${version}\r\nHost: a\r\nConnection: keep-alive\r\n` +
      `Content-Type: text/plain\r\nTransfer-Encoding: ${coding}\r\n\r\n1\r\na\r\n0\r\n\r\n${next}`
    const cases: [string, number][] = [
      [`GET /livez HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n${next}`, 400],
      [`GET /livez HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n${next}`, 400],
      [`GET /api/v1/%ff HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n${next}`, 400],
      [
        `POST /alice/a.git/git-upload-pack HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n${next}`,
        400,
      ],
      [chunked('gzip, chunked'), 501],
      [chunked('chunked\r\nTransfer-Encoding: chunked'), 400],
      [chunked('chunked', '1.0'), 400],
    ]
    for (const [text, status] of cases) {
      const client = rawClient(t, server.url, text)
      await client.closed()
      t.match(parsed(client.text()), { status, body: { message: /./, url } }, text.slice(0, 160))
      t.notMatch(client.text(), /200 OK/)
    }
  },
)

t.test('a request with two hosts is refused', async (t) => {
  const json = (body: object) => ({ method: 'POST', body: JSON.stringify(body) })
  t.equal((await server.fetch('alice', '/api/v1/user/repos', json({ name: 'kept' }))).status, 201)
  const twice = `Host: a\r\nHost: b\r\nAuthorization: ${basic('alice')}\r\n`
  const deletion = `DELETE /api/v1/repos/alice/kept HTTP/1.1\r\n${twice}\r\n`
  const body = JSON.stringify({ name: 'by-two-hosts' })
  const type = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`
  const creation = `POST /api/v1/user/repos HTTP/1.1\r\n${twice}${type}\r\n${body}`
  for (const text of [deletion, creation]) {
    const client = rawClient(t, server.url, text)
    await client.closed()
    t.match(parsed(client.text()), { status: 400 })
  }
  // Later commands of one account are executed later.
  t.equal((await server.fetch('alice', '/api/v1/user/repos', json({ name: 'later' }))).status, 201)
  t.equal((await server.fetch('alice', '/api/v1/repos/alice/kept')).status, 200)
  t.equal((await server.fetch('alice', '/api/v1/repos/alice/by-two-hosts')).status, 404)
})

t.test(
  'a path with a fragment is refused: a router would delete the resource of the part before it',
  async (t) => {
    const request = `DELETE /api/v1/repos/alice/kept/#x HTTP/1.1\r\nHost: a\r\nAuthorization: ${basic('alice')}\r\n\r\n`
    const client = rawClient(t, server.url, request)
    await client.closed()
    t.match(client.text(), /^HTTP\/1\.1 400 [\s\S]*the path must not contain #/)
    t.equal((await server.fetch('alice', '/api/v1/repos/alice/kept')).status, 200)
  },
)

t.test('one coding, chunked, is accepted in any spelling', async (t) => {
  const body = '1\r\na\r\n0\r\n\r\n'
  const headers = {
    Authorization: basic('alice'),
    'Content-Type': 'text/plain',
    'Transfer-Encoding': ' Chunked ',
    Connection: 'close',
  }
  const client = rawClient(t, server.url, requestText('POST', '/api/v1/markdown/raw', headers, body))
  await client.closed()
  t.match(client.text(), /^HTTP\/1\.1 200 [\s\S]*<p>a<\/p>/)
})

t.test('a header after a thousand others counts as one before them', async (t) => {
  const others = 'a:\r\n'.repeat(1100)
  const client = rawClient(
    t,
    server.url,
    `GET /livez HTTP/1.1\r\nHost: a\r\n${others}Host: b\r\nConnection: close\r\n\r\n`,
  )
  await client.closed()
  t.match(parsed(client.text()), { status: 400 })
  const chunks = '1\r\na\r\n'.repeat(20_000)
  const type = 'Content-Type: text/plain\r\n'
  const many = rawClient(
    t,
    server.url,
    `POST /api/v1/markdown/raw HTTP/1.1\r\nHost: a\r\n${type}${others}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`,
  )
  await many.closed()
  t.match(parsed(many.text()), { status: 413 })
})

t.test('an unknown Expect header is ignored', async (t) => {
  const client = rawClient(
    t,
    server.url,
    requestText('GET', '/healthz', { Expect: '200-maybe', Connection: 'close' }),
  )
  await client.closed()
  t.match(client.text(), /^HTTP\/1\.1 (200|503) [\s\S]*"readModels"/)
})
