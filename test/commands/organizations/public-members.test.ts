/** Visibility of memberships: only people inside see members who did not make that public. */
import t from 'tap'
import { startTestServer } from '../../start-server.ts'

const server = await startTestServer(t)

async function call(login: string | null, method: string, path: string, body?: object) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  const text = await answer.text()
  return {
    status: answer.status,
    json: text === '' ? null : JSON.parse(text),
    count: Number(answer.headers.get('x-total-count')),
  }
}

/** What a user sees: members, public members, whether bob is one, and bob's organizations. */
async function seen(by: string | null) {
  const get = (path: string) => call(by, 'GET', path)
  const logins = (users: { login: string }[]) => users.map(({ login }) => login)
  const members = await get('/orgs/acme/members')
  return {
    members: logins(members.json),
    count: members.count,
    public: logins((await get('/orgs/acme/public_members')).json),
    bob: [(await get('/orgs/acme/members/bob')).status, (await get('/orgs/acme/public_members/bob')).status],
    of: (await get('/users/bob/orgs')).json.map(({ name }: { name: string }) => name),
  }
}

const PATH = '/orgs/acme/public_members/bob'
/** carol is in a team only. */
const INSIDE = ['alice', 'bob', 'carol', 'admin']
const OUTSIDE = ['dave', null]
const ALL = { members: ['alice', 'bob', 'carol'], count: 3, of: ['acme'] }
const NOBODY = { members: [], count: 0, public: [], bob: [404, 404], of: [] }

await call('alice', 'POST', '/orgs', { username: 'acme' })
await call('alice', 'PUT', '/orgs/acme/members/bob', { permission: 'read' })
const team = (await call('alice', 'POST', '/orgs/acme/teams', { name: 'readers' })).json.id
await call('alice', 'PUT', `/teams/${team}/members/carol`)

t.test('organization members: strangers see only public members', async (t) => {
  for (const by of INSIDE) t.same(await seen(by), { ...ALL, public: [], bob: [204, 404] }, by)
  for (const by of OUTSIDE) t.same(await seen(by), NOBODY, `${by}`)
})

t.test('only members make their own membership public, as in Gitea', async (t) => {
  const before = await server.services.events.lastPosition()
  t.equal((await call(null, 'PUT', PATH)).status, 401)
  for (const by of ['alice', 'admin', 'carol', 'dave']) {
    t.equal((await call(by, 'PUT', PATH)).status, 403)
    t.equal((await call(by, 'DELETE', PATH)).status, 403)
  }
  t.equal((await call('dave', 'PUT', '/orgs/acme/public_members/dave')).status, 403)
  t.equal((await call('alice', 'PUT', '/orgs/acme/public_members/dave')).status, 403)
  t.equal((await call('alice', 'PUT', '/orgs/acme/public_members/nobody')).status, 404)
  t.equal((await call('bob', 'DELETE', PATH)).status, 204)
  t.same(await server.services.events.lastPosition(), before, 'nothing of that changed anything')
})

t.test('membership is private until it is made public', async (t) => {
  t.equal((await call('bob', 'PUT', PATH)).status, 204)
  t.equal((await call('bob', 'PUT', PATH)).status, 204)
  for (const by of INSIDE) t.same(await seen(by), { ...ALL, public: ['bob'], bob: [204, 204] }, by)
  const bob = { members: ['bob'], count: 1, public: ['bob'], bob: [204, 204], of: ['acme'] }
  for (const by of OUTSIDE) t.same(await seen(by), bob, `${by}`)

  t.equal((await call('carol', 'PUT', '/orgs/acme/public_members/carol')).status, 204)
  t.same((await seen(null)).members, ['bob', 'carol'], 'also that of a team')
  t.equal((await call('carol', 'DELETE', '/orgs/acme/public_members/carol')).status, 204)
  t.same(await seen(null), bob)
})

t.test('a member who leaves and joins again is a private member', async (t) => {
  await call('bob', 'DELETE', '/orgs/acme/members/bob')
  t.same(await seen('dave'), NOBODY)
  await call('alice', 'PUT', '/orgs/acme/members/bob')
  t.same(await seen('dave'), NOBODY)
  t.same(await seen('carol'), { ...ALL, public: [], bob: [204, 404] })
})
