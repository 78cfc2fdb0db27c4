/** Limits of clients: connections, time and memory. */
import t from 'tap'
import { basic } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { type RawClient, rawClient, requestText } from './raw-client.ts'

const server = await startTestServer(t, {
  MAX_CONNECTIONS_PER_ADDRESS: '20',
  MAX_CONNECTIONS: '30',
  MAX_UNREAD_BYTES: '32MiB',
})
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'app' })

const authorization = basic('alice')
const JSON_HEADERS = { Authorization: authorization, 'Content-Type': 'application/json' }

t.test('a slow or missing header or body ends the connection with 408', async (t) => {
  const server = await startTestServer(t, { REQUEST_TIMEOUT_MS: '3000' })
  await (await server.as('alice')).user.createCurrentUserRepo({ name: 'app' })
  const post = (headers: Record<string, string>, body: string) =>
    rawClient(t, server.url, requestText('POST', '/api/v1/user/repos', { ...JSON_HEADERS, ...headers }, body))
  const clients = {
    'half a head': rawClient(t, server.url, 'GET /api/v1/version HTTP/1.1\r\nHost: a\r\nX-'),
    'half a body': post({ 'Content-Length': '5000' }, '{"n'),
    'half a chunked body': post({ 'Transfer-Encoding': 'chunked' }, '3\r\n{"n\r\n'),
    "half a body of git's type": post(
      { 'Content-Length': '5000', 'Content-Type': 'application/x-git-upload-pack-request' },
      '{"n',
    ),
    'half a form': rawClient(
      t,
      server.url,
      requestText(
        'POST',
        '/api/v1/repos/alice/app/issues/comments/1/assets',
        {
          Authorization: authorization,
          'Content-Type': 'multipart/form-data; boundary=x',
          'Content-Length': '9000',
        },
        '--x\r\n',
      ),
    ),
  }
  const dripping = setInterval(() => {
    for (const [what, { socket }] of Object.entries(clients)) {
      if (socket.writable) socket.write(what === 'half a chunked body' ? '1\r\nx\r\n' : 'x')
    }
  }, 100)
  t.teardown(() => clearInterval(dripping))
  for (const [what, client] of Object.entries(clients)) {
    await client.closed()
    if (!what.includes('form') && !what.includes('type')) t.match(client.text(), /^HTTP\/1\.1 408 /, what)
  }
  const silent = rawClient(t, server.url)
  await silent.closed()
  t.equal((await server.fetch('alice', '/api/v1/user')).status, 200)
})

t.test(
  'connections are limited per address, and a new one evicts the one that is idle longest',
  async (t) => {
    const from = '127.0.0.2'
    const idle: RawClient[] = []
    for (let i = 0; i < 20; i++) {
      const client = rawClient(t, server.url, requestText('GET', '/api/v1/repos/alice/app'), { from })
      await client.got(/"full_name":"alice\/app"/)
      idle.push(client)
    }
    t.ok(idle.every((client) => !client.isClosed()))
    const next = rawClient(t, server.url, requestText('GET', '/api/v1/repos/alice/app'), { from })
    await next.got(/"full_name":"alice\/app"/)
    await idle[0]?.closed()
    t.equal(idle.filter((client) => client.isClosed()).length, 1)
    t.equal((await server.fetch('alice', '/api/v1/user')).status, 200, 'others are not concerned')

    // A stream of events is a request without an end.
    const live = '/api/v1/repos/alice/app/history'
    const others = ['127.0.0.3', '127.0.0.4', '127.0.0.5'].flatMap((address) =>
      Array.from({ length: 5 }, () =>
        rawClient(t, server.url, requestText('GET', live, { Accept: 'text/event-stream' }), {
          from: address,
        }),
      ),
    )
    for (const other of others) await other.got(/retry: /)
    await until('the address with most connections loses some, since there are too many', async () => {
      return idle.filter((client) => client.isClosed()).length > 1
    })
    t.equal(others.filter((client) => client.isClosed()).length, 0)
  },
)

t.test('requests sent before the answers of many others end the connection', async (t) => {
  const get = requestText('GET', '/api/v1/repos/alice/app')
  const few = rawClient(t, server.url, get.repeat(10), { from: '127.0.0.6' })
  await until('ten answers', async () => few.text().split('"full_name":"alice/app"').length === 11)
  const many = rawClient(t, server.url, get.repeat(1000), { from: '127.0.0.6' })
  await many.closed()
  t.ok(many.text().split('HTTP/1.1').length < 100)
  t.equal((await server.fetch('alice', '/api/v1/user')).status, 200)
})

