// In a process of its own: it changes what hashes cost.
import t from 'tap'
import { SIGN_IN_LIMITS } from '../../src/auth/passwords/password-checks.ts'
import { keepPassword, passwordHashOf, strengthenPassword } from '../../src/auth/secrets.ts'
import { createAuthenticate } from '../../src/auth/sign-in.ts'
import { createAccountChanges } from '../../src/projections/views/account-changes.ts'
import { createViews, READ_MODELS } from '../../src/projections/views/views.ts'
import { createSecretStore } from '../../src/services/secret-store.ts'
import { openStores } from '../stores.ts'
import { until } from '../until.ts'
import { ADMIN_PASSWORD, basic, identityApp, passwordOf } from './identity-app.ts'

t.test(
  "api.access.1: a requester can sign in with a password or a token, in all of Gitea's ways",
  async (t) => {
    const { call, signUp, tokenOf } = await identityApp(t)
    await signUp('Alice')
    const header = await tokenOf('Alice', 'all')
    const token = header.slice('token '.length)
    const ways = [
      basic('Alice', passwordOf('Alice')),
      basic('aLICE', passwordOf('Alice')),
      basic('Alice', token),
      basic('whoever', token),
      basic(token, ''),
      basic(token, 'x-oauth-basic'),
      `token ${token}`,
      `Token ${token}`,
      `Bearer ${token}`,
      `bearer ${token}`,
    ]
    for (const as of ways) {
      const { status, body } = await call('GET', '/user', { as })
      t.same([status, body.login], [200, 'Alice'], as)
    }
  },
)

t.test('sign-in by e-mail address', async (t) => {
  const { call, signUp, admin } = await identityApp(t)
  await signUp('alice', 'bob')
  const loginOf = async (as: string) => {
    const { status, body } = await call('GET', '/user', { as })
    return status === 200 ? body.login : status
  }
  t.equal(await loginOf(basic('alice@example.org', passwordOf('alice'))), 'alice')
  t.equal(await loginOf(basic('Alice@Example.ORG', passwordOf('alice'))), 'alice')
  t.equal(await loginOf(basic('alice@example.org', passwordOf('bob'))), 401)
  t.equal(await loginOf(basic('nobody@example.org', passwordOf('alice'))), 401)
  t.equal(await loginOf(basic('@', passwordOf('alice'))), 401)
  const org = { username: 'acme', email: 'bob@example.org' }
  t.equal((await call('POST', '/orgs', { as: admin, body: org })).status, 201)
  t.equal(
    await loginOf(basic('bob@example.org', passwordOf('bob'))),
    'bob',
    'an organization may have the same',
  )
})

t.test(
  'the throttle of sign-in counts by the typed name: it does not reveal the owner of an e-mail address, and a name has ten tries',
  async (t) => {
    const often = { failures: 1_000_000, windowMs: 60_000 }
    const { afterwards } = FEW
    const limits = { ...SIGN_IN_LIMITS, perAddress: often, beforePauses: often, afterwards }
    const { call, signUp } = await identityApp(t, { limits })
    await signUp('alice', 'bob')
    const ip = '192.0.2.1'
    const sent = async (name: string, password: string) =>
      (await call('GET', '/user', { as: basic(name, password), ip })).status
    /** Number of wrong passwords before one is throttled. */
    const tries = async (name: string) => {
      for (let count = 0; ; count += 1) if ((await sent(name, `wrong ${count}`)) === 429) return count
    }
    const alices = await tries('alice')
    for (const other of ['bob@example.org', 'nobody@example.org']) t.equal(await tries(other), alices, other)
    t.equal(await tries('alice@example.org'), alices, "alice's own address has the same number")
    t.equal(await sent('ALICE@example.org', 'wrong'), 429)
    t.equal(alices, 10)
    t.equal(await sent('alice@example.org', passwordOf('alice')), 200)
  },
)

t.test('api.access.2: a request without credentials is fine unless the route needs a user', async (t) => {
  const { call } = await identityApp(t)
  t.same((await call('GET', '/repos/probe')).body, { login: null })
  const { status, body, headers } = await call('GET', '/user')
  t.equal(status, 401)
  t.equal(body.message, 'sign in first')
  t.match(headers['www-authenticate'], /^Basic /)
})

