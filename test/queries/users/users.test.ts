import type { AccessToken, Organization, User } from 'gitea-js'
import t from 'tap'
import type { Static } from 'typebox'
import type { OrganizationWire } from '../../../src/api/organizations/organizations.ts'
import type { AccessTokenWire } from '../../../src/api/users/tokens.ts'
import type { UserWire } from '../../../src/api/users/users.ts'
import { basic, identityApp, passwordOf } from '../../auth/identity-app.ts'

/** Compiles only if Gitea's client knows the name and type of every field. */
type Known<Wire extends Theirs, Theirs> = Exclude<keyof Wire, keyof Theirs> extends never ? true : never
export const knownToClients: [
  // Gitea sends `username`, too, but does not document it.
  Known<Omit<Static<typeof UserWire>, 'username'>, User>,
  Known<Static<typeof OrganizationWire>, Organization>,
  // These are newer than the client.
  Known<Omit<Static<typeof AccessTokenWire>, 'created_at' | 'last_used_at'>, AccessToken>,
] = [true, true, true]

t.test('only the user and site admins see an e-mail address', async (t) => {
  const { call, signUp, admin } = await identityApp(t)
  await signUp('Alice', 'bob')
  const emailFor = async (as?: string) =>
    (await call('GET', '/users/alice', as === undefined ? {} : { as })).body.email
  t.equal(await emailFor(), 'alice@noreply.git.example.org')
  t.equal(await emailFor(basic('bob', passwordOf('bob'))), 'alice@noreply.git.example.org')
  t.equal(await emailFor(basic('alice', passwordOf('Alice'))), 'Alice@example.org')
  t.equal(await emailFor(admin), 'Alice@example.org')
})

t.test('only site admins see the site admin flag', async (t) => {
  const { call, admin } = await identityApp(t)
  t.equal((await call('GET', '/users/admin')).body.is_admin, false)
  t.equal((await call('GET', '/users/admin', { as: admin })).body.is_admin, true)
  t.equal((await call('GET', '/user', { as: admin })).body.is_admin, true)
})

t.test('an unknown user gives 404, also for unusual names', async (t) => {
  const { call } = await identityApp(t)
  for (const name of ['nobody', '%00', '..%2f..', "'%20OR%201=1--", `${'x'.repeat(90)}`, '%F0%9F%92%A9']) {
    t.equal((await call('GET', `/users/${name}`)).status, 404, name)
  }
})
