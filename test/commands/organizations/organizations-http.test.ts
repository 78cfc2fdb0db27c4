import t from 'tap'
import { basic, identityApp, passwordOf } from '../../auth/identity-app.ts'

const alice = basic('alice', passwordOf('alice'))
const bob = basic('bob', passwordOf('bob'))
const logins = (users: { login: string }[]) => users.map(({ login }) => login)
const names = (organizations: { name: string }[]) => organizations.map(({ name }) => name)

t.test('the creator of an organization is its first admin', async (t) => {
  const { call, signUp } = await identityApp(t)
  await signUp('alice', 'bob')
  const made = await call('POST', '/orgs', {
    as: alice,
    body: { username: 'Acme', full_name: 'Acme Inc.', website: 'https://acme.example.org', unknown: true },
  })
  t.equal(made.status, 201)
  t.match(made.body, {
    name: 'Acme',
    username: 'Acme',
    full_name: 'Acme Inc.',
    website: 'https://acme.example.org',
    visibility: 'public',
  })
  t.same((await call('GET', '/orgs/acme')).body, made.body)
  t.same(logins((await call('GET', '/orgs/acme/members', { as: alice })).body), ['alice'])
  t.same(names((await call('GET', '/user/orgs', { as: alice })).body), ['Acme'])
  t.same((await call('GET', '/user/orgs', { as: bob })).body, [])
  t.equal((await call('GET', '/users/acme')).body.login, 'Acme')
})

t.test('an invalid organization is refused and leaves no event', async (t) => {
  const { call, signUp, log } = await identityApp(t)
  await signUp('alice')
  const before = (await log()).filter(({ type }) => type !== 'NumberTaken')
  t.equal((await call('POST', '/orgs', { body: { username: 'acme' } })).status, 401)
  const bad = [
    {},
    { username: 'Alice' },
    { username: 'user' },
    { username: 'a/b' },
    { username: null },
    { username: 'acme', visibility: 'secret' },
    { username: 'acme', email: 'x' },
    { username: 'acme', website: 'file:///etc/passwd' },
    { username: 'acme', description: 'x'.repeat(256) },
  ]
  for (const body of bad) {
    const answer = await call('POST', '/orgs', { as: alice, body })
    t.equal(answer.status, 422, JSON.stringify(body).slice(0, 80))
  }
  t.same(
    (await log()).filter(({ type }) => type !== 'NumberTaken'),
    before,
  )
  t.equal((await call('GET', '/orgs/acme')).status, 404)
  t.equal((await call('GET', '/orgs/alice')).status, 404, 'a user is not an organization')
})

t.test('a retried request answers with the same organization', async (t) => {
  const { call, signUp, log } = await identityApp(t)
  await signUp('alice')
  const request = { as: alice, headers: { 'idempotency-key': 'one' }, body: { username: 'acme' } }
  const first = await call('POST', '/orgs', request)
  const events = await log()
  const again = await call('POST', '/orgs', request)
  t.same([again.status, again.body], [201, first.body])
  t.equal((await call('POST', '/orgs', { ...request, body: { username: 'other' } })).status, 422)
  t.same(await log(), events)
})

