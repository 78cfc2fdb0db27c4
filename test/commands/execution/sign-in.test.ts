/** The pure parts of sign-in by OpenID Connect: logins, memberships, claims, sealed cookies. */
import t from 'tap'
import { keyFor, seal, unseal } from '../../../src/auth/sealed.ts'
import { joinedClaims, personIn } from '../../../src/auth/sessions/openid-provider.ts'
import { keepSession, sessionOf, sessions } from '../../../src/auth/sessions/session-store.ts'
import { loginProblem } from '../../../src/commands/users/accounts/names.ts'
import { membershipsBy } from '../../../src/commands/users/sign-in/group-memberships.ts'
import { loginsFor } from '../../../src/commands/users/sign-in/login-name.ts'
import { openStores } from '../../stores.ts'

t.test('a login is derived from the provider, always valid, and then with numbers', async (t) => {
  const first = (login: string, email = '') => loginsFor(login, email)[0]
  t.equal(first('alice'), 'alice')
  t.equal(first('Ålice Ünder@corp.example'), 'Alice-Under')
  t.equal(first('..__a--b..'), 'a-b')
  t.equal(first('', 'bob.b@example.org'), 'bob.b')
  t.equal(first('///', 'bob@example.org'), 'bob')
  t.equal(first('admin'), 'admin-2', 'a reserved login gets a number')
  t.equal(first('x'.repeat(300)), 'x'.repeat(40))
  t.equal(loginsFor('x'.repeat(300), '')[1], `${'x'.repeat(38)}-2`)
  t.same(loginsFor('日本', ''), [])
  for (const login of ['alice', 'x'.repeat(300), 'a.git', '-..-', 'ghost', '9', `${'a'.repeat(37)}-b`]) {
    const logins = loginsFor(login, '')
    t.same(
      logins.map((one) => loginProblem(one)).filter((problem) => problem !== undefined),
      [],
      login,
    )
    t.equal(new Set(logins).size, logins.length)
  }
})

t.test(
  'the highest permission of the groups counts, and every organization of the setting is named',
  async (t) => {
    const grants = [
      { group: 'devs', organization: 'Acme', permission: 'write' },
      { group: 'leads', organization: 'acme', permission: 'admin' },
      { group: 'all', organization: 'acme', permission: 'read' },
      { group: 'docs', organization: 'docs', permission: 'read' },
    ] as const
    const by = (...groups: string[]) => Object.fromEntries(membershipsBy(grants, new Set(groups)))
    t.same(by(), { acme: undefined, docs: undefined })
    t.same(by('all', 'devs'), { acme: 'write', docs: undefined })
    t.same(by('leads', 'all', 'docs'), { acme: 'admin', docs: 'read' })
  },
)

t.test('claims of the wrong type count as missing, and groups that are elsewhere as unknown', async (t) => {
  const names = { oidcLoginClaim: 'login', oidcGroupsClaim: 'groups' }
  const id = { iss: 'https://id.example.org', sub: 's' }
  t.match(personIn({ ...id, login: 7, email: ['x'], email_verified: 'yes', groups: ['a', 1, 'b'] }, names), {
    login: '',
    email: '',
    emailVerified: false,
    groups: new Set(['a', 'b']),
  })
  t.same(personIn({ ...id, groups: 'one' }, names).groups, new Set(['one']))
  t.same(personIn(id, names).groups, new Set())
  t.equal(personIn({ ...id, _claim_names: { groups: 'src1' } }, names).groups, undefined)
  t.equal(personIn({ ...id, email_verified: 'true' }, names).emailVerified, true)
})

t.test('the verified flag counts only from the source of the address', async (t) => {
  const names = { oidcLoginClaim: 'login', oidcGroupsClaim: 'groups' }
  const id = { iss: 'https://id.example.org', sub: 's' }
  const address = (token: object, userInfo: object) => {
    const { email, emailVerified } = personIn(joinedClaims({ ...token, ...id }, { ...userInfo }), names)
    return { email, emailVerified }
  }
  const [own, other] = [{ email: 'own@example.org' }, { email: 'other@example.org' }]
  const verified = { email_verified: true }
  t.same(address({ ...own, ...verified }, other), { ...other, emailVerified: false })
  t.same(address(own, verified), { ...own, emailVerified: false })
  t.same(address(own, { ...other, ...verified }), { ...other, emailVerified: true })
  t.same(address({ ...own, ...verified }, {}), { ...own, emailVerified: true })
  t.match(personIn(joinedClaims(id, { sub: 'x', iss: 'y' }), names), { issuer: id.iss, subject: 's' })
})

t.test('a subject that is longer than OpenID Connect allows is refused', async (t) => {
  const names = { oidcLoginClaim: 'login', oidcGroupsClaim: 'groups' }
  const person = (length: number) =>
    personIn({ iss: 'https://id.example.org', sub: 's'.repeat(length) }, names)
  t.equal(person(255).subject.length, 255)
  t.throws(() => person(256), { name: 'Refused', message: /more than 255 characters/ })
})

t.test('a sealed cookie is opened only by nodes with the same secret', async (t) => {
  const sealed = seal('text', keyFor('sign-in', 'secret'))
  t.equal(unseal(sealed, keyFor('sign-in', 'secret')), 'text')
  t.notMatch(Buffer.from(sealed, 'base64url').toString('latin1'), 'text')
  for (const key of [keyFor('sign-in', 'other'), keyFor('other', 'secret')])
    t.equal(unseal(sealed, key), undefined)
  const bytes = Buffer.from(sealed, 'base64url')
  for (let i = 0; i < bytes.length; i++) {
    const changed = Buffer.from(bytes)
    changed[i] = (changed[i] ?? 0) ^ 1
    t.equal(unseal(changed.toString('base64url'), keyFor('sign-in', 'secret')), undefined)
  }
  for (const bad of ['', 'x', sealed.slice(0, 30)])
    t.equal(unseal(bad, keyFor('sign-in', 'secret')), undefined)
})

t.test('a user has at most twenty sessions, each for a day; a further one ends the oldest', async (t) => {
  const { views: store } = openStores(t)
  await store.prepare([sessions])
  const now = Date.now()
  const old = await keepSession(store, 1, now - 25 * 3_600_000)
  t.equal(await sessionOf(store, old), undefined, 'it is over')
  const ofLaterClock = await keepSession(store, 1, now + 365 * 24 * 3_600_000)
  t.equal(await sessionOf(store, ofLaterClock), undefined, 'it began while the clock was ahead')
  const keys: string[] = []
  for (let i = 0; i < 21; i++) keys.push(await keepSession(store, 1, now - 60_000 + i))
  await keepSession(store, 2)
  const [first = '', second = ''] = keys
  t.equal(await sessionOf(store, first), undefined)
  t.match(await sessionOf(store, second), { userId: 1 })
  t.equal(await store.count(sessions, { userId: 1 }), 20)
  for (const bad of ['', 'x'.repeat(64), '0'.repeat(64)]) t.equal(await sessionOf(store, bad), undefined)
})