t.test('api.access.1: malformed or wrong credentials give 401, also on routes without sign-in', async (t) => {
  const { call, signUp, admin } = await identityApp(t)
  await signUp('alice')
  const made = await call('POST', '/orgs', { as: admin, body: { username: 'acme' } })
  t.equal(made.status, 201)
  const bad = [
    '',
    'Basic',
    'Basic ',
    'Basic %%%',
    `Basic ${Buffer.from('no colon').toString('base64')}`,
    'Digest username="alice"',
    'token',
    `token ${'0'.repeat(40)}`,
    'Bearer x',
    basic('', ''),
    basic('alice', ''),
    basic('alice', passwordOf('Alice')),
    basic('alice', `${passwordOf('alice')} `),
    basic('alice', 'x'.repeat(5000)),
    basic('nobody', passwordOf('alice')),
    basic('acme', passwordOf('acme')),
    basic('acme\0', 'x'),
  ]
  for (const as of bad) {
    const { status, headers } = await call('GET', '/repos/probe', { as })
    t.equal(status, 401, as.slice(0, 60))
    t.match(headers['www-authenticate'], /^Basic /)
  }
  t.same((await call('GET', '/nowhere', { as: 'Bearer x' })).status, 401)
  t.same((await call('GET', '/nowhere', { as: basic('alice', passwordOf('alice')) })).status, 404)
})

t.test('a password is valid until its stored hash changes, even if it is cached', async (t) => {
  const { call, signUp, services } = await identityApp(t)
  await signUp('alice')
  const as = basic('alice', passwordOf('alice'))
  t.equal((await call('GET', '/user', { as })).status, 200)
  t.equal((await call('GET', '/user', { as })).status, 200)
  // A hash of no user's password.
  await keepPassword(services.secrets, 2, `scrypt$2$1$1$c2FsdA==$${Buffer.alloc(32).toString('base64')}`)
  t.equal((await call('GET', '/user')).status, 401)
  t.equal((await call('GET', '/user', { as })).status, 401)
})

t.test('a correct password replaces a weaker hash; a wrong one and a changed password do not', async (t) => {
  const newHashes = { N: 4, r: 1, p: 1 }
  const { call, signUp, services } = await identityApp(t, { newHashes })
  await signUp('alice')
  const stored = () => passwordHashOf(services.secrets, 2)
  const before = await stored()
  t.match(before, /^scrypt\$2\$1\$1\$/)
  t.equal((await call('GET', '/user', { as: basic('alice', 'wrong') })).status, 401)
  t.equal(await stored(), before)

  const as = basic('alice', passwordOf('alice'))
  t.equal((await call('GET', '/user', { as })).status, 200)
  await until('the hash is made again', async () => (await stored()) !== before)
  const after = await stored()
  t.match(after, /^scrypt\$4\$1\$1\$/)
  t.equal((await call('GET', '/user', { as })).status, 200)
  t.equal((await call('GET', '/user', { as: basic('alice', 'wrong') })).status, 401)
  t.equal(await stored(), after, 'a hash of today stays')

  const change = { weaker: before ?? '', stronger: 'scrypt$2$1$1$c2FsdA==$AAAA' }
  t.equal(
    await strengthenPassword(services.secrets, 2, null, change),
    false,
    'it is not the stored one any more',
  )
  t.equal(await stored(), after)
  t.equal(await strengthenPassword(services.secrets, 2, 'gone', change), false, 'it was forgotten meanwhile')
  t.equal(await passwordHashOf(services.secrets, 2, 'gone'), undefined)
})