t.test('an admin adds, changes and removes members', async (t) => {
  const { call, signUp, admin, services, log } = await identityApp(t)
  await signUp('alice', 'bob', 'carol')
  await call('POST', '/orgs', { as: alice, body: { username: 'acme' } })
  const put = (login: string, as: string, body?: unknown) =>
    call('PUT', `/orgs/acme/members/${login}`, body === undefined ? { as } : { as, body })
  const permissionOf = async (login: string) => {
    const [acme, member] = await Promise.all(
      ['acme', login].map((loginKey) => services.views.accounts.findOne({ loginKey })),
    )
    return member?.memberships[`${acme?.id}`]
  }

  t.equal((await call('GET', '/orgs/acme/members/bob', { as: alice })).status, 404)
  t.equal((await put('bob', alice)).status, 204)
  t.equal(await permissionOf('bob'), 'write', 'the default')
  t.equal((await call('GET', '/orgs/acme/members/Bob', { as: alice })).status, 204)
  t.equal((await put('carol', admin, { permission: 'read' })).status, 204)
  t.equal(await permissionOf('carol'), 'read')

  const before = await log()
  t.equal((await call('PUT', '/orgs/acme/members/bob', { body: {} })).status, 401)
  t.equal((await put('bob', bob, { permission: 'admin' })).status, 403)
  t.equal((await call('DELETE', '/orgs/acme/members/carol', { as: bob })).status, 403)
  t.equal((await put('bob', alice, { permission: 'owner' })).status, 422)
  t.equal((await put('nobody', alice)).status, 404)
  t.equal((await put('acme', alice)).status, 404, 'an organization is not a member')
  t.equal((await put('alice', alice, { permission: 'read' })).status, 422)
  t.equal((await call('DELETE', '/orgs/acme/members/alice', { as: alice })).status, 422)
  t.equal((await put('bob', alice, { permission: 'write' })).status, 204)
  t.same(await log(), before, 'nothing of that changed anything')

  t.equal((await put('bob', alice, { permission: 'admin' })).status, 204)
  t.equal((await call('DELETE', '/orgs/acme/members/alice', { as: alice })).status, 204)
  t.equal((await call('DELETE', '/orgs/acme/members/alice', { as: bob })).status, 404)
  const carol = basic('carol', passwordOf('carol'))
  t.equal((await call('DELETE', '/orgs/acme/members/carol', { as: carol })).status, 204)
  t.same(logins((await call('GET', '/orgs/acme/members', { as: bob })).body), ['bob'])
  t.same((await call('GET', '/user/orgs', { as: alice })).body, [])
})

t.test('members and organizations are listed in pages', async (t) => {
  const { call, signUp, admin } = await identityApp(t)
  await signUp('alice', 'bob')
  for (const username of ['one', 'two', 'three']) {
    await call('POST', '/orgs', { as: alice, body: { username } })
    await call('PUT', `/orgs/${username}/members/bob`, { as: alice, body: {} })
    await call('PUT', `/orgs/${username}/members/admin`, { as: alice, body: {} })
  }
  const members = await call('GET', '/orgs/one/members?limit=2&page=2', { as: admin })
  t.same(logins(members.body), ['bob'])
  t.equal(members.headers['x-total-count'], '3')
  const own = await call('GET', '/users/bob/orgs?limit=2', { as: admin })
  t.same(names(own.body), ['one', 'two'])
  t.equal(own.headers['x-total-count'], '3')
  t.match(own.headers.link, 'rel="next"')
  t.equal((await call('GET', '/user/orgs')).status, 401)
  t.equal((await call('GET', '/users/one/orgs')).status, 404)
})

t.test('a private organization is 404 to all but members, a limited one to anonymous requests', async (t) => {
  const { call, signUp, admin } = await identityApp(t)
  await signUp('alice', 'bob')
  await call('POST', '/orgs', { as: alice, body: { username: 'hidden', visibility: 'private' } })
  await call('POST', '/orgs', { as: alice, body: { username: 'inner', visibility: 'limited' } })
  for (const org of ['hidden', 'inner']) await call('PUT', `/orgs/${org}/public_members/alice`, { as: alice })
  const paths = (org: string) => [`/orgs/${org}`, `/orgs/${org}/members`, `/users/${org}`]
  for (const path of paths('hidden')) {
    t.equal((await call('GET', path)).status, 404)
    t.equal((await call('GET', path, { as: bob })).status, 404)
    t.equal((await call('GET', path, { as: alice })).status, 200)
    t.equal((await call('GET', path, { as: admin })).status, 200)
  }
  for (const path of paths('inner')) {
    t.equal((await call('GET', path)).status, 404)
    t.equal((await call('GET', path, { as: bob })).status, 200)
  }
  t.equal((await call('PUT', '/orgs/hidden/members/bob', { as: bob, body: {} })).status, 404)
  t.same((await call('GET', '/users/alice/orgs')).body, [])
  t.same(names((await call('GET', '/users/alice/orgs', { as: bob })).body), ['inner'])
  t.same(names((await call('GET', '/users/alice/orgs', { as: alice })).body), ['hidden', 'inner'])
})
