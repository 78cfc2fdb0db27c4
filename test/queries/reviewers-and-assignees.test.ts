/** Lists of possible reviewers and assignees. */
import t from 'tap'
import { startTestServer } from '../start-server.ts'

const server = await startTestServer(t, { PAGE_LIMIT_DEFAULT: '2' })
const alice = await server.as('alice')

async function listed(path: string, as = 'alice') {
  const answer = await server.fetch(as, `/api/v1${path}`)
  const people: { login: string }[] = JSON.parse(await answer.text())
  const total = answer.headers.get('x-total-count')
  return { total: Number(total), logins: people.map(({ login }) => login) }
}

const call = async (method: string, path: string, body?: object) => {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const { status } = await server.fetch('admin', `/api/v1${path}`, init)
  if (status >= 300) throw new Error(`${method} ${path}: ${status}`)
}

const everybody = ['bob', 'carol', 'dave', 'erin', 'frank', 'gwen']
for (const login of everybody) await server.as(login)
await alice.orgs.orgCreate({ username: 'acme' })
await alice.orgs.createOrgRepo('acme', { name: 'app', private: true })
await alice.orgs.createOrgRepo('acme', { name: 'open' })

async function team(name: string, permission: 'read' | 'write', all: boolean, ...members: string[]) {
  const units = ['repo.code', 'repo.issues', 'repo.pulls']
  const { data } = await alice.orgs.orgCreateTeam('acme', {
    ...{ name, permission, units, includes_all_repositories: all },
  })
  const { id = 0 } = data
  if (!all) await alice.teams.orgAddTeamRepository(id, 'acme', 'app')
  for (const member of members) await alice.teams.orgAddTeamMember(id, member)
  return id
}

t.test('members, teams and collaborators with sufficient permission can be asked for a review', async (t) => {
  await call('PUT', '/orgs/acme/members/bob', { permission: 'read' })
  await call('PUT', '/orgs/acme/members/carol', { permission: 'write' })
  await call('PUT', '/repos/acme/app/collaborators/dave', { permission: 'read' })
  const writers = await team('writers', 'write', false, 'erin')
  await team('all', 'read', true, 'frank')
  t.same(await listed('/repos/acme/app/reviewers'), {
    ...{ total: 6, logins: ['alice', 'bob', 'carol', 'dave', 'erin', 'frank'] },
  })
  t.same(await listed('/repos/acme/app/assignees'), { total: 3, logins: ['alice', 'carol', 'erin'] })
  t.same(
    await listed('/repos/acme/open/reviewers'),
    { total: 4, logins: ['alice', 'bob', 'carol', 'frank'] },
    'not everybody who may read a public repository',
  )
  t.same(await listed('/repos/acme/app/reviewers?page=2&limit=2'), { total: 6, logins: ['carol', 'dave'] })

  await alice.teams.orgAddTeamMember(writers, 'dave')
  t.same((await listed('/repos/acme/app/assignees')).logins, ['alice', 'carol', 'dave', 'erin'])
  await call('PATCH', '/admin/users/carol', { active: false })
  await alice.teams.orgDeleteTeam(writers)
  await call('PUT', '/orgs/acme/members/bob', { permission: 'write' })
  t.same((await listed('/repos/acme/app/assignees')).logins, ['alice', 'bob'])
})

t.test('the owner and the writers of a repository can be assigned', async (t) => {
  await alice.user.createCurrentUserRepo({ name: 'own', private: true })
  await call('PUT', '/repos/alice/own/collaborators/dave', { permission: 'read' })
  await call('PUT', '/repos/alice/own/collaborators/gwen', { permission: 'write' })
  t.same((await listed('/repos/alice/own/assignees', 'dave')).logins, ['alice', 'gwen'])
  t.same((await listed('/repos/alice/own/reviewers')).logins, ['alice', 'dave', 'gwen'])
})

t.test('the Owners of an organization are listed in pages, without the other members', async (t) => {
  const { id } = (await alice.orgs.orgGet('acme')).data
  await call('PUT', '/orgs/acme/members/gwen', { permission: 'admin' })
  await call('PUT', '/orgs/acme/members/dave', { permission: 'admin' })
  t.same(await listed(`/teams/${id}/members`), { total: 3, logins: ['alice', 'dave'] })
  t.same((await listed(`/teams/${id}/members?page=2`)).logins, ['gwen'])
  await call('PUT', '/orgs/acme/members/dave', { permission: 'write' })
  t.same((await listed(`/teams/${id}/members`)).logins, ['alice', 'gwen'])
})
