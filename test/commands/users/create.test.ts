import { userInfo } from 'node:os'
import t from 'tap'
import { takeLogin } from '../../../src/commands/account-claims.ts'
import type { CommandContext } from '../../../src/commands/execute.ts'
import { passwordHashOf } from '../../../src/commands/users/secrets.ts'
import { ensureSiteAdmin } from '../../../src/commands/users/site-admin.ts'
import { LOG_START } from '../../../src/events/event-store.ts'
import { userStream } from '../../../src/events/streams.ts'
import { basic, identityApp, passwordOf } from '../../http/identity-app.ts'

const bob = { username: 'bob', email: 'bob@example.org', password: passwordOf('bob') }

t.test('a site admin creates a user, who signs in', async (t) => {
  const { call, admin } = await identityApp(t)
  const made = await call('POST', '/admin/users', {
    as: admin,
    body: { ...bob, full_name: 'Bob B.', must_change_password: true, unknown: [1] },
  })
  t.equal(made.status, 201)
  t.match(made.body, {
    id: 2,
    login: 'bob',
    full_name: 'Bob B.',
    email: 'bob@example.org',
    is_admin: false,
    active: true,
    visibility: 'public',
    html_url: 'http://git.example.org:3000/bob',
  })
  t.notOk('password' in made.body)
  const own = await call('GET', '/user', { as: basic('bob', passwordOf('bob')) })
  t.same(own.body, made.body)
})

t.test('only site admins create users', async (t) => {
  const { call, signUp, log } = await identityApp(t)
  await signUp('alice')
  const before = await log()
  t.equal((await call('POST', '/admin/users', { body: bob })).status, 401)
  const as = basic('alice', passwordOf('alice'))
  t.equal((await call('POST', '/admin/users', { as, body: bob })).status, 403)
  t.same(await log(), before)
})

t.test('a user that can not be is refused with the field at fault, and leaves no event', async (t) => {
  const { call, admin, log } = await identityApp(t)
  const before = await log()
  const bad: [field: RegExp, body: unknown][] = [
    [/^username:/, { ...bob, username: 'admin' }],
    [/^username:/, { ...bob, username: 'Repos' }],
    [/^username:/, { ...bob, username: '' }],
    [/^username:/, { ...bob, username: 'a'.repeat(41) }],
    [/^username:/, { ...bob, username: 'bob.git' }],
    [/^username:/, { ...bob, username: '../bob' }],
    [/^username:/, { ...bob, username: 7 }],
    [/^username:/, { email: bob.email, password: bob.password }],
    [/^email:/, { ...bob, email: 'bob' }],
    [/^email:/, { username: 'bob', password: bob.password }],
    [/^password:/, { username: 'bob', email: bob.email }],
    [/^password:/, { ...bob, password: 'short' }],
    [/^password:/, { ...bob, password: 'x'.repeat(1025) }],
    [/^password:/, { ...bob, password: 12345678 }],
    [/^full_name:/, { ...bob, full_name: 'x'.repeat(101) }],
    [/^restricted:/, { ...bob, restricted: true }],
    [/^visibility:/, { ...bob, visibility: 'private' }],
    [/^body:/, []],
  ]
  for (const [field, body] of bad) {
    const answer = await call('POST', '/admin/users', { as: admin, body })
    t.equal(answer.status, 422, JSON.stringify(body).slice(0, 100))
    t.match(answer.body.message, field)
  }
  t.same(await log(), before)
  t.equal((await call('GET', '/users/bob', { as: admin })).status, 404)
})

t.test('a taken login or address is refused, in any case, and the other one stays free', async (t) => {
  const { call, admin, signUp } = await identityApp(t)
  await signUp('alice')
  t.equal((await call('POST', '/orgs', { as: admin, body: { username: 'acme' } })).status, 201)
  for (const username of ['alice', 'ALICE', 'Acme']) {
    const { status, body } = await call('POST', '/admin/users', { as: admin, body: { ...bob, username } })
    t.same([status, body.message], [422, `username: "${username}" is taken`])
  }
  const email = 'Alice@Example.org'
  const { status, body } = await call('POST', '/admin/users', { as: admin, body: { ...bob, email } })
  t.same([status, body.message], [422, `email: "${email}" is used by another user`])
  t.equal((await call('POST', '/admin/users', { as: admin, body: bob })).status, 201)
  const alice = basic('alice', passwordOf('alice'))
  t.equal((await call('GET', '/user', { as: alice })).body.email, 'alice@example.org')
})

t.test('of many who want one name at once, one gets it', async (t) => {
  const { call, admin } = await identityApp(t)
  const many = Array.from({ length: 8 }, (_, i) =>
    call('POST', '/admin/users', { as: admin, body: { ...bob, email: `bob${i}@example.org` } }),
  )
  const statuses = (await Promise.all(many)).map(({ status }) => status).sort()
  t.same(statuses, [201, ...Array.from({ length: 7 }, () => 422)])
})

t.test('a retried request answers with the same user; the same key for another user is refused', async (t) => {
  const { call, admin, log, services } = await identityApp(t)
  const headers = { 'idempotency-key': 'one' }
  const first = await call('POST', '/admin/users', { as: admin, headers, body: bob })
  t.equal(first.status, 201)
  const events = await log()
  const hash = await passwordHashOf(services.secrets, first.body.id)

  const again = await call('POST', '/admin/users', { as: admin, headers, body: bob })
  t.same([again.status, again.body], [201, first.body])
  const eve = { username: 'eve', email: 'eve@example.org', password: passwordOf('eve') }
  t.equal((await call('POST', '/admin/users', { as: admin, headers, body: eve })).status, 422)
  t.same(await log(), events)
  t.equal(await passwordHashOf(services.secrets, first.body.id), hash)
  t.equal((await call('GET', '/user', { as: basic('bob', passwordOf('bob')) })).status, 200)
})

t.test('no event, not even the digest of the request, depends on the password', async (t) => {
  const { call, admin, log } = await identityApp(t)
  const digests: (string | undefined)[] = []
  for (const [i, password] of ['first password', 'second password'].entries()) {
    const { app: _, ...other } = await identityApp(await subtest(t, `${i}`))
    await other.call('POST', '/admin/users', {
      as: other.admin,
      headers: { 'idempotency-key': 'one' },
      body: { ...bob, password },
    })
    const events = await other.log()
    t.notMatch(JSON.stringify(events), password)
    digests.push(events.findLast(({ type }) => type === 'UserCreated')?.metadata.request)
  }
  t.type(digests[0], 'string')
  t.equal(digests[0], digests[1])
})
