/** A user who could read a repository only by a team, and no longer can, is neither counted nor listed. */
import t from 'tap'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

const server = await startTestServer(t)
const alice = await server.as('alice')
await alice.orgs.orgCreate({ username: 'acme', visibility: 'private' })

const call = async (login: string, method: string, path: string) => {
  const { status } = await server.fetch(login, `/api/v1${path}`, { method })
  if (status >= 300) throw new Error(`${method} ${path}: ${status}`)
}

const linesOf = async (path: string): Promise<{ login: string }[]> =>
  JSON.parse(await (await server.fetch('alice', `/api/v1${path}`)).text())

/** Numbers of its stars, watchers, and subscribers of its issue. */
async function followers(name: string) {
  const { data } = await alice.repos.repoGet('acme', name)
  const path = `/repos/acme/${name}`
  const lists = await Promise.all(
    ['stargazers', 'subscribers', 'issues/1/subscriptions'].map((list) => linesOf(`${path}/${list}`)),
  )
  const others = lists.map((people) => people.filter(({ login }) => login !== 'alice').length)
  return [data.stars_count, data.watchers_count, ...others]
}

/** Bob reads a new repository by a team of his own only. */
async function followed(name: string, includes_all_repositories: boolean) {
  await alice.orgs.createOrgRepo('acme', { name, private: true })
  await alice.repos.issueCreateIssue('acme', name, { title: 'One' })
  const units = ['repo.code', 'repo.issues', 'repo.pulls']
  const team = { name, permission: 'read', units, includes_all_repositories } as const
  const { id = 0 } = (await alice.orgs.orgCreateTeam('acme', team)).data
  if (!includes_all_repositories) await alice.teams.orgAddTeamRepository(id, 'acme', name)
  await alice.teams.orgAddTeamMember(id, 'bob')
  await call('bob', 'PUT', `/user/starred/acme/${name}`)
  await call('bob', 'PUT', `/repos/acme/${name}/subscription`)
  await call('bob', 'PUT', `/repos/acme/${name}/issues/1/subscriptions/bob`)
  t.same(await followers(name), [1, 1, 1, 1, 1])
  return id
}

for (const { how, name, all, end } of [
  {
    how: 'who is taken out of a team',
    name: 'left',
    all: false,
    end: (id: number) => alice.teams.orgRemoveTeamMember(id, 'bob'),
  },
  {
    how: 'who is taken out of a team that has all repositories',
    name: 'left-all',
    all: true,
    end: (id: number) => alice.teams.orgRemoveTeamMember(id, 'bob'),
  },
  {
    how: 'the members of a team that loses a repository',
    name: 'lost',
    all: false,
    end: (id: number) => alice.teams.orgRemoveTeamRepository(id, 'acme', 'lost'),
  },
  {
    how: 'the members of a team that has not all repositories any more',
    name: 'narrowed',
    all: true,
    end: (id: number) => alice.teams.orgEditTeam(id, { name: 'narrowed', includes_all_repositories: false }),
  },
  {
    how: 'the members of a team that is deleted',
    name: 'deleted',
    all: false,
    end: (id: number) => alice.teams.orgDeleteTeam(id),
  },
  {
    how: 'who leaves the organization',
    name: 'gone',
    all: true,
    end: () => call('bob', 'DELETE', '/orgs/acme/members/bob'),
  },
]) {
  t.test(`stars, watching and subscriptions end for ${how}`, async () => {
    await end(await followed(name, all))
    await until('nobody follows', async () => (await followers(name)).every((count) => count === 0))
  })
}
