import type { Repository } from 'gitea-js'
import t from 'tap'
import { workTree } from '../../git-client.ts'
import { startTestServer, statusOf } from '../../start-server.ts'

const server = await startTestServer(t)
const [alice, bob, admin] = await Promise.all(['alice', 'bob', 'admin'].map((login) => server.as(login)))
if (alice === undefined || bob === undefined || admin === undefined) throw new Error('no clients')

/** alice: app (topics), Vault (private, shared with bob), old (archived), tpl (template); acme/site, acme/inner (private). */
await alice.user.createCurrentUserRepo({
  name: 'renovate-app',
  description: 'Keeps anvils current',
  auto_init: true,
})
await alice.user.createCurrentUserRepo({ name: 'Vault', private: true })
await alice.user.createCurrentUserRepo({ name: 'old' })
await alice.user.createCurrentUserRepo({ name: 'tpl', template: true })
await alice.repos.repoAddCollaborator('alice', 'Vault', 'bob', { permission: 'write' })
await alice.repos.repoEdit('alice', 'old', { archived: true })
await alice.repos.repoUpdateTopics('alice', 'renovate-app', { topics: ['CI', ' automation ', 'ci'] })
await alice.repos.repoUpdateTopics('alice', 'Vault', { topics: ['secret-plan'] })
await alice.orgs.orgCreate({ username: 'acme' })
await alice.orgs.createOrgRepo('acme', { name: 'site' })
await alice.orgs.createOrgRepo('acme', { name: 'inner', private: true })
await bob.repos.createFork('alice', 'renovate-app', {})
const ids = Object.fromEntries(
  await Promise.all(
    ['alice', 'bob', 'acme'].map(async (login) => [
      login,
      (await server.anonymous.users.userGet(login)).data.id,
    ]),
  ),
)

const jsonOf = async (answer: Response) => JSON.parse(await answer.text())

async function search(login: string | null, query: Record<string, string | number>) {
  const text = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) text.set(name, `${value}`)
  const answer = await server.fetch(login, `/api/v1/repos/search?${text}`)
  const { ok, data = [] }: { ok?: boolean; data?: Repository[] } = await jsonOf(answer)
  const names = data.map(({ full_name }) => full_name)
  return { status: answer.status, ok, data, names, total: answer.headers.get('X-Total-Count') }
}

const PUBLIC = ['acme/site', 'alice/old', 'alice/renovate-app', 'alice/tpl', 'bob/renovate-app']
const ALL = [
  'acme/inner',
  'acme/site',
  'alice/old',
  'alice/renovate-app',
  'alice/tpl',
  'alice/Vault',
  'bob/renovate-app',
]

t.test('GET /repos/search finds what the requester may read, sorted by owner and name', async (t) => {
  t.match(await search(null, {}), { status: 200, ok: true, names: PUBLIC, total: '5' })
  t.same((await search('dave', {})).names, PUBLIC)
  t.same((await search('bob', {})).names, [...PUBLIC.slice(0, 4), 'alice/Vault', 'bob/renovate-app'])
  t.same((await search('alice', {})).names, ALL)
  t.same((await search('admin', {})).names, ALL)
  const { data } = await search('bob', { q: 'vault' })
  t.match(data, [{ permissions: { admin: false, push: true, pull: true }, owner: { login: 'alice' } }])
  const page = await search('alice', { page: 2, limit: 3 })
  t.match(page, { names: ALL.slice(3, 6), total: '7' })
  t.same((await search('alice', { page: 1000 })).names, [])
})

