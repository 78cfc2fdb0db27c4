import Fastify from 'fastify'
import t from 'tap'
import { registerErrors } from '../../../src/http/answers/errors.ts'
import { refuseCrossSite } from '../../../src/http/requests/cross-site.ts'
import { basic } from '../../server-template.ts'
import { startTestServer } from '../../start-server.ts'

const FOREIGN: Record<string, string>[] = [
  { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' },
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site', origin: 'https://evil.example' },
  { 'sec-fetch-site': '' },
  { origin: 'https://evil.example' },
  { origin: 'null' },
  { origin: '' },
  { origin: 'http://127.0.0.1:1' },
  { origin: 'http://127.0.0.1.evil.example' },
]

t.test(
  'state-changing requests that a browser sends across sites are refused, whatever they carry',
  async (t) => {
    const server = await startTestServer(t)
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'app' })
    await alice.repos.issueCreateIssue('alice', 'app', { title: 'One' })
    await alice.repos.issueCreateComment('alice', 'app', 1, { body: 'Hm' })
    const form = new FormData()
    form.set('attachment', new File(['x'], 'a.txt'))
    const changes: [method: string, path: string, init: RequestInit][] = [
      ['POST', '/api/v1/user/repos', { body: '{"name":"other"}' }],
      ['POST', '/api/v1/user/repos', { body: '{"name":"other"}', headers: { 'content-type': 'text/plain' } }],
      [
        'POST',
        '/api/v1/user/repos',
        { body: 'name=x', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
      ],
      ['POST', '/api/v1/repos/alice/app/issues/comments/1/assets', { body: form }],
      ['POST', '/api/v1/repos/alice/app/forks', {}],
      ['PATCH', '/api/v1/repos/alice/app', { body: '{"private":false}' }],
      ['PUT', '/api/v1/repos/alice/app/collaborators/bob', {}],
      ['DELETE', '/api/v1/repos/alice/app', {}],
      [
        'POST',
        '/alice/app.git/git-receive-pack',
        { headers: { 'content-type': 'application/x-git-receive-pack-request' } },
      ],
      [
        'POST',
        '/alice/app.git/git-upload-pack',
        { headers: { 'content-type': 'application/x-git-upload-pack-request' } },
      ],
      ['POST', '/api/v1/nowhere', {}],
    ]
    const last = await server.services.events.lastPosition()
    for (const [method, path, init] of changes) {
      for (const headers of FOREIGN) {
        const answer = await server.fetch('alice', path, {
          method,
          ...init,
          headers: { ...init.headers, ...headers },
        })
        t.equal(answer.status, 403, `${method} ${path} ${JSON.stringify(headers)}`)
        // For git as plain text, because git prints it.
        const text = await answer.text()
        const said: unknown = path.includes('.git/') ? { message: text.trimEnd() } : JSON.parse(text)
        t.match(said, { message: 'a page of another site may not change anything here' })
        t.match(answer.headers.get('x-request-id'), /./)
      }
    }
    t.equal(await server.services.events.lastPosition(), last, 'nothing has changed')

    const own = [
      {},
      { 'sec-fetch-site': 'same-origin', origin: server.url },
      { 'sec-fetch-site': 'none' },
      { origin: server.url },
    ]
    for (const [i, headers] of own.entries()) {
      const body = JSON.stringify({ name: `own${i}` })
      const answer = await server.fetch('alice', '/api/v1/user/repos', { method: 'POST', body, headers })
      t.equal(answer.status, 201, JSON.stringify(headers))
    }
    for (const method of ['GET', 'HEAD']) {
      const reading = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }
      t.equal(
        (await server.fetch('alice', '/api/v1/user', { method, headers: reading })).status,
        200,
        'reading is free',
      )
    }
    const page = await server.fetch('alice', '/ui/assets/page.js', {
      headers: { authorization: basic('alice') },
    })
    t.not(page.status, 403)
  },
)

t.test('the own origin is that of PUBLIC_URL, and the requested host', async (t) => {
  const app = Fastify({ trustProxy: '10.0.0.0/8' })
  t.teardown(() => app.close())
  registerErrors(app, () => '/docs')
  refuseCrossSite(app, () => 'https://git.example.org/mergelog', ['https://app.example.org'])
  app.post('/', async () => 'done')
  const statusFor = async (headers: Record<string, string>, remoteAddress = '192.0.2.1') =>
    (await app.inject({ method: 'POST', url: '/', headers, remoteAddress })).statusCode
  t.equal(await statusFor({ host: 'inner:3000', origin: 'https://git.example.org' }), 200)
  t.equal(await statusFor({ host: 'inner:3000', origin: 'http://git.example.org' }), 403, 'another scheme')
  t.equal(await statusFor({ host: 'inner:3000', origin: 'http://inner:3000' }), 200)
  t.equal(await statusFor({ host: 'INNER:80', origin: 'http://inner' }), 200)
  t.equal(await statusFor({ host: 'inner', origin: 'http://inner:3000' }), 403)
  const trusted = { host: 'inner', origin: 'https://app.example.org', 'sec-fetch-site': 'cross-site' }
  t.equal(await statusFor(trusted), 200, 'an origin that the operator trusts')
  t.equal(await statusFor({ ...trusted, origin: 'http://app.example.org' }), 403)
  t.equal(await statusFor({ host: 'inner', origin: 'http://inner', 'sec-fetch-site': 'cross-site' }), 403)
  const forwarded = { host: 'inner', 'x-forwarded-host': 'outer.example', origin: 'http://outer.example' }
  t.equal(await statusFor(forwarded), 403, 'the client invented it')
  t.equal(await statusFor(forwarded, '10.1.2.3'), 200, 'a trusted proxy says so')
})