t.test('a huge header gives 431, and thousands of parameters no failure', async (t) => {
  const long = rawClient(t, server.url, requestText('GET', `/api/v1/user?q=${'x'.repeat(20_000)}`))
  await long.got(/^HTTP\/1\.1 431 /)
  const header = rawClient(t, server.url, requestText('GET', '/api/v1/user', { 'X-A': 'x'.repeat(20_000) }))
  await header.got(/^HTTP\/1\.1 431 /)
  const many = Array.from({ length: 5000 }, (_, i) => `a${i % 7}`).join('&')
  t.equal((await server.fetch('alice', `/api/v1/repos/alice/app/issues?${many}`)).status, 200)
  const labels = 'labels=1&'.repeat(1500)
  t.equal((await server.fetch('alice', `/api/v1/repos/alice/app/pulls?${labels}`)).status, 200)
  t.equal((await server.fetch('alice', `/api/v1/repos/alice/app/issues?${labels}`)).status, 422)
})

t.test('bodies in transit are bounded in bytes, for each address', async (t) => {
  const from = '127.0.0.7'
  const post = requestText(
    'POST',
    '/api/v1/user/repos',
    { ...JSON_HEADERS, 'Content-Length': `${4 * 2 ** 20}` },
    '{',
  )
  const waiting = [1, 2].map(() => rawClient(t, server.url, post, { from }))
  await until('the address has its share', async () => {
    const third = rawClient(t, server.url, `${post}${' '.repeat(4 * 2 ** 20 - 1)}`, { from })
    await until('an answer', async () => third.text() !== '' || third.isClosed())
    return /^HTTP\/1\.1 429 /.test(third.text())
  })
  for (const client of waiting) client.socket.destroy()
})

t.test('a body in very many small chunks gives 413 and ends its connection, on any route', async (t) => {
  const chunked = (type: string) => ({
    Authorization: authorization,
    'Content-Type': type,
    'Transfer-Encoding': 'chunked',
  })
  const chunks = (count: number, text: string) => `${text.length.toString(16)}\r\n${text}\r\n`.repeat(count)
  const bodies: Record<string, string> = {
    '/api/v1/user/repos': 'application/json',
    '/api/v1/repos/alice/app/contents': 'application/json',
    '/api/v1/markdown/raw': 'text/plain',
    '/alice/app.git/git-upload-pack': 'application/x-git-upload-pack-request',
    '/alice/app.git/git-receive-pack': 'application/x-git-receive-pack-request',
    '/api/v1/repos/alice/app/issues/1/assets': 'multipart/form-data; boundary=x',
    '/alice/nowhere': 'text/plain',
  }
  for (const [path, type] of Object.entries(bodies)) {
    const text = requestText('POST', path, chunked(type), chunks(100_000, ' '))
    const client = rawClient(t, server.url, text, { from: '127.0.0.8' })
    await client.closed()
    // A request that is refused before its end is answered immediately.
    t.match(client.text(), /^HTTP\/1\.1 (413|404|400) /, path)
  }
  const create = (name: string, spaces: string) =>
    rawClient(
      t,
      server.url,
      requestText(
        'POST',
        '/api/v1/user/repos',
        chunked('application/json'),
        `${spaces}${chunks(1, `{"name":"${name}"}`)}0\r\n\r\n`,
      ),
      { from: '127.0.0.8' },
    )
  await create('pieces', chunks(900, ' ')).got(/^HTTP\/1\.1 201 /)
  await create('lines', chunks(20_000, ' '.repeat(80))).got(/^HTTP\/1\.1 201 /)
  await create('many', chunks(2000, ' ')).got(/^HTTP\/1\.1 413 /)
})

t.test('deeply nested JSON with an Idempotency-Key gives 400', async (t) => {
  const nested = (depth: number) => `${'[{"a":'.repeat(depth / 2)}1${'}]'.repeat(depth / 2)}`
  const post = (path: string, value: string, key?: string) =>
    server.fetch('alice', `/api/v1${path}`, {
      method: 'POST',
      body: `{"title":"deep","body":${value}}`,
      headers: key === undefined ? {} : { 'Idempotency-Key': key },
    })
  for (const key of [undefined, 'deep']) {
    for (const depth of [40, 10_000, 500_000]) {
      const answer = await post('/repos/alice/app/issues', nested(depth), key)
      t.equal(answer.status, 400, `${depth} levels`)
      t.match(await answer.json(), {
        message: 'body: is nested more than 32 levels deep',
        errors: [/^body: /],
      })
    }
  }
  const notSoDeep = await post('/repos/alice/app/issues', nested(30), 'not so deep')
  t.match(await notSoDeep.json(), { errors: ['body: must be string'] })
  const brackets = JSON.stringify('[{'.repeat(1000).concat('"\\'))
  t.equal((await post('/repos/alice/app/issues', brackets, 'in a text')).status, 201)
})