t.test(
  'GET /repos/search finds parts of names and topics; with includeDesc, words of the description too',
  async (t) => {
    const found = async (q: string, more = {}) => (await search('alice', { q, ...more })).names
    t.same(await found('ate-A'), ['alice/renovate-app', 'bob/renovate-app'])
    t.same(await found('alice/APP'), ['alice/renovate-app'], 'of one owner')
    t.same(await found('nobody/app'), [])
    t.same(await found('tomati'), ['alice/renovate-app'], 'a part of a topic')
    t.same(await found('ali'), [], 'not the owner')
    t.same(await found('anvil'), [])
    t.same(await found('anvil', { includeDesc: 'true' }), ['alice/renovate-app', 'bob/renovate-app'])
    t.same(await found('keeps anvils', { includeDesc: 'true' }), ['alice/renovate-app', 'bob/renovate-app'])
    t.same(await found('ci,secret-plan', { topic: 'true' }), ['alice/renovate-app', 'alice/Vault'])
    t.same((await search(null, { q: 'secret-plan', topic: 'true' })).names, [], 'private is not there')
    t.same(await found('c', { topic: 'true' }), [], 'a whole topic')
    t.equal((await search('alice', { q: 'a,b' })).status, 422)
  },
)

t.test('GET /repos/search filters by owner, member, visibility, archived, template and kind', async (t) => {
  const found = async (login: string | null, query: Record<string, string | number>) =>
    (await search(login, query)).names
  const { alice: aliceId = 0, bob: bobId = 0, acme: acmeId = 0 } = ids
  t.same(await found('bob', { uid: bobId }), ['alice/Vault', 'bob/renovate-app'], 'as Renovate asks')
  t.same(await found('bob', { uid: bobId, exclusive: 'true' }), ['bob/renovate-app'])
  t.same(await found('bob', { uid: bobId, mode: 'collaborative' }), ['alice/Vault'])
  t.same(
    await found('alice', { uid: bobId }),
    ['bob/renovate-app'],
    'what others share with bob is not theirs to see',
  )
  t.same(await found('admin', { uid: bobId }), ['alice/Vault', 'bob/renovate-app'])
  t.same(await found('alice', { uid: aliceId, mode: 'collaborative' }), ['acme/inner', 'acme/site'])
  t.same(await found(null, { uid: acmeId }), ['acme/site'])
  t.same(await found(null, { uid: 999 }), [])
  t.same(await found('alice', { owner: 'ACME' }), ['acme/inner', 'acme/site'])
  t.same(await found('alice', { owner: 'acme', uid: bobId, exclusive: 'true' }), [])
  t.same(await found('alice', { private: 'false' }), PUBLIC)
  t.same(await found('alice', { is_private: 'true' }), ['acme/inner', 'alice/Vault'])
  t.same(await found('alice', { archived: 'true' }), ['alice/old'])
  t.same(await found('alice', { archived: 'false', owner: 'alice' }), [
    'alice/renovate-app',
    'alice/tpl',
    'alice/Vault',
  ])
  t.same(await found('alice', { template: 'true' }), ['alice/tpl'])
  t.same(await found('alice', { mode: 'fork' }), ['bob/renovate-app'])
  t.same(await found('alice', { mode: 'source', owner: 'bob' }), [])
  t.same(await found('alice', { mode: 'mirror' }), [])
  for (const query of [{ mode: 'x' }, { sort: 'x' }, { sort: 'id', order: 'x' }, { sort: 'size' }]) {
    t.equal((await search('alice', query)).status, 422, JSON.stringify(query))
  }
})

