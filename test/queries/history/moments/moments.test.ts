/** Reads of the past over HTTP: `?at=` and the header `Mergelog-At`. */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ownMomentsDirectory } from '../../../../src/projections/moments/builder.ts'
import { wantedMomentIn } from '../../../../src/queries/history/moments/time-travel.ts'
import { startTestServer, type TestServer } from '../../../start-server.ts'

const REPO = '/api/v1/repos/alice/app'

interface Answer {
  status: number
  headers: Headers
  body: unknown
}

function clientOf(server: TestServer) {
  async function call(
    login: string | null,
    method: string,
    path: string,
    { body, headers }: { body?: object; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    const answer = await server.fetch(login, path, {
      method,
      redirect: 'manual',
      headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: answer.status, headers: answer.headers, body: text === '' ? null : JSON.parse(text) }
  }
  const get = (path: string, headers?: Record<string, string>, login: string | null = 'alice') =>
    call(login, 'GET', path, headers && { headers })
  async function must(login: string, method: string, path: string, body?: object): Promise<void> {
    const answer = await call(login, method, path, body && { body })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
  }
  return { call, get, must, last: () => server.services.events.lastPosition() }
}

/** The names of the files of moments. */
async function filesIn(dataDir: string): Promise<string[]> {
  const entries = await readdir(join(dataDir, 'moments'), { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
}

/** A repository with an issue, and the moment after it. Then it changes. */
async function changed(test: Test, environment: Record<string, string> = {}) {
  const server = await startTestServer(test, environment)
  const client = clientOf(server)
  const { get, must, last } = client
  await must('alice', 'POST', '/api/v1/user/repos', { name: 'app' })
  await must('alice', 'POST', `${REPO}/labels`, { name: 'bug', color: '#ff0000' })
  for (const title of ['one', 'two', 'three']) await must('alice', 'POST', `${REPO}/issues`, { title })
  const position = await last()
  const before = await get(`${REPO}/issues?limit=2`)
  await must('alice', 'PATCH', `${REPO}/issues/3`, { title: 'renamed' })
  await must('alice', 'PATCH', `${REPO}/issues/1`, { state: 'closed' })
  await must('alice', 'PATCH', `${REPO}/labels/1`, { name: 'defect' })
  return { server, ...client, position, before }
}

t.test('pagination, filters, sorting, headers and schemas come from the same code', async (t) => {
  const { get, position, before, last } = await changed(t)
  const end = await last()
  const past = await get(`${REPO}/issues?limit=2&at=@${position}`)
  t.equal(past.status, 200)
  t.same(past.body, before.body)
  t.equal(past.headers.get('x-total-count'), '3')
  t.match(past.headers.get('link'), `at=%40${position}`)
  t.match((await get(`${REPO}/issues?page=3&limit=1&at=@${position}`)).body, [{ title: 'one' }])
  t.same((await get(`${REPO}/issues?state=closed&at=@${position}`)).body, [])
  t.match((await get(`${REPO}/labels?at=@${position}`)).body, [{ name: 'bug' }])
  t.match((await get(`${REPO}?at=@${position}`)).body, { open_issues_count: 3 })

  t.test('search within the repository finds the words of that moment', async (t) => {
    t.match((await get(`${REPO}/issues?q=three&at=@${position}`)).body, [{ title: 'three' }])
    t.same((await get(`${REPO}/issues?q=renamed&at=@${position}`)).body, [])
    t.same((await get(`${REPO}/issues?q=three`)).body, [])
  })

  t.test('every such response carries `Mergelog-At: @<position> <time>`', async (t) => {
    const [, at = '', time = ''] = /^@(\d+) (\S+)$/.exec(past.headers.get('mergelog-at') ?? '') ?? []
    t.ok(Number(at) <= position)
    t.equal(new Date(time).toISOString(), time)
    t.match(past.headers.get('access-control-expose-headers'), /Mergelog-At.*X-Total-Count/)
    t.equal((await get(`${REPO}/issues`)).headers.get('mergelog-at'), null)
    const byHeader = await get(`${REPO}/issues?limit=2`, { 'Mergelog-At': `@${position}` })
    t.same(byHeader.body, before.body)
    const byTime = await get(`${REPO}/issues?limit=2&at=${time}`)
    t.equal(byTime.headers.get('mergelog-at'), past.headers.get('mergelog-at'))
    t.same(byTime.body, before.body)
  })

  t.test('a moment in the future is now, and `at=` now equals no `at=`', async (t) => {
    const now = await get(`${REPO}/issues?state=all`)
    for (const at of [
      '2999-01-01',
      `@${await last()}`,
      `@${Number.MAX_SAFE_INTEGER}`,
      new Date().toISOString(),
    ]) {
      const same = await get(`${REPO}/issues?state=all&at=${at}`)
      t.same(same.body, now.body, at)
      t.match(same.headers.get('mergelog-at'), /^@\d+ /)
    }
  })

  t.test('reading the past appends nothing', async (t) => t.equal(await last(), end))
})

t.test('a value that is no moment is 422', async (t) => {
  const { get, position } = await changed(t)
  for (const at of ['', 'x', '@', '@x', '@-1', '2026-13-01', '2026-02-30', `@${'9'.repeat(16)}`, '1']) {
    t.match(
      await get(`${REPO}/issues?at=${at}`),
      { status: 422, body: { message: /^at: must be a date/ } },
      at,
    )
  }
  t.match(await get(`${REPO}?at=@1&at=@2`), { status: 422 })
  t.match(await get(`${REPO}?at=@${position}`, { 'Mergelog-At': '@1' }), { status: 422 })
  t.same(wantedMomentIn('2026-11-26'), { at: '2026-11-26T23:59:59.999Z' })
  t.same(wantedMomentIn('2026-11-26T10:00:00+02:00'), { at: '2026-11-26T08:00:00.999Z' })
  t.same(wantedMomentIn('@12'), { position: 12 })
})

t.test('a moment before the repository existed is 404', async (t) => {
  const { get } = await changed(t)
  for (const at of ['2000-01-01', '@0', '@1']) t.equal((await get(`${REPO}?at=${at}`)).status, 404)
  t.match((await get(`${REPO}?at=@1`)).body, { message: 'the repository did not exist at that moment' })
})

t.test('a write with `at=` is refused (422), and so is a read that has no past', async (t) => {
  const { call, get, position, last } = await changed(t)
  const end = await last()
  for (const [method, path] of [
    ['POST', '/issues'],
    ['PATCH', ''],
    ['PATCH', '/issues/1'],
    ['DELETE', '/labels/1'],
    ['DELETE', ''],
  ]) {
    const body = method === 'DELETE' ? {} : { body: { title: 'x' } }
    t.match(await call('alice', `${method}`, `${REPO}${path}?at=@${position}`, body), {
      status: 422,
      body: { message: /^at: / },
    })
    const headers = { 'Mergelog-At': `@${position}` }
    t.equal((await call('alice', `${method}`, `${REPO}${path}`, { ...body, headers })).status, 422)
  }
  for (const path of [
    `${REPO}/notifications`,
    `${REPO}/subscription`,
    `${REPO}/hooks`,
    `${REPO}/history`,
    `${REPO}/evidence`,
    `${REPO}/pulls/1/evidence`,
    `${REPO}/issues/1/subscriptions`,
    '/api/v1/user',
    '/api/v1/users/alice/tokens',
    '/api/v1/notifications',
    '/api/v1/repos/search',
  ]) {
    t.match(
      await get(`${path}?at=@${position}`),
      { status: 422, body: { message: 'at: this route cannot show the past' } },
      path,
    )
  }
  t.equal((await get(`${REPO}/issues/1/replay?at=2999-01-01`)).status, 200, 'a replay has its own parameter')
  t.equal(await last(), end)
})

t.test('permissions are those of now', async (t) => {
  const { call, get, must, position } = await changed(t)
  const past = (login: string | null, path = '') => get(`${REPO}${path}?at=@${position}`, undefined, login)
  t.equal((await past(null)).status, 200)
  await must('alice', 'PATCH', REPO, { private: true })
  t.equal((await past(null)).status, 404)
  t.equal((await past('bob')).status, 404)
  t.match(await past('alice'), { status: 200, body: { private: false, permissions: { admin: true } } })
  await must('alice', 'PUT', `${REPO}/collaborators/bob`, { permission: 'read' })
  t.match(await past('bob'), { status: 200, body: { permissions: { admin: false, pull: true } } })
  t.same((await past('alice', '/collaborators')).body, [])
  t.equal((await past('bob', '/keys')).status, 403, 'what only its admins may see')
  t.equal((await call('bob', 'GET', `${REPO}/keys`)).status, 403)
  t.equal((await past('alice', '/keys')).status, 200)
})

t.test('a renamed repository is found by its present name, and its past has the earlier one', async (t) => {
  const { get, must, position } = await changed(t)
  await must('alice', 'PATCH', REPO, { name: 'other' })
  t.match(await get(`/api/v1/repos/alice/other?at=@${position}`), {
    status: 200,
    body: { full_name: 'alice/app' },
  })
  const moved = await get(`${REPO}?at=@${position}`)
  t.equal(moved.status, 307)
  t.match(moved.headers.get('location'), `/alice/other?at=@${position}`)
})

t.test('a fork is shown as it was, and not at all after it was deleted', async (t) => {
  const { get, must, last } = await changed(t)
  const FORK = '/api/v1/repos/bob/fork'
  const readme = { content: 'aGk=', message: 'm' }
  await must('alice', 'POST', `${REPO}/contents/README.md`, readme)
  await must('bob', 'POST', `${REPO}/forks`, { name: 'first' })
  await must('bob', 'PATCH', '/api/v1/repos/bob/first', { name: 'fork', description: 'renamed' })
  await must('bob', 'POST', `${FORK}/contents/new.txt`, { ...readme, new_branch: 'topic' })
  await must('alice', 'POST', `${REPO}/pulls`, { head: 'bob:topic', base: 'main', title: 'pull' })
  const position = await last()
  await must('bob', 'PATCH', FORK, { description: 'later' })
  await must('alice', 'POST', `${REPO}/issues`, { title: 'more' })
  const then = { full_name: 'bob/fork', description: 'renamed' }
  t.match((await get(`${REPO}/forks?at=@${position}`)).body, [then])
  t.match((await get(`${REPO}/pulls/4?at=@${position}`)).body, { head: { repo: then } })
  await must('bob', 'PATCH', FORK, { private: true })
  t.match((await get(`${REPO}/pulls/4?at=@${position}`)).body, { head: { repo: null } }, 'it is private now')
  await must('bob', 'DELETE', FORK)
  t.match((await get(`${REPO}/pulls/4?at=@${position}`)).body, { head: { repo: null } }, 'it is deleted now')
  t.same((await get(`${REPO}/forks?at=@${position}`)).body, [])
})

t.test('`/orgs/{org}` with its teams and members, and `/users/{u}`', async (t) => {
  const server = await startTestServer(t)
  const { get, must, last } = clientOf(server)
  const ORG = '/api/v1/orgs/acme'
  await must('alice', 'POST', '/api/v1/orgs', { username: 'acme', description: 'first' })
  await must('alice', 'POST', `${ORG}/teams`, { name: 'core', permission: 'write' })
  await must('alice', 'PUT', `${ORG}/members/bob`, { permission: 'read' })
  await must('alice', 'PUT', `${ORG}/public_members/alice`)
  const position = await last()
  const paths = ['', '/members', '/public_members', '/teams', '/members/bob']
  const before = await Promise.all(paths.map(async (path) => (await get(`${ORG}${path}`)).body))
  await must('alice', 'PATCH', ORG, { description: 'second' })
  await must('alice', 'DELETE', `${ORG}/members/bob`)
  await must('alice', 'POST', `${ORG}/teams`, { name: 'more', permission: 'read' })
  for (const [i, path] of paths.entries()) {
    const past = await get(`${ORG}${path}?at=@${position}`)
    t.same(past.body, before[i], path)
    t.match(past.headers.get('mergelog-at'), /^@\d+ /)
  }
  t.match((await get(`${ORG}/public_members?at=@${position}`, undefined, null)).body, [{ login: 'alice' }])
  await must('alice', 'DELETE', `${ORG}/public_members/alice`)
  t.same((await get(`${ORG}/public_members?at=@${position}`, undefined, null)).body, [], 'it is hidden now')

  const there = await last()
  await must('alice', 'PATCH', '/api/v1/user/settings', { full_name: 'Alice B', location: 'Here' })
  await must('alice', 'PATCH', '/api/v1/user/settings', { full_name: 'Alice C' })
  t.match((await get('/api/v1/users/alice')).body, { full_name: 'Alice C' })
  t.match((await get(`/api/v1/users/alice?at=@${there}`)).body, { full_name: '', location: '' })
  t.equal((await get('/api/v1/users/alice?at=2000-01-01')).status, 404)
  t.equal((await get('/api/v1/users/nobody?at=2000-01-01')).status, 404)
})

t.test('erased texts stay erased in the past, and cached moments with them are removed', async (t) => {
  const { server, get, must, last } = await changed(t)
  await must('alice', 'POST', `${REPO}/issues`, { title: 'fine', body: 'Xq7SECRET' })
  const position = await last()
  await must('alice', 'PATCH', `${REPO}/issues/4`, { title: 'other' })
  t.match((await get(`${REPO}/issues/4?at=@${position}`)).body, { body: 'Xq7SECRET' })
  t.match((await get(`${REPO}/issues?q=Xq7SECRET&at=@${position}`)).body, [{ body: 'Xq7SECRET' }])
  t.equal(server.services.moments.cached().moments, 2)
  const { moments, views } = server.services
  const { id = 0 } = (await views.repositories.findOne({ key: 'alice/app' })) ?? {}
  const wanted = await moments.resolve({ kind: 'repository', id }, { position })
  if (wanted === undefined) throw new Error('the moment is missing')
  const read = await moments.open({ kind: 'repository', id }, wanted, { client: 'reader' })
  await must('alice', 'POST', `${REPO}/issues/4/erase`, { all: true })
  t.same(await filesIn(server.dataDir), ['empty.db'], 'also while a request reads one')
  read.release()
  t.same(server.services.moments.cached(), { moments: 0, bytes: 0 })
  t.same(await filesIn(server.dataDir), ['empty.db'])
  t.match((await get(`${REPO}/issues/4?at=@${position}`)).body, { body: /erased by alice/ })
  t.same((await get(`${REPO}/issues?q=Xq7SECRET&at=@${position}`)).body, [])
})

t.test('the files of moments are removed when the server stops', async (t) => {
  const dataDir = t.testdir()
  const { server, get, position } = await changed(t, { DATA_DIR: dataDir })
  t.equal((await get(`${REPO}?at=@${position}`)).status, 200)
  t.ok((await filesIn(dataDir)).length > 1)
  await server.stop()
  t.same(await filesIn(dataDir), [])
})

t.test('what a user hides now is hidden in the past, and so is the profile of a deleted user', async (t) => {
  const { get, must, last } = await changed(t)
  const profile = { full_name: 'Carol C', location: 'Here', website: 'https://c.example', description: 'x' }
  await must('carol', 'PATCH', '/api/v1/user/settings', { ...profile, hide_email: false })
  await must('alice', 'PUT', `${REPO}/collaborators/carol`, { permission: 'read' })
  await must('carol', 'POST', `${REPO}/issues/1/comments`, { body: 'hello' })
  await must('dave', 'PATCH', '/api/v1/user/settings', profile)
  await must('dave', 'POST', `${REPO}/issues/2/comments`, { body: 'hello' })
  const position = await last()
  const { body } = await get(`${REPO}/issues/1/comments`)
  await must('alice', 'POST', `${REPO}/issues`, { title: 'more' })
  const past = async (index: number) => (await get(`${REPO}/issues/${index}/comments?at=@${position}`)).body
  t.same(await past(1), body)
  await must('carol', 'PATCH', '/api/v1/user/settings', { hide_email: true })
  t.match(await past(1), [{ user: { ...profile, email: /noreply/ } }])
  for (const login of ['carol', 'dave']) await must('admin', 'DELETE', `/api/v1/admin/users/${login}`)
  const hidden = { full_name: '', location: '', website: '', description: '', email: /noreply/ }
  t.match(await past(1), [{ user: { ...hidden, login: 'carol' } }])
  t.match(await past(2), [{ user: { ...hidden, login: 'dave' } }])
})

t.test('a nearly full disk has no space for moments', async (t) => {
  const dataDir = t.testdir()
  const { server, position } = await changed(t, { DATA_DIR: dataDir })
  await server.stop()
  const { get } = clientOf(await startTestServer(t, { DATA_DIR: dataDir, MIN_FREE_BYTES: '8000TiB' }))
  t.equal((await get(`${REPO}/issues?at=@${position}`, undefined, null)).status, 507)
  t.same(await filesIn(dataDir), [])
  t.equal((await get(`${REPO}/issues`, undefined, null)).status, 200)
})

t.test('a moment is built again after its file was lost', async (t) => {
  const { server, get, must, position, last } = await changed(t)
  t.equal((await get(`${REPO}?at=@${position}`)).status, 200)
  const later = await last()
  await must('alice', 'POST', `${REPO}/issues`, { title: 'more' })
  await rm(join(server.dataDir, 'moments'), { recursive: true })
  t.equal((await get(`${REPO}?at=@${later}`)).status, 503, 'it continues from the file of another moment')
  t.match(await get(`${REPO}/issues/3?at=@${later}`), { status: 200, body: { title: 'renamed' } })
})

t.test('a start of a node removes the moments of nodes that are gone, and no other ones', async (t) => {
  const dataDir = t.testdir({ moments: { gone: { '1.db': '' }, other: { '1.db': '' } } })
  // Two nodes may have the same name.
  const nodes = { self: () => ({ id: 'own', name: 'host' }), isGone: async (id: string) => id === 'gone' }
  t.equal(await ownMomentsDirectory(dataDir, nodes), join(dataDir, 'moments', 'own'))
  t.same(await readdir(join(dataDir, 'moments')), ['other'])
})