t.test('a token is valid only for its scopes', async (t) => {
  const { call, signUp, tokenOf } = await identityApp(t)
  await signUp('alice')
  const reads = await tokenOf('alice', 'read:repository')
  const writes = await tokenOf('alice', 'write:repository')
  const user = await tokenOf('alice', 'read:user')
  const both = await tokenOf('alice', 'read:user', 'read:organization')
  const status = async (method: 'GET' | 'POST', path: string, as: string) =>
    (await call(method, path, { as })).status

  t.equal(await status('GET', '/repos/probe', reads), 200)
  t.equal(await status('POST', '/repos/probe', reads), 403)
  t.equal(await status('POST', '/repos/fetch', reads), 200, 'a route may declare that its POST only reads')
  t.equal(await status('POST', '/repos/probe', writes), 200)
  t.equal(await status('GET', '/repos/probe', user), 403)
  t.equal(await status('GET', '/user', user), 200)
  t.equal(await status('GET', '/user', reads), 403)
  t.equal(await status('GET', '/user/orgs', user), 403, 'this route needs two scopes')
  t.equal(await status('GET', '/user/orgs', both), 200)
  t.equal(await status('GET', '/nowhere', user), 404)
  const { body } = await call('POST', '/repos/probe', { as: reads })
  t.equal(body.message, 'token does not have at least one of required scope(s): write:repository')
})

t.test('a token of a site admin without the admin scope cannot create users', async (t) => {
  const { call, admin, log } = await identityApp(t)
  const { body } = await call('POST', '/users/admin/tokens', {
    as: admin,
    body: { name: 'narrow', scopes: ['write:user'] },
  })
  const before = (await log()).length
  const eve = { username: 'eve', email: 'eve@example.org', password: passwordOf('eve') }
  t.equal((await call('POST', '/admin/users', { as: `token ${body.sha1}`, body: eve })).status, 403)
  t.equal((await log()).length, before)
})

t.test('a deleted token is refused', async (t) => {
  const { call, signUp, tokenOf } = await identityApp(t)
  await signUp('alice')
  const as = await tokenOf('alice', 'all')
  t.equal((await call('GET', '/user', { as })).status, 200)
  const own = basic('alice', passwordOf('alice'))
  t.equal((await call('DELETE', '/users/alice/tokens/all', { as: own })).status, 204)
  t.equal((await call('GET', '/user', { as })).status, 401)
})

const FEW = {
  perName: { failures: 3, windowMs: 60_000 },
  perAddress: { failures: 5, windowMs: 60_000 },
  beforePauses: { failures: 1, windowMs: 60_000 },
  waitingWithPauses: 2000,
  afterwards: { everyMs: 1, waiting: 20 },
}

t.test(
  'a correct password is never locked out by wrong ones of others, from the same address or another one',
  async (t) => {
    const { call, signUp, tokenOf, admin } = await identityApp(t, { limits: FEW })
    await signUp('alice')
    const token = await tokenOf('alice', 'read:user')
    const ip = '192.0.2.1'
    const wrong = basic('alice', 'wrong')
    for (let i = 0; i < 3; i++) t.equal((await call('GET', '/user', { as: wrong, ip })).status, 401)

    const { status, headers, body } = await call('GET', '/user', { as: wrong, ip })
    t.equal(status, 429, 'too many bad passwords for that login from that address')
    t.match(body.message, 'too many failed sign-ins')
    const seconds = Number(headers['retry-after'])
    t.ok(seconds > 0 && seconds <= 60, `Retry-After: ${headers['retry-after']}`)
    t.equal((await call('GET', '/user', { as: basic('ALICE', 'wrong'), ip })).status, 429)

    const right = basic('alice', passwordOf('alice'))
    t.equal((await call('GET', '/user', { as: right, ip })).status, 200, 'someone else behind that address')
    t.equal((await call('GET', '/user', { as: wrong, ip })).status, 429, 'which does not end the throttle')
    t.equal((await call('GET', '/user', { as: right, ip: '192.0.2.2' })).status, 200)
    t.equal((await call('GET', '/user', { as: wrong, ip: '192.0.2.3' })).status, 401)
    t.equal((await call('GET', '/user', { as: admin, ip })).status, 200)
    t.equal((await call('GET', '/user', { as: token, ip })).status, 200, 'tokens still work')
  },
)

t.test('simultaneous wrong passwords are limited even before the first one has failed', async (t) => {
  const { call } = await identityApp(t, { limits: FEW })
  const guesses = Array.from({ length: 20 }, (_, i) =>
    call('GET', '/user', { as: basic('admin', `guess ${i}`), ip: '192.0.2.1' }),
  )
  const statuses = (await Promise.all(guesses)).map(({ status }) => status)
  t.equal(statuses.filter((status) => status === 401).length, 3)
  t.equal(statuses.filter((status) => status === 429).length, 17)
})

