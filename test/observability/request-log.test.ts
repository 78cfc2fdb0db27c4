/** One line in the log for each request; lines are not lost at an exit, and do not wait for their reader. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { gitIn } from '../git-client.ts'
import { rawClient, requestText } from '../http/raw-client.ts'
import { program } from '../program.ts'
import { basic } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { call, clientOf, QUERY } from '../upgrade/grpc-client.ts'

interface Line {
  msg: string
  reqId?: string
  route?: string
  [field: string]: unknown
}

const written: string[] = []
const server = await startTestServer(
  t,
  { LOG_LEVEL: 'info' },
  { write: (line: string) => void written.push(line) },
)
const lines = () => written.map((line): Line => JSON.parse(line))
const ofRequest = async (id: string) => {
  await until(`the line of ${id}`, () => lines().some(({ reqId }) => reqId === id))
  return lines().filter(({ reqId }) => reqId === id)
}
const fetched = async (id: string, login: string | null, path: string, init: RequestInit = {}) => {
  await server.fetch(login, path, { ...init, headers: { ...init.headers, 'x-request-id': id } })
  return ofRequest(id)
}

t.test('a request is one line at info: the user, the request, the result and the duration', async (t) => {
  const body = JSON.stringify({ name: 'app', description: 'a text of a user', auto_init: true })
  const found = await fetched('make', 'alice', '/api/v1/user/repos', { method: 'POST', body })
  t.equal(found.length, 1)
  t.match(found[0], {
    level: 30,
    msg: 'request',
    method: 'POST',
    route: '/api/v1/user/repos',
    path: '/api/v1/user/repos',
    status: 201,
    user: 'alice',
    ip: '127.0.0.1',
    ms: Number,
    bytes: Number,
    received: Number,
  })
  t.ok(Number(found[0]?.ms) > 0 && Number(found[0]?.bytes) > 500 && Number(found[0]?.received) > body.length)

  t.match(await fetched('search', null, '/api/v1/repos/issues/search?q=words+of+a+user&token=abc'), [
    { route: '/api/v1/repos/issues/search', path: '/api/v1/repos/issues/search', user: undefined },
  ])
  t.match(await fetched('none', 'bob', `/no/such/${'x'.repeat(400)}`), [{ route: 'unmatched', status: 404 }])
  t.match(
    await fetched('bad', null, '/%'),
    [{ route: 'unmatched', status: 400 }],
    'a path that cannot be decoded',
  )
  const text = written.join('')
  t.notMatch(text, /a text of a user|words|token=|password of|Basic /, 'no texts, no tokens')
  t.ok(lines().every(({ path = '' }) => String(path).length <= 300))
})

t.test('successful probes have no line at info', async (t) => {
  await server.fetch(null, '/livez', { headers: { 'x-request-id': 'probe' } })
  await fetched('after', null, '/nowhere')
  t.notOk(lines().some(({ reqId }) => reqId === 'probe'))
})

t.test('requests of git, gRPC calls, and requests that are not HTTP have lines, too', async (t) => {
  await gitIn('/', ['ls-remote', server.gitUrl('alice', 'alice/app')])
  await until('the line of git', () =>
    lines().some(({ route, status }) => route === '/:owner/:repo/info/refs' && status === 200),
  )
  await call(clientOf(t, server.grpcAddress), QUERY.sdk, 'CurrentPlan', {})
  await until('the line of gRPC', () =>
    lines().some(({ msg, method, code }) => msg === 'gRPC call' && method === 'CurrentPlan' && code === 'OK'),
  )
  t.match(
    lines().find(({ msg }) => msg === 'gRPC call'),
    { peer: /^127\.0\.0\.1:\d+$/ },
  )
  await rawClient(t, server.url, 'nonsense\r\n\r\n').closed()
  await until('the line of nonsense', () => lines().some(({ msg }) => msg === 'a request could not be read'))
})

t.test('a request whose client disconnects has a line with the reason', async (t) => {
  const headers = { Authorization: basic('alice'), Accept: 'text/event-stream', 'X-Request-Id': 'gone' }
  const client = rawClient(t, server.url, requestText('GET', '/api/v1/repos/alice/app/history', headers))
  await until('the answer begins', () => client.text().includes('200'))
  client.socket.destroy()
  t.match(await ofRequest('gone'), [
    {
      msg: 'request aborted',
      aborted: true,
      status: 200,
      route: '/api/v1/repos/:owner/:repo/history',
      user: 'alice',
    },
  ])
})

/** The log and the error output of a process. `slow`: its log is read only later. */
async function logged(way: string, { format = 'json', slow = false } = {}) {
  const child = spawn(process.execPath, [program('test/observability/log-writer'), way], {
    env: { PATH: process.env.PATH, LOG_FORMAT: format },
  })
  let out = ''
  let problems = ''
  child.stderr.on('data', (chunk) => {
    problems += chunk
  })
  if (slow) await until('it went on', () => problems.includes('went on'))
  child.stdout.on('data', (chunk) => {
    out += chunk
  })
  await once(child, 'close')
  return { out: out.split('\n').filter((line) => line !== ''), problems }
}

const numbers = (out: readonly string[]) => out.map((line): number => JSON.parse(line).n)
const all = Array.from({ length: 5000 }, (_, n) => n)
const LAST = 4999
/** More lines than one write has: some kilobytes. */
const WRITE = 200

t.test('no line is lost in an orderly stop', async (t) => {
  t.strictSame(numbers((await logged('flushed')).out), all)
})

t.test('when the process exits by itself or by an error, at most the current write is lost', async (t) => {
  for (const way of ['exit', 'error']) {
    const written = new Set(numbers((await logged(way)).out))
    const lost = all.filter((n) => !written.has(n))
    t.equal(written.size + lost.length, all.length, way)
    t.ok(written.has(LAST), `${way}: what was held is written`)
    const [first = 0, last = first] = [lost[0], lost.at(-1)]
    t.ok(lost.length < WRITE && last - first < WRITE, `${way}: ${first} to ${last}`)
  }
})

t.test('a slow reader of the log blocks nothing, and gets all of it later', async (t) => {
  // More than the buffer of a pipe.
  t.strictSame(numbers((await logged('goes on', { slow: true })).out), all)
})

t.test('LOG_FORMAT=pretty writes lines for people', async (t) => {
  const { out } = await logged('one line', { format: 'pretty' })
  t.equal(out.length, 1)
  t.match(out[0], /^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: request \{"status":200\}$/)
})