t.test('GET /repos/search finds what a user has starred, and what a team has', async (t) => {
  const { bob: bobId = 0, acme: acmeId = 0 } = ids
  const found = async (login: string | null, query: Record<string, string | number>) =>
    (await search(login, query)).names
  for (const [owner, name] of [
    ['alice', 'tpl'],
    ['acme', 'site'],
    ['alice', 'renovate-app'],
  ] as const) {
    await bob.user.userCurrentPutStar(owner, name)
  }
  await bob.user.userCurrentDeleteStar('alice', 'renovate-app')
  await alice.user.userCurrentPutStar('acme', 'site')
  t.same(await found(null, { starredBy: bobId }), ['acme/site', 'alice/tpl'])
  t.same(await found('alice', { starredBy: bobId, owner: 'alice' }), ['alice/tpl'])
  t.same(await found('alice', { starredBy: acmeId }), [])
  t.same(await found('alice', { starredBy: 999 }), [])
  t.same((await found('alice', { sort: 'stars', order: 'desc' })).slice(0, 2), ['acme/site', 'alice/tpl'])
  t.match((await bob.users.userGet('bob')).data, { starred_repos_count: 2 })
  t.match((await alice.users.userGet('bob')).data, { starred_repos_count: 2 })

  const { data: team } = await alice.orgs.orgCreateTeam('acme', {
    name: 'seekers',
    permission: 'read',
    units: ['repo.code', 'repo.issues', 'repo.pulls'],
  })
  const { id: teamId = 0 } = team
  await alice.teams.orgAddTeamRepository(teamId, 'acme', 'inner')
  t.same(await found('alice', { team_id: teamId }), ['acme/inner'])
  t.same(await found('bob', { team_id: teamId }), [], 'who is not in the organization does not learn of it')
  t.same(await found('alice', { team_id: acmeId }), ['acme/inner', 'acme/site'], 'its Owners have all')
  await alice.teams.orgEditTeam(teamId, { name: 'seekers', includes_all_repositories: true })
  t.same(await found('alice', { team_id: teamId }), ['acme/inner', 'acme/site'])
  t.same(await found('alice', { team_id: teamId, owner: 'alice' }), [])
  await alice.teams.orgDeleteTeam(teamId)
})

t.test('GET /repos/search sorts, and puts a preferred owner first', async (t) => {
  const found = async (query: Record<string, string | number>) => (await search('alice', query)).names
  t.same(await found({ sort: 'alpha', order: 'desc' }), [...ALL].reverse())
  t.same(await found({ sort: 'id' }).then((names) => names[0]), 'alice/renovate-app')
  t.same((await found({ sort: 'created', order: 'desc' }))[0], 'bob/renovate-app')
  t.same((await found({ sort: 'forks', order: 'desc' }))[0], 'alice/renovate-app')
  t.same((await found({ sort: 'updated' })).length, ALL.length)
  const { bob: bobId = 0 } = ids
  const first = await found({ priority_owner_id: bobId })
  t.equal(first[0], 'bob/renovate-app')
  t.same([...first].sort(), [...ALL].sort())
  t.same(await found({ priority_owner_id: bobId, limit: 2, page: 2 }), first.slice(2, 4))
})

t.test(
  'topics are kept as in Gitea, and GET /topics/search lists those of public repositories',
  async (t) => {
    const topicsOf = async () => (await alice.repos.repoListTopics('alice', 'renovate-app')).data.topics
    t.same(await topicsOf(), ['automation', 'ci'])
    t.same((await alice.repos.repoGet('alice', 'renovate-app')).data, {
      ...(await alice.repos.repoGet('alice', 'renovate-app')).data,
      topics: ['automation', 'ci'],
    })
    t.equal(await statusOf(alice.repos.repoAddTopic('alice', 'renovate-app', 'Go')), 204)
    t.equal(await statusOf(alice.repos.repoAddTopic('alice', 'renovate-app', 'no topic')), 422)
    t.equal(await statusOf(alice.repos.repoDeleteTopic('alice', 'renovate-app', 'go')), 204)
    t.equal(await statusOf(alice.repos.repoDeleteTopic('alice', 'renovate-app', 'go')), 404)
    const many = Array.from({ length: 26 }, (_, i) => `t${i}`)
    t.equal(await statusOf(alice.repos.repoUpdateTopics('alice', 'renovate-app', { topics: many })), 422)
    t.equal(await statusOf(bob.repos.repoUpdateTopics('alice', 'renovate-app', { topics: [] })), 403)

    const listed = async (q: string) => {
      const { topics }: { topics: { topic_name: string; repo_count: number }[] } = await jsonOf(
        await server.fetch('dave', `/api/v1/topics/search?q=${q}`),
      )
      return topics.map(({ topic_name, repo_count }) => `${topic_name} ${repo_count}`)
    }
    await bob.repos.repoUpdateTopics('bob', 'renovate-app', { topics: ['ci'] })
    t.same(await listed(''), ['ci 2', 'automation 1'])
    t.same(await listed('mat'), ['automation 1'])
    t.same(await listed('secret'), [], 'a private repository does not say its topics')
    await alice.repos.repoEdit('alice', 'Vault', { private: false })
    t.same(await listed('secret'), ['secret-plan 1'])
    await alice.repos.repoEdit('alice', 'Vault', { private: true })
    t.same(await listed('secret'), [])
    await bob.repos.repoDelete('bob', 'renovate-app')
    t.same(await listed('ci'), ['ci 1'])
  },
)

