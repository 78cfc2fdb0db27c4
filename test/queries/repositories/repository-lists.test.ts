import type { Repository } from 'gitea-js'
import t from 'tap'
import { seedEvents } from '../../../bench/seed/events.ts'
import { type Gitea, startTestServer, statusOf } from '../../start-server.ts'

const names = (list: readonly Repository[]) => list.map(({ full_name }) => full_name)
const access = (list: readonly Repository[]) =>
  Object.fromEntries(list.map(({ full_name, permissions }) => [full_name, permissions]))

const READ = { admin: false, push: false, pull: true }
const WRITE = { admin: false, push: true, pull: true }
const ADMIN = { admin: true, push: true, pull: true }

const server = await startTestServer(t)
const admin = await server.as('admin')
const alice = await server.as('alice')
const bob = await server.as('bob')

/** Gives a user `app` and the private `vault`, which another one may write to. */
async function giveRepositories(owner: string, writer: string): Promise<void> {
  const client = await server.as(owner)
  await client.user.createCurrentUserRepo({ name: 'app' })
  await client.user.createCurrentUserRepo({ name: 'vault', private: true })
  await client.repos.repoAddCollaborator(owner, 'vault', writer, { permission: 'write' })
}

await giveRepositories('alice', 'bob')

t.test(
  'repositories.list.1: only the user and site admins see private repositories; each row has the access',
  async (t) => {
    const of = async (client: Gitea, name = 'alice') => (await client.users.userListRepos(name)).data

    t.same(access(await of(alice)), { 'alice/app': ADMIN, 'alice/vault': ADMIN })
    t.same(access(await of(admin)), { 'alice/app': ADMIN, 'alice/vault': ADMIN })
    t.same(access(await of(server.anonymous)), { 'alice/app': READ })
    t.same(access(await of(bob)), { 'alice/app': READ }, 'a collaborator sees no private one here')
    t.match(await of(alice, 'ALICE'), [{ name: 'app', owner: { login: 'alice' } }, { name: 'vault' }])
    t.same(await of(alice, 'bob'), [], 'an empty list when there are none')
    t.equal(await statusOf(alice.users.userListRepos('nobody')), 404)
  },
)

t.test(
  'repositories.list.2: own repositories first, then those with granted access; only for signed-in users',
  async (t) => {
    await bob.user.createCurrentUserRepo({ name: 'Zoo' })
    await bob.user.createCurrentUserRepo({ name: 'notes', private: true })
    await admin.orgs.orgCreate({ username: 'zeta' })
    await admin.orgs.createOrgRepo('zeta', { name: 'site', private: true })
    await admin.orgs.createOrgRepo('zeta', { name: 'open' })
    await server.fetch('admin', '/api/v1/orgs/zeta/members/bob', { method: 'PUT', body: '{}' })

    const { data } = await bob.user.userCurrentListRepos()
    t.same(names(data), ['bob/notes', 'bob/Zoo', 'alice/vault', 'zeta/open', 'zeta/site'])
    t.same(data.map(({ permissions }) => permissions).slice(0, 3), [ADMIN, ADMIN, WRITE])
    const { data: hers } = await alice.user.userCurrentListRepos()
    t.same(names(hers), ['alice/app', 'alice/vault'], "strangers' public ones are not there")
    t.notOk(
      names((await admin.user.userCurrentListRepos()).data).includes('alice/vault'),
      'a site admin does not get all repositories here either',
    )
    t.equal(await statusOf(server.anonymous.user.userCurrentListRepos()), 401)
  },
)

