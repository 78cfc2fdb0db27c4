/** Checks the expectations of Gitea's clients for every server. */
import { deflateSync, gzipSync } from 'node:zlib'
import type { Issue, PullRequest, Repository, User } from 'gitea-js'
import t from 'tap'
import { checkGeneratedPart } from '../generated-part.ts'
import { hostedWork } from '../hosted-work.ts'
import { basic } from '../server-template.ts'
import { type Gitea, startTestServer } from '../start-server.ts'
import { readDocumentation } from './documented.ts'
import { giteaRoutes, missingRoutes, missingRoutesTable } from './missing-routes.ts'

const server = await startTestServer(t, { CORS_ORIGINS: 'https://app.example.org', MAX_BODY_BYTES: '64KiB' })
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
const post = (path: string, init: RequestInit) =>
  server.fetch('alice', `/api/v1${path}`, { method: 'POST', ...init })
const read = async (path: string) => JSON.parse(await (await server.fetch(null, `/api/v1${path}`)).text())

t.test('the version is one of Gitea, 1.24 or later, with the version of Mergelog beside it', async (t) => {
  const { version, mergelog } = await read('/version')
  t.match(version, /^1\.(2[4-9]|[3-9]\d)\.\d+$/)
  t.match(mergelog, /^\d+\.\d+\.\d+/)
  t.match(await read('/settings/api'), {
    max_response_items: 50,
    default_paging_num: 30,
    default_git_trees_per_page: 1000,
  })
  t.match(await read('/settings/ui'), { allowed_reactions: [] })
  t.match(await read('/settings/repository'), {
    http_git_disabled: false,
    lfs_disabled: false,
    mirrors_disabled: true,
  })
  t.match(await read('/settings/attachment'), { enabled: true, max_size: 2048, max_files: 1 })
})

t.test('users have a username, and times are whole seconds', async (t) => {
  const user: User & { username?: string } = await read('/users/alice')
  t.equal(user.username, 'alice')
  const issue = JSON.parse(await (await post('/repos/alice/app/issues', { body: '{"title":"One"}' })).text())
  const repository: Repository = await read('/repos/alice/app')
  const times = [
    user.created,
    issue.created_at,
    issue.updated_at,
    repository.created_at,
    repository.updated_at,
  ]
  for (const time of times) t.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  const [{ at }] = await read(`/repos/alice/app/issues/${issue.number}/history`)
  t.match(at, /\.\d{3}Z$/, 'the history keeps milliseconds')
})

t.test('an empty body with a JSON content type is an empty object where a body is optional', async (t) => {
  const headers = { 'content-type': 'application/json' }
  const theirs = await server.fetch('bob', '/api/v1/repos/alice/app/forks', {
    method: 'POST',
    headers,
    body: '',
  })
  t.equal(theirs.status, 202)
  t.equal((await post('/repos/alice/app/issues', { headers, body: '' })).status, 422, 'where it is not')
})

t.test('compressed bodies are accepted up to the size limit', async (t) => {
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
  const send = (body: string | Uint8Array<ArrayBuffer>, more = {}) =>
    post('/repos/alice/app/issues', { headers: { ...headers, ...more }, body })
  const answer = await send(gzipSync('{"title":"Packed"}'))
  t.equal(answer.status, 201)
  const { title }: Issue = JSON.parse(await answer.text())
  t.equal(title, 'Packed')
  t.equal((await send(gzipSync(`{"title":"${'x'.repeat(10_000_000)}"}`))).status, 413)
  t.equal((await send('{"title":"Not packed"}')).status, 400)
  t.equal((await send('x', { 'content-encoding': 'zstd' })).status, 415)
})

t.test('each name of a content coding is accepted, in any case', async (t) => {
  const packed = gzipSync('{"title":"Packed"}')
  for (const [coding, body] of [
    ['GZIP', packed],
    ['x-gzip', packed],
    ['Deflate', deflateSync('{"title":"Packed"}')],
    ['identity', '{"title":"Packed"}'],
  ] as const) {
    const headers = { 'content-type': 'application/json', 'content-encoding': coding }
    t.equal((await post('/repos/alice/app/issues', { headers, body })).status, 201, coding)
  }
})