t.test('an archived repository can be read, and nothing in it changes; its settings can', async (t) => {
  const work = await workTree(t)
  await work.git('remote', 'add', 'origin', server.gitUrl('alice', 'alice/renovate-app'))
  await work.git('pull', '-q', 'origin', 'main')
  await work.commit('more', { a: 'a' })
  await alice.repos.repoEdit('alice', 'renovate-app', { archived: true })
  t.match((await alice.repos.repoGet('alice', 'renovate-app')).data, { archived: true, archived_at: /^20/ })
  const issue = () => alice.repos.issueCreateIssue('alice', 'renovate-app', { title: 'x' })
  t.equal(await statusOf(issue()), 423)
  t.equal(
    await statusOf(alice.repos.issueCreateLabel('alice', 'renovate-app', { name: 'x', color: '#aabbcc' })),
    423,
  )
  t.equal(await statusOf(alice.repos.repoDeleteBranch('alice', 'renovate-app', 'main')), 423)
  t.equal(
    await statusOf(server.anonymous.repos.issueCreateIssue('alice', 'renovate-app', { title: 'x' })),
    401,
  )
  t.equal(await statusOf(alice.repos.issueListIssues('alice', 'renovate-app')), 200)
  await t.rejects(work.git('push', '-q', 'origin', 'HEAD:main'), /403/)
  t.equal(await statusOf(alice.repos.repoUpdateTopics('alice', 'renovate-app', { topics: ['done'] })), 204)
  t.equal(await statusOf(alice.repos.repoEdit('alice', 'renovate-app', { archived: false })), 200)
  t.equal((await alice.repos.repoGet('alice', 'renovate-app')).data.archived_at, '0001-01-01T00:00:00Z')
  t.equal(await statusOf(issue()), 201)
})

t.test('accounts are searched and listed as in Gitea', async (t) => {
  await server.fetch('admin', '/api/v1/admin/users/carol', {
    method: 'PATCH',
    body: JSON.stringify({ full_name: 'Caroline Smith', active: false }),
  })
  const users = async (query: string) => {
    const answer = await server.fetch('dave', `/api/v1/users/search?${query}`)
    const { ok, data }: { ok: boolean; data: { login: string }[] } = await jsonOf(answer)
    t.ok(ok)
    return data.map(({ login }) => login)
  }
  t.same(await users(''), ['admin', 'alice', 'bob', 'carol', 'dave'])
  t.same(await users('q=LIC'), ['alice'])
  t.same(await users('q=ne+smi'), ['carol'])
  t.same(await users(`uid=${ids.bob}`), ['bob'])
  t.same(await users('q=acme'), [], 'an organization is no user')
  t.same(await users('limit=2&page=2'), ['bob', 'carol'])

  await alice.orgs.orgCreate({ username: 'limited', visibility: 'limited' })
  await alice.orgs.orgCreate({ username: 'closed', visibility: 'private' })
  const orgs = async (login: string | null, path = '/orgs') => {
    const list: { name: string }[] = await jsonOf(await server.fetch(login, `/api/v1${path}`))
    return list.map(({ name }) => name)
  }
  t.same(await orgs(null), ['acme'])
  t.same(await orgs('alice'), ['acme', 'limited'], 'also a member of a private one, as in Gitea')
  t.same(await orgs('admin'), ['acme', 'closed', 'limited'])
  t.same(await orgs('admin', '/admin/orgs'), ['acme', 'closed', 'limited'])

  const admins = async (query: string) => {
    const answer = await server.fetch('admin', `/api/v1/admin/users?${query}`)
    const list: { login: string }[] = await jsonOf(answer)
    return answer.status === 200 ? list.map(({ login }) => login) : answer.status
  }
  t.same(await admins('is_admin=true'), ['admin'])
  t.same(await admins('is_active=false'), ['carol'])
  t.same(await admins('q=o&is_active=true&source_id=0'), ['bob'])
  t.equal(await admins('source_id=1'), 422)
  t.equal(await admins('login_name=bob'), 422)

  const { data: made } = await admin.admin.adminCreateOrg('bob', { username: 'bobs' })
  t.match(made, { name: 'bobs' })
  t.same(
    (await bob.user.orgListCurrentUserOrgs()).data.map(({ name }) => name),
    ['bobs'],
  )
  t.match((await admin.admin.adminCreateRepo('bobs', { name: 'new' })).data, { full_name: 'bobs/new' })
  t.match((await admin.admin.adminCreateRepo('bob', { name: 'own' })).data, { owner: { login: 'bob' } })
  t.equal(await statusOf(admin.admin.adminCreateOrg('acme', { username: 'x1' })), 404)
  t.equal(await statusOf(alice.admin.adminCreateRepo('bob', { name: 'x' })), 403)
})

