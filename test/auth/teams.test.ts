/** Permissions through teams apply everywhere and immediately. */
import t from 'tap'
import { workTree } from '../git-client.ts'
import { startTestServer, statusOf } from '../start-server.ts'

const server = await startTestServer(t)
const [alice, bob, carol] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])

const jsonOf = async (answer: Response) => JSON.parse(await answer.text())
const names = (list: readonly { full_name?: string }[]) => list.map(({ full_name }) => full_name)

async function call(login: string, method: string, path: string, body?: object) {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  return (await server.fetch(login, `/api/v1${path}`, init)).status
}

await alice.orgs.orgCreate({ username: 'acme', visibility: 'private' })
for (const name of ['app', 'lib'])
  await alice.orgs.createOrgRepo('acme', { name, private: true, auto_init: true })
const UNITS = ['repo.code', 'repo.issues', 'repo.pulls']
const { data: readers } = await alice.orgs.orgCreateTeam('acme', {
  name: 'readers',
  permission: 'read',
  units: UNITS,
})
const { id: teamId = 0 } = readers
await alice.teams.orgAddTeamRepository(teamId, 'acme', 'app')

const seen = async (login: string) => {
  const client = await server.as(login)
  const search = await jsonOf(await server.fetch(login, '/api/v1/repos/search?limit=50'))
  return {
    app: await statusOf(client.repos.repoGet('acme', 'app')),
    lib: await statusOf(client.repos.repoGet('acme', 'lib')),
    org: await statusOf(client.orgs.orgGet('acme')),
    listed: await client.orgs.orgListRepos('acme').then(
      ({ data }) => names(data),
      () => [],
    ),
    mine: names((await client.user.userCurrentListRepos()).data),
    search: names(search.data),
    issues: (await jsonOf(await server.fetch(login, '/api/v1/repos/issues/search'))).length,
    orgs: (await client.user.orgListCurrentUserOrgs()).data.map(({ name }) => name),
  }
}
const NOTHING = { app: 404, lib: 404, org: 404, listed: [], mine: [], search: [], issues: 0, orgs: [] }
const APP = {
  app: 200,
  lib: 404,
  org: 200,
  listed: ['acme/app'],
  mine: ['acme/app'],
  search: ['acme/app'],
  issues: 1,
  orgs: ['acme'],
}
const BOTH = ['acme/app', 'acme/lib']
await alice.repos.issueCreateIssue('acme', 'app', { title: 'One' })
await alice.repos.issueCreateIssue('acme', 'lib', { title: 'Two' })

t.test(
  'a team gives its members its permission in its repositories, in all lists, until the repository is removed',
  async (t) => {
    t.same(await seen('bob'), NOTHING)
    await alice.teams.orgAddTeamMember(teamId, 'bob')
    t.same(await seen('bob'), APP)
    t.match((await bob.repos.repoGet('acme', 'app')).data.permissions, {
      admin: false,
      push: false,
      pull: true,
    })
    const members = (await alice.orgs.orgListMembers('acme')).data.map(({ login }) => login)
    t.same(members, ['alice', 'bob'], 'as in Gitea, a member of a team is listed')

    await alice.teams.orgEditTeam(teamId, { name: 'readers', includes_all_repositories: true })
    t.match(await seen('bob'), { lib: 200, listed: BOTH, mine: BOTH, search: BOTH, issues: 2 })
    await alice.orgs.createOrgRepo('acme', { name: 'late', private: true })
    t.equal(await statusOf(bob.repos.repoGet('acme', 'late')), 200, 'also a repository that comes later')
    await alice.teams.orgEditTeam(teamId, { name: 'readers', includes_all_repositories: false })
    t.same(await seen('bob'), APP)

    await alice.teams.orgRemoveTeamRepository(teamId, 'acme', 'app')
    t.match(await seen('bob'), { app: 404, org: 200, listed: [], mine: [], search: [] })
    t.equal(await call('alice', 'PUT', '/repos/acme/app/teams/readers'), 204)
    t.same(await seen('bob'), APP)
    await alice.teams.orgRemoveTeamMember(teamId, 'bob')
    t.same(await seen('bob'), NOTHING)
  },
)

t.test('git and issues follow the permission of a team', async (t) => {
  await alice.teams.orgAddTeamMember(teamId, 'bob')
  const work = await workTree(t)
  await work.git('remote', 'add', 'origin', server.gitUrl('bob', 'acme/app'))
  await work.git('pull', '-q', 'origin', 'main')
  await work.commit('more', { a: 'a' })
  const push = () => work.git('push', '-q', 'origin', 'HEAD:main')
  await t.rejects(push(), /403/)
  const assign = { title: 'x', assignees: ['bob'] }
  t.equal(
    await statusOf(alice.repos.issueCreateIssue('acme', 'app', assign)),
    422,
    'who reads is not assigned',
  )
  await alice.teams.orgEditTeam(teamId, { name: 'writers', permission: 'write', units: UNITS })
  t.equal(await statusOf(alice.repos.issueCreateIssue('acme', 'app', assign)), 201)
  await push()
  t.match((await bob.repos.repoGet('acme', 'app')).data.permissions, { admin: false, push: true, pull: true })
  await alice.teams.orgEditTeam(teamId, { name: 'readers', permission: 'read', units: UNITS })
  await work.commit('again', { b: 'b' })
  await t.rejects(push(), /403/)
})

