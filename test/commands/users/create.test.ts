import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { isPassword } from '../../../src/auth/passwords/passwords.ts'
import { passwordHashOf, secretCollections } from '../../../src/auth/secrets.ts'
import type { CommandContext } from '../../../src/commands/execution/command-context.ts'
import { claimName } from '../../../src/commands/users/accounts/claims.ts'
import { type AdminPassword, ensureSiteAdmin } from '../../../src/commands/users/site-admin.ts'
import { createKeyedMutex } from '../../../src/concurrency/keyed-mutex.ts'
import { loadConfig } from '../../../src/config/config.ts'
import { LOG_START } from '../../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import { userStream } from '../../../src/events/streams.ts'
import { openSqliteReadStore } from '../../../src/projections/store/sqlite/sqlite.ts'
import { createSecretStore } from '../../../src/services/secret-store.ts'
import { createClaimAges } from '../../../src/services/writes/claim-ages.ts'
import { basic, identityApp, passwordOf } from '../../auth/identity-app.ts'
import { writerOf } from '../../stores.ts'

const log = pino({ level: 'silent' })
const runExclusive = createKeyedMutex()
const bob = { username: 'bob', email: 'bob@example.org', password: passwordOf('bob') }

t.test('a site admin creates a user, who signs in', async (t) => {
  const { call, admin } = await identityApp(t)
  const made = await call('POST', '/admin/users', {
    as: admin,
    body: { ...bob, full_name: 'Bob B.', unknown: [1] },
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

t.test('an invalid user is refused with the name of the field, and leaves no event', async (t) => {
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

t.test('of many requests for one name at the same time, one gets it', async (t) => {
  const { call, admin } = await identityApp(t)
  const many = Array.from({ length: 8 }, (_, i) =>
    call('POST', '/admin/users', { as: admin, body: { ...bob, email: `bob${i}@example.org` } }),
  )
  const statuses = (await Promise.all(many)).map(({ status }) => status).sort()
  t.same(statuses, [201, ...Array.from({ length: 7 }, () => 422)])
})

t.test(
  'a retried request answers with the same user; the same key for another user is refused',
  async (t) => {
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
  },
)

t.test('no event depends on the password, not even through the digest of a request', async (t) => {
  const { call, admin, log } = await identityApp(t)
  const headers = { 'idempotency-key': 'one' }
  t.equal((await call('POST', '/admin/users', { as: admin, headers, body: bob })).status, 201)
  const other = { ...bob, password: 'another password' }
  t.equal((await call('POST', '/admin/users', { as: admin, headers, body: other })).status, 201)
  t.equal(
    (await call('GET', '/user', { as: basic('bob', bob.password) })).status,
    200,
    'the first one counts',
  )
  t.equal((await call('GET', '/user', { as: basic('bob', other.password) })).status, 401)
  const events = JSON.stringify(await log())
  for (const secret of [bob.password, other.password, 'scrypt']) t.notMatch(events, secret)
})

t.test('when the projections lag, the answer still shows the new user', async (t) => {
  const { call, admin, services } = await identityApp(t, { projectionWaitMs: 10 })
  await services.projector.stop()
  const { status, body, headers } = await call('POST', '/admin/users', { as: admin, body: bob })
  t.equal(status, 201)
  t.match(body, { id: 2, login: 'bob', email: 'bob@example.org' })
  t.equal(headers['mergelog-projection'], 'lagging')
})

const crashed = (): CommandContext => ({
  actor: null,
  at: new Date().toISOString(),
  correlationId: 'crashed',
  causationId: 'crashed',
  written: LOG_START,
})

t.test(
  'a claim that a crash left is free after the grace period, and its first request is too late',
  async (t) => {
    const { call, admin, services } = await identityApp(t)
    await claimName(services, crashed(), 'login', 'bob', userStream(77))
    t.equal((await call('POST', '/admin/users', { as: admin, body: bob })).status, 422)
    await claimName(services, crashed(), 'login', 'carol', userStream(78))
    let now = 0
    const position = await services.events.lastPosition()
    services.writeState.claimAges = createClaimAges({ node: 'another', position }, () => now)
    now = 60_000
    const carol = { ...bob, username: 'carol' }
    t.equal((await call('POST', '/admin/users', { as: admin, body: carol })).status, 201)
    t.equal(await claimName(services, crashed(), 'login', 'carol', userStream(78)), false)
    const late: string[] = []
    for await (const { type } of services.events.readStream(userStream(78))) late.push(type)
    t.same(late, ['CreationAbandoned'])
  },
)

t.test('a login whose holder exists is never taken over, even if its claim is old', async (t) => {
  const { services } = await identityApp(t)
  let now = 0
  const position = await services.events.lastPosition()
  services.writeState.claimAges = createClaimAges({ node: 'another', position }, () => now)
  now = 120_000
  t.equal(await claimName(services, crashed(), 'login', 'Admin', userStream(77)), false)
})

t.test('after a first start dies at any write, the next start creates one admin', async (t) => {
  for (let writes = 0; writes <= 4; writes++) {
    await t.test(`after ${writes} writes`, async (t) => {
      const dir = t.testdir()
      const config = loadConfig({ DATA_DIR: dir })
      const events = openSqliteEventStore(join(dir, 'events.db'))
      const secrets = createSecretStore(openSqliteReadStore(join(dir, 'secrets.db'), 'FULL'))
      t.teardown(() => Promise.all([events.close(), secrets.close()]))
      await secrets.prepare(secretCollections)

      let left = writes
      const dying = <A extends unknown[], R>(write: (...args: A) => Promise<R>) => {
        return async (...args: A): Promise<R> => {
          if (left === 0) throw new Error('killed')
          left -= 1
          return write(...args)
        }
      }
      const first = {
        config,
        log,
        runExclusive,
        ...writerOf({ ...events, append: dying(events.append) }),
        secrets: { ...secrets, apply: dying(secrets.apply) },
      }
      await t.rejects(ensureSiteAdmin(first), { message: 'killed' })

      const { chosen } = await ensureSiteAdmin({ config, ...writerOf(events), secrets, runExclusive, log })
      // Slow, and only needed when the first start had stored its own password.
      if (writes === 4) {
        t.equal(await isPassword(chosen ?? '', (await passwordHashOf(secrets, 1)) ?? ''), true)
      }
      t.same(
        await ensureSiteAdmin({ config, ...writerOf(events), secrets, runExclusive, log }),
        { maybeLost: true },
        'a third start changes nothing, and says that the password may be lost',
      )
      const made: unknown[] = []
      for await (const { type, data } of events.readAll()) if (type === 'UserCreated') made.push(data)
      t.same(made, [{ id: 1, login: 'admin', email: 'admin@localhost', fullName: '', siteAdmin: true }])
    })
  }
})

t.test('of nodes that start together, only the one whose password is stored prints it', async (t) => {
  const dir = t.testdir()
  const config = loadConfig({ DATA_DIR: dir })
  const events = openSqliteEventStore(join(dir, 'events.db'))
  const secrets = createSecretStore(openSqliteReadStore(join(dir, 'secrets.db'), 'FULL'))
  t.teardown(() => Promise.all([events.close(), secrets.close()]))
  await secrets.prepare(secretCollections)
  const nodes = [1, 2, 3].map(() =>
    ensureSiteAdmin({ config, ...writerOf(events), secrets, runExclusive, log }),
  )
  const printed = (await Promise.all(nodes)).flatMap(({ chosen = [] }) => chosen)
  t.equal(printed.length, 1)
  t.equal(await isPassword(printed[0] ?? '', (await passwordHashOf(secrets, 1)) ?? ''), true)
})

t.test('a node that another one overtakes during the start does not print its password', async (t) => {
  const dir = t.testdir()
  const config = loadConfig({ DATA_DIR: dir })
  const events = openSqliteEventStore(join(dir, 'events.db'))
  const secrets = createSecretStore(openSqliteReadStore(join(dir, 'secrets.db'), 'FULL'))
  t.teardown(() => Promise.all([events.close(), secrets.close()]))
  await secrets.prepare(secretCollections)
  const stores = { config, ...writerOf(events), secrets, runExclusive, log }
  let isAway = true
  const own = {
    ...secrets,
    apply: async (...args: Parameters<typeof secrets.apply>) => {
      await secrets.apply(...args)
      if (isAway) throw new Error('the store has gone away')
    },
  }
  let overtaking: AdminPassword | undefined
  const overtaken = await ensureSiteAdmin({ ...stores, secrets: own }, async (step) => {
    await t.rejects(step(), { message: 'the store has gone away' })
    isAway = false
    overtaking = await ensureSiteAdmin(stores)
    return step()
  })
  t.same(overtaken, { maybeLost: true })
  t.equal(await isPassword(overtaking?.chosen ?? '', (await passwordHashOf(secrets, 1)) ?? ''), true)
})

t.test(
  'a start with a new DATA_DIR and an old log reports the lost secrets, and how to set a password',
  async (t) => {
    const dir = t.testdir()
    const events = openSqliteEventStore(join(dir, 'events.db'))
    const secretsIn = async (file: string) => {
      const secrets = createSecretStore(openSqliteReadStore(join(dir, file), 'FULL'))
      t.teardown(() => secrets.close())
      await secrets.prepare(secretCollections)
      return secrets
    }
    t.teardown(() => events.close())
    const lines: string[] = []
    const said = pino({}, { write: (line: string) => void lines.push(line) })
    const config = loadConfig({ DATA_DIR: dir })
    await ensureSiteAdmin({
      config,
      ...writerOf(events),
      secrets: await secretsIn('secrets.db'),
      runExclusive,
      log: said,
    })
    t.same(lines, [], 'a first start says nothing')

    const secrets = await secretsIn('new.db')
    const before = await events.lastPosition()
    const { chosen } = await ensureSiteAdmin({
      config,
      ...writerOf(events),
      secrets,
      runExclusive,
      log: said,
    })
    t.match(lines.join(''), /passwords and tokens are gone.*secrets\.db.*of a backup.*ADMIN_PASSWORD/)
    t.equal(await isPassword(chosen ?? '', (await passwordHashOf(secrets, 1)) ?? ''), true, 'it is printed')
    t.same(await ensureSiteAdmin({ config, ...writerOf(events), secrets, runExclusive, log: said }), {
      maybeLost: true,
    })
    t.equal(lines.length, 1, 'it says so once')

    const withPassword = loadConfig({ DATA_DIR: dir, ADMIN_PASSWORD: 'set by the operator' })
    const other = await secretsIn('newer.db')
    const given = await ensureSiteAdmin({
      config: withPassword,
      ...writerOf(events),
      secrets: other,
      runExclusive,
      log: said,
    })
    t.same(given, { maybeLost: false }, 'whoever sets the password knows it')
    t.equal(await isPassword('set by the operator', (await passwordHashOf(other, 1)) ?? ''), true)
    t.equal(await events.lastPosition(), before, 'the log is not changed')
  },
)
