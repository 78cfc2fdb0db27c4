/** Permission to delete a repository. */
import t from 'tap'
import { startTestServer, statusOf } from '../../start-server.ts'

const server = await startTestServer(t)
const [admin, alice, bob, carol] = await Promise.all(
  ['admin', 'alice', 'bob', 'carol'].map((login) => server.as(login)),
)
if (admin === undefined || alice === undefined || bob === undefined || carol === undefined) throw new Error()

t.test('an admin collaborator cannot delete a repository; its owner and site admins can', async (t) => {
  const remove = (client: typeof alice, name: string) => statusOf(client.repos.repoDelete('alice', name))
  for (const name of ['one', 'two']) {
    await alice.user.createCurrentUserRepo({ name })
    await alice.repos.repoAddCollaborator('alice', name, 'bob', { permission: 'admin' })
    t.equal(await remove(bob, name), 403)
    t.equal((await bob.repos.repoGet('alice', name)).data.permissions?.admin, true)
  }
  t.equal((await alice.repos.repoDelete('alice', 'one')).status, 204)
  t.equal((await admin.repos.repoDelete('alice', 'two')).status, 204)
})

t.test('an admin team cannot delete a repository of its organization; the owners can', async (t) => {
  await alice.orgs.orgCreate({ username: 'acme' })
  await alice.orgs.createOrgRepo('acme', { name: 'app' })
  const { data: team } = await alice.orgs.orgCreateTeam('acme', {
    name: 'admins',
    permission: 'admin',
    includes_all_repositories: true,
  })
  await alice.teams.orgAddTeamMember(team.id ?? 0, 'bob')
  t.equal((await bob.repos.repoGet('acme', 'app')).data.permissions?.admin, true)
  t.equal(await statusOf(bob.repos.repoDelete('acme', 'app')), 403)
  const { data: teams } = await alice.orgs.orgListTeams('acme')
  const owners = teams.find(({ name }) => name === 'Owners')
  await alice.teams.orgAddTeamMember(owners?.id ?? 0, 'carol')
  t.equal((await carol.repos.repoDelete('acme', 'app')).status, 204)
})