t.test(
  'a live history ends for a user who leaves a team; the history of a repository shows its teams to admins',
  async (t) => {
    const live = await server.fetch('bob', '/api/v1/repos/acme/app/history', {
      headers: { accept: 'text/event-stream' },
    })
    t.equal(live.status, 200)
    await alice.teams.orgRemoveTeamMember(teamId, 'bob')
    await live.text()
    t.pass('it has ended')
    const history = await (await server.fetch('alice', '/api/v1/repos/acme/app/history')).text()
    t.match(history, /TeamRepositoryAdded/)
    await alice.teams.orgAddTeamMember(teamId, 'bob')
    t.notMatch(
      await (await server.fetch('bob', '/api/v1/repos/acme/app/history')).text(),
      /TeamRepositoryAdded/,
    )
  },
)

t.test(
  'a team with the permission may create repositories, which their creator then administers',
  async (t) => {
    const create = () => bob.orgs.createOrgRepo('acme', { name: 'bobs', private: true })
    t.equal(await statusOf(create()), 403)
    await alice.teams.orgEditTeam(teamId, { name: 'readers', can_create_org_repo: true })
    t.match((await create()).data, { full_name: 'acme/bobs', permissions: { admin: true } })
  },
)

t.test('teams are as in Gitea: Owners first, names, units, permissions', async (t) => {
  t.match(readers, {
    name: 'readers',
    permission: 'read',
    includes_all_repositories: false,
    units: UNITS,
    units_map: { 'repo.code': 'read' },
    organization: { name: 'acme' },
  })
  const { data: all } = await alice.orgs.orgListTeams('acme')
  t.match(all, [
    { name: 'Owners', permission: 'owner', includes_all_repositories: true },
    { name: 'readers' },
  ])
  const owners = all[0]?.id ?? 0
  t.same(
    (await alice.teams.orgListTeamMembers(owners)).data.map(({ login }) => login),
    ['alice'],
  )
  t.same(
    (await bob.user.userListTeams()).data.map(({ name }) => name),
    ['readers'],
  )
  t.same(
    (await alice.user.userListTeams()).data.map(({ name }) => name),
    ['Owners'],
  )
  t.same(
    (await bob.orgs.teamSearch('acme', { q: 'EAD' })).data.data?.map(({ name }) => name),
    ['readers'],
  )
  t.same((await bob.orgs.teamSearch('acme', { q: 'owners' })).data.data, [], 'only those of the requester')
  t.same(
    (await alice.repos.repoListTeams('acme', 'app')).data.map(({ name }) => name),
    ['Owners', 'readers'],
  )
  t.same(
    (await alice.repos.repoListTeams('acme', 'lib')).data.map(({ name }) => name),
    ['Owners'],
  )
  t.same(names((await bob.teams.orgListTeamRepos(teamId)).data), ['acme/app'])
  t.equal(await statusOf(bob.teams.orgListTeamMembers(owners)), 403)
  t.equal(await statusOf(carol.teams.orgGetTeam(teamId)), 404)
  t.equal(await statusOf(alice.teams.orgGetTeam(999)), 404)

  for (const [body, status] of [
    [{ name: 'READERS' }, 422],
    [{ name: 'owners' }, 422],
    [{ name: 'no name' }, 422],
    [{ name: 'x', permission: 'owner' }, 422],
    [{ name: 'x', permission: 'read', units: ['repo.code'] }, 422],
    [{ name: 'x', permission: 'read', units: ['repo.nothing'] }, 422],
    [{ name: 'x', units_map: { 'repo.code': 'read', 'repo.issues': 'write', 'repo.pulls': 'read' } }, 422],
    [{ name: 'x', units_map: { 'repo.code': 'write', 'repo.issues': 'write', 'repo.pulls': 'write' } }, 201],
    [{ name: 'y', permission: 'admin' }, 201],
  ] as const) {
    t.equal(await call('alice', 'POST', '/orgs/acme/teams', body), status, JSON.stringify(body))
  }
  t.match((await alice.orgs.orgListTeams('acme')).data.at(2), { name: 'x', permission: 'write' })
  t.equal(await call('alice', 'PATCH', `/teams/${owners}`, { name: 'Bosses' }), 422)
  t.equal(await call('alice', 'DELETE', `/teams/${owners}`), 422)
  t.equal(await call('alice', 'PUT', `/teams/${owners}/members/carol`), 204)
  t.same(
    (await carol.user.userListTeams()).data.map(({ name }) => name),
    ['Owners'],
    'an admin is an owner',
  )
  t.equal(await call('alice', 'DELETE', `/teams/${owners}/members/carol`), 204)
  t.equal(await call('alice', 'DELETE', `/teams/${owners}/members/alice`), 422, 'the last one stays')
})

t.test(
  'a user who leaves the organization, or is deleted, leaves the teams; a deleted team gives no permission',
  async (t) => {
    t.equal(await call('bob', 'DELETE', '/orgs/acme/members/bob'), 204)
    t.match(await seen('bob'), { app: 404, org: 404, mine: ['acme/bobs'] })
    await alice.teams.orgAddTeamMember(teamId, 'bob')
    await alice.teams.orgAddTeamMember(teamId, 'carol')
    t.equal(await call('admin', 'DELETE', '/admin/users/carol'), 204)
    t.same(
      (await alice.teams.orgListTeamMembers(teamId)).data.map(({ login }) => login),
      ['bob'],
    )
    await alice.repos.repoDelete('acme', 'app')
    t.same((await alice.teams.orgListTeamRepos(teamId)).data, [])
    await alice.teams.orgDeleteTeam(teamId)
    t.equal(await statusOf(alice.teams.orgGetTeam(teamId)), 404)
    t.match(await seen('bob'), { org: 404 })
    t.match((await bob.user.userListTeams()).data, [])
  },
)
