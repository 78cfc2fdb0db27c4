import t from 'tap'
import { keepToken } from '../../../src/auth/secrets.ts'
import { tokenUses } from '../../../src/auth/token-uses.ts'
import { basic, identityApp, passwordOf } from '../../auth/identity-app.ts'
import { clockOf } from '../../set-clock.ts'
import { until } from '../../until.ts'

const LONG_AGO = '2020-01-01T00:00:00Z'

const alice = basic('alice', passwordOf('alice'))
const bob = basic('bob', passwordOf('bob'))

t.test('a token is shown once and stored as a hash', async (t) => {
  const { call, signUp, log } = await identityApp(t)
  await signUp('alice')
  const made = await call('POST', '/users/alice/tokens', {
    as: alice,
    body: { name: 'ci', scopes: ['write:repository', 'read:repository', 'read:user'] },
  })
  t.equal(made.status, 201)
  const { sha1, ...rest } = made.body
  t.match(sha1, /^[0-9a-f]{40}$/)
  const shown = {
    id: 1,
    name: 'ci',
    token_last_eight: sha1.slice(-8),
    scopes: ['write:repository', 'read:user'],
    created_at: rest.created_at,
    last_used_at: rest.created_at,
  }
  t.match(rest.created_at, /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  t.same(rest, shown)
  const list = await call('GET', '/users/alice/tokens', { as: alice })
  t.same(list.body, [{ ...shown, sha1: '' }])
  t.notMatch(JSON.stringify(await log()), sha1.slice(0, 32))
  t.equal((await call('GET', '/user', { as: `token ${sha1}` })).status, 200)
})

t.test('tokens carry `created_at` and `last_used_at`, which is to the hour and no event', async (t) => {
  const { call, signUp, tokenOf, log, services } = await identityApp(t)
  await signUp('alice')
  const token = await tokenOf('alice', 'read:user')
  const tokens = async () => (await call('GET', '/users/alice/tokens', { as: alice })).body
  const [{ created_at }] = await tokens()
  const before = (await log()).length
  await services.secrets.apply(
    [{ op: 'put', collection: tokenUses, id: '1', position: 0, body: { tokenId: 1, usedAt: LONG_AGO } }],
    new Map(),
  )
  t.match(await tokens(), [{ created_at, last_used_at: LONG_AGO }])
  t.equal((await call('GET', '/user', { as: token })).status, 200)
  await until('the use is recorded', async () => (await tokens())[0].last_used_at >= created_at)
  const [{ last_used_at }] = await tokens()
  await services.secrets.apply([{ op: 'delete', collection: tokenUses, id: '1' }], new Map())
  t.equal((await call('GET', '/user', { as: token })).status, 200)
  t.match(await tokens(), [{ last_used_at: created_at }], 'a second use within the hour is not recorded')
  t.ok(last_used_at)
  t.equal((await log()).length, before)
})

t.test('tokens are listed in pages', async (t) => {
  const { call, signUp, tokenOf } = await identityApp(t)
  await signUp('alice', 'bob')
  for (const scope of ['read:user', 'read:misc', 'read:issue']) await tokenOf('alice', scope)
  await tokenOf('bob', 'all')
  const page = await call('GET', '/users/alice/tokens?page=2&limit=2', { as: alice })
  t.same(
    page.body.map(({ name }: { name: string }) => name),
    ['read:issue'],
  )
  t.equal(page.headers['x-total-count'], '3')
  t.match(page.headers.link, 'page=1')
})

t.test('tokens are managed by their user and by site admins, with a password', async (t) => {
  const { call, signUp, tokenOf, admin, log } = await identityApp(t)
  await signUp('alice', 'bob')
  const token = await tokenOf('alice', 'all')
  const before = await log()
  const body = { name: 'x', scopes: ['all'] }
  for (const [as, status] of [
    [undefined, 401],
    [bob, 403],
    [token, 401],
  ] as const) {
    const options = as === undefined ? {} : { as }
    t.equal((await call('GET', '/users/alice/tokens', options)).status, status)
    t.equal((await call('POST', '/users/alice/tokens', { ...options, body })).status, status)
    t.equal((await call('DELETE', '/users/alice/tokens/all', options)).status, status)
  }
  t.equal((await call('GET', '/users/nobody/tokens', { as: alice })).status, 403, 'who exists is not told')
  t.same(await log(), before)
  t.equal((await call('GET', '/users/nobody/tokens', { as: admin })).status, 404)
  t.equal((await call('GET', '/users/ALICE/tokens', { as: alice })).status, 200)
  const made = await call('POST', '/users/alice/tokens', { as: admin, body })
  t.equal((await call('GET', '/user', { as: `token ${made.body.sha1}` })).body.login, 'alice')
  t.equal((await call('DELETE', `/users/alice/tokens/${made.body.id}`, { as: admin })).status, 204)
})

t.test('a token needs a unique name and known scopes', async (t) => {
  const { call, signUp, tokenOf, log } = await identityApp(t)
  await signUp('alice')
  await tokenOf('alice', 'all')
  const before = (await log()).filter(({ type }) => type !== 'NumberTaken')
  const bad: [status: number, body: unknown][] = [
    [400, { name: 'x' }],
    [400, { name: 'x', scopes: [] }],
    [400, { name: 'x', scopes: ['everything'] }],
    [400, { name: 'x', scopes: ['all', 'public-only'] }],
    [400, { name: 'all', scopes: ['all'] }],
    [422, { name: '', scopes: ['all'] }],
    [422, { name: 'a\nb', scopes: ['all'] }],
    [422, { name: 'x'.repeat(256), scopes: ['all'] }],
    [422, { scopes: ['all'] }],
    [422, { name: 'x', scopes: 'all' }],
    [422, { name: 'x', scopes: [1] }],
  ]
  for (const [status, body] of bad) {
    t.equal(
      (await call('POST', '/users/alice/tokens', { as: alice, body })).status,
      status,
      JSON.stringify(body),
    )
  }
  t.same(
    (await log()).filter(({ type }) => type !== 'NumberTaken'),
    before,
  )
  t.equal((await call('GET', '/users/alice/tokens', { as: alice })).headers['x-total-count'], '1')
})

t.test('a token is deleted by its id or its name, and only by its owner', async (t) => {
  const { call, signUp, tokenOf } = await identityApp(t)
  await signUp('alice', 'bob')
  const kept = await tokenOf('alice', 'read:user')
  await tokenOf('alice', 'all')
  t.equal((await call('DELETE', '/users/bob/tokens/1', { as: bob })).status, 404)
  t.equal((await call('DELETE', '/users/alice/tokens/99', { as: alice })).status, 404)
  t.equal((await call('DELETE', '/users/alice/tokens/2', { as: alice })).status, 204)
  t.equal((await call('DELETE', '/users/alice/tokens/2', { as: alice })).status, 404)
  t.equal((await call('GET', '/user', { as: kept })).status, 200)
  t.equal((await call('DELETE', '/users/alice/tokens/read:user', { as: alice })).status, 204)
  t.equal((await call('GET', '/user', { as: kept })).status, 401)
})

t.test(
  'a retry gives a new secret of the same token, and the secret of the lost answer becomes invalid',
  async (t) => {
    const { call, signUp, log } = await identityApp(t)
    await signUp('alice')
    const headers = { 'idempotency-key': 'one' }
    const body = { name: 'ci', scopes: ['read:user'] }
    const path = '/users/alice/tokens'
    const first = await call('POST', path, { as: alice, headers, body })
    const events = await log()
    const other = await call('POST', path, { as: alice, headers, body: { ...body, name: 'other' } })
    t.equal(other.status, 422)
    t.equal((await call('GET', '/user', { as: `token ${first.body.sha1}` })).status, 200, 'still good')

    const again = await call('POST', path, { as: alice, headers, body })
    t.same({ ...again.body, sha1: '' }, { ...first.body, sha1: '' })
    t.equal(again.body.sha1.slice(-8), again.body.token_last_eight)
    t.not(again.body.sha1, first.body.sha1)
    t.same(await log(), events)
    t.equal((await call('GET', '/user', { as: `token ${again.body.sha1}` })).status, 200)
    t.equal((await call('GET', '/user', { as: `token ${first.body.sha1}` })).status, 401)

    t.equal((await call('DELETE', '/users/alice/tokens/ci', { as: alice })).status, 204)
    t.equal((await call('POST', path, { as: alice, headers, body })).status, 409)
    t.equal((await call('GET', '/user', { as: `token ${again.body.sha1}` })).status, 401)
  },
)

t.test('the secret of a retry is the valid one, also when its clock is behind', async (t) => {
  const setClock = clockOf(t)
  const { call, signUp } = await identityApp(t)
  await signUp('alice')
  const request = {
    as: alice,
    headers: { 'idempotency-key': 'one' },
    body: { name: 'ci', scopes: ['read:user'] },
  }
  const works = async (token: string) => (await call('GET', '/user', { as: `token ${token}` })).status === 200
  setClock(5000)
  const first = (await call('POST', '/users/alice/tokens', request)).body.sha1
  setClock(0)
  const second = (await call('POST', '/users/alice/tokens', request)).body.sha1
  const third = (await call('POST', '/users/alice/tokens', request)).body.sha1
  t.same([await works(first), await works(second), await works(third)], [false, false, true])
})

t.test('of retries at the same time, one secret remains valid', async (t) => {
  const { call, signUp } = await identityApp(t)
  await signUp('alice')
  const request = {
    as: alice,
    headers: { 'idempotency-key': 'one' },
    body: { name: 'ci', scopes: ['read:user'] },
  }
  const answers = await Promise.all(
    Array.from({ length: 6 }, () => call('POST', '/users/alice/tokens', request)),
  )
  t.same([...new Set(answers.map(({ status }) => status))], [201])
  const works = await Promise.all(
    answers.map(
      async ({ body }) => (await call('GET', '/user', { as: `token ${body.sha1}` })).status === 200,
    ),
  )
  t.equal(works.filter(Boolean).length, 1)
})

t.test('a secret without an event after a crash is not valid', async (t) => {
  const { call, signUp, services } = await identityApp(t)
  await signUp('alice')
  const token = 'ab'.repeat(20)
  await keepToken(services.secrets, token, { userId: 2, tokenId: 1, madeAt: new Date().toISOString() })
  t.equal((await call('GET', '/user', { as: `token ${token}` })).status, 401)
})