t.test(
  'repositories.list.3: members and site admins see the private repositories of an organization',
  async (t) => {
    for (const [username, visibility] of [
      ['acme', 'public'],
      ['secret', 'private'],
    ] as const) {
      await admin.orgs.orgCreate({ username, visibility })
      await admin.orgs.createOrgRepo(username, { name: 'site' })
      await admin.orgs.createOrgRepo(username, { name: 'vault', private: true })
      await server.fetch('admin', `/api/v1/orgs/${username}/members/alice`, { method: 'PUT', body: '{}' })
    }
    const of = async (client: Gitea, org: string) => names((await client.orgs.orgListRepos(org)).data)
    t.same(await of(alice, 'acme'), ['acme/site', 'acme/vault'])
    t.same(await of(admin, 'acme'), ['acme/site', 'acme/vault'])
    t.same(await of(bob, 'acme'), ['acme/site'])
    t.same(await of(server.anonymous, 'acme'), ['acme/site'])
    t.same(
      names((await bob.users.userListRepos('acme')).data),
      ['acme/site'],
      'the same list under the path of users',
    )
    t.same(await of(alice, 'secret'), ['secret/site', 'secret/vault'])
    t.equal(await statusOf(bob.orgs.orgListRepos('secret')), 404, 'the requester may not see it')
    t.equal(await statusOf(bob.users.userListRepos('secret')), 404)
    t.equal(await statusOf(alice.orgs.orgListRepos('alice')), 404, 'a user is not an organization')
  },
)

t.test(
  'repositories.list.4: one answer has more than a thousand repositories, each once and in order',
  async (t) => {
    await giveRepositories('carol', 'dave')
    const { data: carols } = await (await server.as('carol')).user.userGetCurrent()
    const { data: daves } = await (await server.as('dave')).user.userGetCurrent()
    const { events, projector } = server.services
    const MANY = 1205
    const repositories = Array.from({ length: MANY }, (_, i) => ({
      name: `${i % 2 === 0 ? 'R' : 'r'}epo-${i}`,
      private: i % 3 === 0,
    }))
    for (const { id = 0, login = '' } of [carols, daves]) {
      const author = { id, login }
      await seedEvents(events, { owner: { ...author, kind: 'user' }, author, repositories })
    }
    t.ok(await projector.waitFor(await events.lastPosition(), 60_000))

    const inOrder = (owner: string, ...more: string[]) =>
      [...repositories.map(({ name }) => `${owner}/${name}`), ...more].sort((a, b) =>
        a.toLowerCase() < b.toLowerCase() ? -1 : 1,
      )
    const own = await server.fetch('carol', '/api/v1/user/repos')
    t.equal(own.headers.get('X-Total-Count'), `${MANY + 2}`)
    const link = (rel: string) => `<${server.url}/api/v1/user/repos>; rel="${rel}"`
    t.equal(own.headers.get('Link'), `${link('first')}, ${link('last')}`)
    t.match(own.headers.get('Content-Type'), 'application/json')
    const list: Repository[] = JSON.parse(await own.text())
    const whole = inOrder('carol', 'carol/app', 'carol/vault')
    t.same(names(list), whole)
    const page = await server.fetch('carol', '/api/v1/user/repos?limit=20&page=61')
    t.same(names(JSON.parse(await page.text())), whole.slice(-7), 'a page, when one is asked for')
    t.equal(page.headers.get('X-Total-Count'), `${MANY + 2}`)
    t.match(page.headers.get('Link'), /page=60.*rel="prev"/)

    const theirs = await server.fetch('dave', '/api/v1/user/repos')
    const davesOwn = [...inOrder('dave'), 'carol/vault']
    t.same(names(JSON.parse(await theirs.text())), davesOwn)
    const border = await server.fetch('dave', '/api/v1/user/repos?limit=2&page=603')
    t.same(names(JSON.parse(await border.text())), davesOwn.slice(1204, 1206), 'own and others on one page')

    const shown = await server.fetch(null, '/api/v1/users/carol/repos')
    const open: Repository[] = JSON.parse(await shown.text())
    t.equal(shown.headers.get('X-Total-Count'), `${open.length}`)
    t.equal(open.length, repositories.filter((repository) => !repository.private).length + 1)
    t.ok(open.every((repository) => repository.private === false))
  },
)