t.test('a network with many failures waits between its checks, and other networks do not', async (t) => {
  const { call, signUp } = await identityApp(t, { limits: FEW })
  await signUp('alice')
  const answers: string[] = []
  const signIn = async (name: string, ip: string, password = 'wrong') => {
    const { status } = await call('GET', '/user', { as: basic('alice', password), ip })
    answers.push(`${name} ${status}`)
  }
  await signIn('first', '192.0.2.1')
  await Promise.all([
    signIn('second', '192.0.2.1'),
    signIn('third', '192.0.2.1'),
    signIn('other', '192.0.2.2', passwordOf('alice')),
  ])
  t.equal(answers.at(-1), 'third 401')
  t.strictSame(answers.sort(), ['first 401', 'other 200', 'second 401', 'third 401'])
})

t.test('an address that tries many logins is throttled as well; an IPv6 client counts per /64', async (t) => {
  const { call, admin } = await identityApp(t, { limits: FEW })
  for (const address of ['192.0.2.1', '2001:db8:0:7::1', '::ffff:192.0.2.8']) {
    const ip = (i: number) => (address.startsWith('2001') ? `2001:db8:0:7:${i}::${i}` : address)
    const signIn = async (login: string, i: number) =>
      (await call('GET', '/user', { as: basic(login, 'wrong'), ip: ip(i) })).status
    for (let i = 0; i < 5; i++) t.equal(await signIn(`user${i}`, i), 401)
    t.equal(await signIn('user9', 9), 429, address)
    t.equal((await call('GET', '/user', { as: admin, ip: ip(9) })).status, 200, 'not the right password')
  }
  t.equal(
    (await call('GET', '/user', { as: basic('user1', 'wrong'), ip: '2001:db8:0:8::1' })).status,
    401,
    'another /64 is another client',
  )
})

t.test('a recently verified password needs no slot of a throttled address', async (t) => {
  const limits = { ...FEW, afterwards: { everyMs: 3_600_000, waiting: 0 } }
  const { call, admin, signUp } = await identityApp(t, { limits })
  await signUp('alice')
  const ip = '192.0.2.1'
  const asking = async (as: string) => (await call('GET', '/user', { as, ip })).status
  t.equal(await asking(admin), 200)
  for (let i = 0; i < 5; i++) t.equal(await asking(basic(`user${i}`, 'wrong')), 401)
  t.equal(await asking(basic('user5', 'wrong')), 429)
  t.equal(await asking(basic('alice', passwordOf('alice'))), 429, 'no turn was left')
  t.equal(await asking(admin), 200)
})

t.test('the correct password is never refused, even if it is sent many times simultaneously', async (t) => {
  const { call, admin } = await identityApp(t, { limits: FEW })
  const ip = '192.0.2.1'
  const many = Array.from({ length: 50 }, () => call('GET', '/user', { as: admin, ip }))
  t.same([...new Set((await Promise.all(many)).map(({ status }) => status))], [200])
  const started = performance.now()
  t.equal((await call('GET', '/user', { as: basic('admin', ADMIN_PASSWORD), ip })).status, 200)
  t.comment(`remembered: ${(performance.now() - started).toFixed(1)} ms`)
})

t.test('credentials from the log give no 401 while a server reads the log after a start', async (t) => {
  const { events, views } = openStores(t)
  await views.prepare(READ_MODELS.map(({ collection }) => collection))
  let isCaughtUp = false
  let asked = 0
  const services = {
    events,
    views: createViews(views),
    secrets: createSecretStore(views),
    accountChanges: createAccountChanges(),
    config: { localPasswords: true },
    projector: {
      position: () => 0,
      async caughtUp() {
        asked += 1
        return isCaughtUp
      },
    },
  }
  const perName = { failures: 1, windowMs: 60_000 }
  const limits = { ...FEW, perName, perAddress: perName }
  const authenticate = createAuthenticate(services, limits)
  const signIn = () =>
    authenticate(basic('alice', 'right'), '127.0.0.1').catch((error) => error.refusal.refused)
  for (let i = 0; i < 3; i++) t.equal(await signIn(), 'unavailable', 'not counted as a bad password')
  t.equal(asked, 3)
  isCaughtUp = true
  t.equal(await signIn(), 'unauthenticated')
})