t.test(
  'POST /repos/{owner}/{repo}/generate makes a repository with one commit of the files of a template',
  async (t) => {
    await alice.user.createCurrentUserRepo({ name: 'mold', auto_init: true, private: true })
    const work = await workTree(t)
    await work.git('remote', 'add', 'origin', server.gitUrl('alice', 'alice/mold'))
    await work.git('pull', '-q', 'origin', 'main')
    await work.commit('Second', { 'a.txt': 'one', 'b.txt': 'two' })
    await work.git('push', '-q', 'origin', 'HEAD:main')
    await alice.repos.repoUpdateTopics('alice', 'mold', { topics: ['forms'] })
    await alice.repos.issueCreateLabel('alice', 'mold', { name: 'bug', color: '#aabbcc' })
    await alice.repos.repoCreateBranchProtection('alice', 'mold', { rule_name: 'main' })
    const made = (body: object, login = 'alice') =>
      server.fetch(login, '/api/v1/repos/alice/mold/generate', {
        method: 'POST',
        body: JSON.stringify({ owner: login, name: 'cast', git_content: true, ...body }),
        headers: { 'Idempotency-Key': `cast ${JSON.stringify(body)}` },
      })
    t.equal((await made({})).status, 422, 'it is no template')
    await alice.repos.repoEdit('alice', 'mold', { template: true })
    t.equal((await made({ git_content: false })).status, 422, 'nothing is asked for')
    t.equal((await made({ webhooks: true })).status, 422)
    t.equal((await made({ owner: 'bob' })).status, 403)
    t.equal((await made({ owner: 'nobody' })).status, 404)
    t.equal((await made({}, 'bob')).status, 404, 'a private template')
    const all = { topics: true, labels: true, protected_branch: true, default_branch: 'trunk', private: true }
    const answer = await made(all)
    t.match(
      [answer.status, await jsonOf(answer)],
      [
        201,
        {
          full_name: 'alice/cast',
          default_branch: 'trunk',
          private: true,
          empty: false,
          topics: ['forms'],
          fork: false,
        },
      ],
    )
    t.match([(await made(all)).status], [201], 'a retry makes no other one')
    t.equal((await made({ ...all, description: 'x' })).status, 409, 'the name is taken')
    const copy = await workTree(t)
    await copy.git('pull', '-q', server.gitUrl('alice', 'alice/cast'), 'trunk')
    t.equal(await copy.git('rev-list', '--count', 'HEAD'), '1')
    t.equal(await copy.git('rev-parse', 'HEAD^{tree}'), await work.git('rev-parse', 'HEAD^{tree}'))
    t.equal(await copy.git('log', '-1', '--format=%s %an'), 'Initial commit alice')
    t.match((await alice.repos.issueListLabels('alice', 'cast')).data, [{ name: 'bug' }])
    t.equal((await alice.repos.issueListLabels('alice', 'cast')).data.length, 1)
    t.match((await alice.repos.repoListBranchProtection('alice', 'cast')).data, [{ rule_name: 'main' }])
    t.match((await alice.repos.repoListBranches('alice', 'cast')).data, [{ name: 'trunk' }])
  },
)