t.test('long answers are compressed on request; short answers and streams are not', async (t) => {
  await post('/repos/alice/app/issues', {
    body: JSON.stringify({ title: 'Long', body: 'word '.repeat(4000) }),
  })
  const encodingOf = async (path: string, headers: Record<string, string> = {}) => {
    const answer = await server.fetch(null, `/api/v1${path}`, {
      headers: { 'accept-encoding': 'gzip', ...headers },
    })
    const text = await answer.text()
    return { encoding: answer.headers.get('content-encoding'), vary: answer.headers.get('vary'), text }
  }
  const list = await encodingOf('/repos/alice/app/issues')
  t.equal(list.encoding, 'gzip')
  t.match(list.vary, /accept-encoding/i)
  const issues: Issue[] = JSON.parse(list.text)
  t.equal(issues[0]?.title, 'Long')
  t.equal((await encodingOf('/repos/alice/app/issues', { 'accept-encoding': 'identity' })).encoding, null)
  for (const none of ['gzip;q=0, *', '*, deflate; Q=0.0'])
    t.equal((await encodingOf('/repos/alice/app/issues', { 'accept-encoding': none })).encoding, null, none)
  for (const some of ['gzip, *;q=0', '*', 'br;q=0, *'])
    t.equal((await encodingOf('/repos/alice/app/issues', { 'accept-encoding': some })).encoding, 'gzip', some)
  t.equal((await encodingOf('/repos/alice/app')).encoding, null, 'short')
  const lines = await encodingOf('/repos/alice/app/history', { accept: 'application/x-ndjson' })
  t.equal(lines.encoding, null)
})

t.test('only pages of configured origins may use the API', async (t) => {
  const preflight = (origin: string) =>
    server.fetch(null, '/api/v1/repos/alice/app/issues', {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': 'authorization,content-type',
      },
    })
  const allowed = await preflight('https://app.example.org')
  t.equal(allowed.headers.get('access-control-allow-origin'), 'https://app.example.org')
  t.match(allowed.headers.get('access-control-allow-methods'), 'PATCH')
  t.equal(allowed.headers.get('access-control-allow-credentials'), null)
  t.equal((await preflight('https://evil.example')).headers.get('access-control-allow-origin'), null)
  const open = (origin: string) =>
    post('/repos/alice/app/issues', {
      body: '{"title":"From a page"}',
      headers: { origin, 'sec-fetch-site': 'cross-site', authorization: basic('alice') },
    })
  t.equal((await open('https://app.example.org')).status, 201)
  t.equal((await open('https://evil.example')).status, 403)
})

t.test('filters are honoured or refused, never ignored', async (t) => {
  const bob = await server.as('bob')
  const { data: repository } = await alice.repos.repoGet('alice', 'app')
  const { branch } = await hostedWork(t, server, {
    login: 'alice',
    repoId: repository.id ?? 0,
    fullName: 'alice/app',
  })
  const open = async (client: Gitea, head: string, base: string) => {
    await branch(head, { [head]: head })
    await client.repos.repoCreatePullRequest('alice', 'app', { head, base, title: head })
  }
  await alice.repos.repoAddCollaborator('alice', 'app', 'bob', { permission: 'write' })
  await branch('next', { next: 'next' })
  await open(alice, 'one', 'main')
  await open(bob, 'two', 'main')
  await open(bob, 'three', 'next')
  const titles = async (query: string) => {
    const answer = await server.fetch(null, `/api/v1/repos/alice/app/pulls?${query}`)
    const found: PullRequest[] = JSON.parse(await answer.text())
    t.equal(answer.headers.get('x-total-count'), `${found.length}`)
    return found.map(({ title }) => title)
  }
  t.same(await titles('poster=bob'), ['three', 'two'])
  t.same(await titles('poster=nobody'), [])
  t.same(await titles('base_branch=next'), ['three'])
  t.same(await titles('base_branch=main&poster=alice'), ['one'])
  const statusOf = async (login: string | null, path: string) =>
    (await server.fetch(login, `/api/v1${path}`)).status
  t.equal(await statusOf(null, '/repos/alice/app/issues?mentioned_by=alice'), 200)
  t.equal(await statusOf('alice', '/repos/issues/search?mentioned=true'), 200)
  t.equal(await statusOf('alice', '/repos/issues/search?team=crew'), 422)
  t.equal(await statusOf('alice', '/repos/issues/search?reviewed=false&team='), 200)
})

t.test('docs/compatibility.md lists exactly the missing routes of Gitea', async (t) => {
  const documentation = readDocumentation(await (await server.fetch(null, '/api/openapi.json')).text())
  t.ok(giteaRoutes().length > 400)
  const list = missingRoutesTable(missingRoutes(documentation))
  await checkGeneratedPart(t, 'docs/compatibility.md', 'not here', list)
})