t.test('a list of long texts keeps its rows, its total and its links', async (t) => {
  await alice.user.createCurrentUserRepo({ name: 'long' })
  const body = '\u0001'.repeat(65_536)
  for (let i = 0; i < 3; i++) await alice.repos.issueCreateIssue('alice', 'long', { title: `${i}`, body })
  const answer = await server.fetch(null, '/api/v1/repos/alice/long/issues?limit=2')
  t.equal(answer.headers.get('x-total-count'), '3')
  t.match(answer.headers.get('link'), /page=2.*rel="next"/)
  const list: unknown = await answer.json()
  t.match(list, [
    { title: '2', body },
    { title: '1', body },
  ])
})

t.test(
  'unread answers: a page is produced as far as it is read, one page of a connection at a time',
  async (t) => {
    const server = await startTestServer(t)
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'long' })
    const body = '\u20ac'.repeat(65_000)
    const rows = 40
    for (let i = 0; i < rows; i++)
      await alice.repos.issueCreateIssue('alice', 'long', { title: `${i}`, body })
    const { issues } = server.services.views
    const { get } = issues
    let read = 0
    issues.get = (id) => {
      read += 1
      return get(id)
    }
    const path = '/api/v1/repos/alice/long/issues?limit=50'
    const silent = rawClient(t, server.url, requestText('GET', path).repeat(10), {
      reads: false,
      from: '127.0.0.2',
    })
    await until('the page begins', async () => read > 0)
    const { data: list } = await alice.repos.issueListIssues('alice', 'long', { limit: 50 })
    t.equal(list.length, rows, 'who reads gets all rows')
    t.ok(list.every((issue) => issue.body === body))
    t.strictSame(
      list.map(({ title }) => Number(title)),
      Array.from({ length: rows }, (_, i) => rows - 1 - i),
    )
    // The system's buffers take one page, perhaps a bit more. The rest is not read for a client that does not read.
    t.ok(read <= 4 * rows, `${read} of ${11 * rows} rows were read`)
    silent.socket.destroy()
  },
)

t.test('api.paging.2: a list that fits one page still sends Link, first and last', async (t) => {
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'One', body: '' })
  await alice.repos.issueCreateComment('alice', 'app', 1, { body: 'Hm' })
  const lists = [
    '/repos/alice/app/issues',
    '/repos/alice/app/issues?limit=7',
    '/repos/alice/app/issues/1/comments',
    '/repos/alice/app/issues/1/labels',
    '/repos/alice/app/issues/1/timeline',
    '/repos/alice/app/issues/1/history',
    '/repos/alice/app/issues/comments/1/assets',
    '/repos/alice/app/branch_protections',
    '/repos/alice/app/labels',
    '/repos/alice/app/pulls',
    '/users/alice/repos',
    '/user/repos',
  ]
  for (const path of lists) {
    const { status, headers } = await server.fetch('alice', `/api/v1${path}`)
    t.equal(status, 200, path)
    t.match(headers.get('x-total-count'), /^\d+$/, path)
    const links = headers.get('link') ?? ''
    t.strictSame(
      [...links.matchAll(/rel="(\w+)"/g)].map(([, rel]) => rel),
      ['first', 'last'],
      path,
    )
    for (const [, link = ''] of links.matchAll(/<([^>]+)>/g)) {
      t.equal((await server.fetch('alice', link.slice(server.url.length))).status, 200, link)
    }
  }
})

t.test('the 422 of a blank title carries errors, as every validation error does', async (t) => {
  const blank: [string, object, string][] = [
    ['/repos/alice/app/issues', { title: ' ' }, 'title: must not be empty'],
    ['/repos/alice/app/issues/1/comments', { body: ' ' }, 'body: must not be empty'],
    [
      '/repos/alice/app/labels',
      { name: 'x', color: 'no colour' },
      'color: must be #rrggbb or #rgb, in hexadecimal',
    ],
    ['/repos/alice/app/milestones', { title: '' }, 'title: must not be empty'],
  ]
  for (const [path, body, reason] of blank) {
    const answer = await server.fetch('alice', `/api/v1${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
    })
    t.equal(answer.status, 422, path)
    t.match(await answer.json(), { message: reason, errors: [reason] }, path)
  }
})
