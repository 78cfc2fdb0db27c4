import t from 'tap'
import { startTestServer } from '../start-server.ts'
import { rawClient, requestText } from './raw-client.ts'

const server = await startTestServer(t)

/** The status and the JSON of an answer. */
function parsed(answer: string): { status: number; body: unknown } {
  const [head = '', body = ''] = answer.split('\r\n\r\n')
  return { status: Number(head.split(' ')[1]), body: JSON.parse(body) }
}

t.test('a request that is not HTTP, or has too large a head, gets the body of every error', async (t) => {
  const url = `${server.url}/api/docs`
  const cases: [string, number][] = [
    ['GET /api/v1/caf\xe9 HTTP/1.1\r\nHost: a\r\n\r\n', 400],
    ['nonsense\r\n\r\n', 400],
    ['POST /api/v1/user/repos HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n', 400],
    [requestText('GET', '/api/v1/user', { 'X-A': 'x'.repeat(20_000) }), 431],
  ]
  for (const [text, status] of cases) {
    const client = rawClient(t, server.url)
    client.socket.write(Buffer.from(text, 'latin1'))
    await client.closed()
    t.match(parsed(client.text()), { status, body: { message: /./, url } }, text.slice(0, 60))
  }
})

t.test('an Expect header that nobody knows is ignored', async (t) => {
  const client = rawClient(
    t,
    server.url,
    requestText('GET', '/healthz', { Expect: '200-maybe', Connection: 'close' }),
  )
  await client.closed()
  t.match(client.text(), /^HTTP\/1\.1 (200|503) [\s\S]*"readModels"/)
})
