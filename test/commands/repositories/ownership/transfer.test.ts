import t from 'tap'
import { workTree } from '../../../git-client.ts'
import { startTestServer, statusOf } from '../../../start-server.ts'
import { until } from '../../../until.ts'

const server = await startTestServer(t)
const [admin, alice, bob, carol, dave] = await Promise.all([
  server.as('admin'),
  server.as('alice'),
  server.as('bob'),
  server.as('carol'),
  server.as('dave'),
])
let made = 0
/** A new repository of alice. */
async function repository(options: object = {}) {
  made += 1
  const name = `app-${made}`
  const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true, ...options })
  return { name, id: data.id ?? 0, path: `/api/v1/repos/alice/${name}` }
}
async function organization(login: string, visibility = 'public') {
  await alice.orgs.orgCreate({ username: login, visibility: visibility as 'public' })
  return login
}
async function call(login: string | null, method: string, path: string, body?: object) {
  const response = await server.fetch(login, path, {
    method,
    redirect: 'manual',
    ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  })
  const text = await response.text()
  return {
    status: response.status,
    location: response.headers.get('location'),
    body: text === '' ? undefined : JSON.parse(text),
  }
}
const typesOf = async (path: string, login = 'alice') =>
  ((await call(login, 'GET', `${path}/history`)).body as { type: string }[]).map(({ type }) => type)

t.test(
  'a user gets a repository by accepting it; until then it stays, and the recipient may read it',
  async (t) => {
    const { name, path, id } = await repository({ private: true })
    t.equal(await statusOf(bob.repos.repoGet('alice', name)), 404)
    const started = await alice.repos.repoTransfer('alice', name, { new_owner: 'BOB' })
    t.equal(started.status, 201)
    t.match(started.data, {
      full_name: `alice/${name}`,
      repo_transfer: { doer: { login: 'alice' }, recipient: { login: 'bob' }, teams: [] },
    })
    t.match((await bob.repos.repoGet('alice', name)).data, {
      permissions: { admin: false, push: false, pull: true },
      repo_transfer: { recipient: { login: 'bob' } },
    })
    const found = await call('bob', 'GET', `/api/v1/repos/search?q=${name}`)
    t.match(found.body.data, [{ id, repo_transfer: { doer: { login: 'alice' } } }], 'lists know it, too')
    t.equal(await statusOf(carol.repos.repoGet('alice', name)), 404)

    t.equal(
      await statusOf(alice.repos.repoTransfer('alice', name, { new_owner: 'carol' })),
      409,
      'one at a time',
    )
    t.equal(await statusOf(admin.repos.repoTransfer('alice', name, { new_owner: 'carol' })), 409)
    t.equal(await statusOf(carol.repos.acceptRepoTransfer('alice', name)), 404)
    t.equal(await statusOf(alice.repos.acceptRepoTransfer('alice', name)), 403, 'not the sender')
    t.equal(await statusOf(admin.repos.acceptRepoTransfer('alice', name)), 403, 'nor a site admin')

    const accepted = await bob.repos.acceptRepoTransfer('alice', name)
    t.equal(accepted.status, 202)
    t.match(accepted.data, { id, full_name: `bob/${name}`, permissions: { admin: true } })
    t.notOk(accepted.data.repo_transfer)
    t.equal(
      (await call('alice', 'GET', `/api/v1/repos/bob/${name}`)).status,
      404,
      'the old owner has lost access',
    )
    t.equal((await call('alice', 'GET', path)).status, 404, 'nor is told where it is')
    t.equal(await statusOf(bob.repos.acceptRepoTransfer('bob', name)), 404, 'no transfer is pending')
    t.equal(await statusOf(bob.repos.rejectRepoTransfer('bob', name)), 404)
    t.strictSame((await typesOf(`/api/v1/repos/bob/${name}`, 'bob')).slice(-2), [
      'TransferStarted',
      'RepositoryTransferred',
    ])
  },
)

t.test('the recipient rejects a transfer, the sender or the owner cancels it', async (t) => {
  const { name } = await repository({ private: true })
  await alice.repos.repoTransfer('alice', name, { new_owner: 'bob' })
  t.equal((await bob.repos.rejectRepoTransfer('alice', name)).status, 200)
  t.equal(await statusOf(bob.repos.repoGet('alice', name)), 404, 'the right to read ends with it')
  t.equal(await statusOf(bob.repos.acceptRepoTransfer('alice', name)), 404)

  await alice.repos.repoTransfer('alice', name, { new_owner: 'bob' })
  const taken = await alice.repos.rejectRepoTransfer('alice', name)
  t.equal(taken.status, 200)
  t.notOk(taken.data.repo_transfer)
  await alice.repos.repoTransfer('alice', name, { new_owner: 'bob' })
  await alice.repos.repoAddCollaborator('alice', name, 'carol', { permission: 'admin' })
  t.equal(await statusOf(carol.repos.rejectRepoTransfer('alice', name)), 403, 'an admin is not an owner')
  t.equal((await admin.repos.rejectRepoTransfer('alice', name)).status, 200)
  t.equal(await statusOf(carol.repos.repoTransfer('alice', name, { new_owner: 'carol' })), 403)
})

t.test('a transfer by a user who may create repositories for the new owner needs no answer', async (t) => {
  const acme = await organization('acme')
  const [ours, given, taken] = [await repository(), await repository(), await repository()]
  const direct = await alice.repos.repoTransfer('alice', ours.name, { new_owner: acme })
  t.equal(direct.status, 202)
  t.match(direct.data, { id: ours.id, full_name: `acme/${ours.name}`, permissions: { admin: true } })
  t.equal((await alice.repos.repoTransfer('acme', ours.name, { new_owner: 'alice' })).status, 202, 'and back')
  const byAdmin = await admin.repos.repoTransfer('alice', given.name, { new_owner: 'carol' })
  t.match(byAdmin, { status: 202, data: { full_name: `carol/${given.name}` } })

  await bob.orgs.orgCreate({ username: 'builders' })
  const pending = await alice.repos.repoTransfer('alice', taken.name, { new_owner: 'builders' })
  t.equal(pending.status, 201, 'no member of it')
  t.equal(await statusOf(carol.repos.acceptRepoTransfer('alice', taken.name)), 403)
  const accepted = await bob.repos.acceptRepoTransfer('alice', taken.name)
  t.match(accepted, { status: 202, data: { full_name: `builders/${taken.name}` } })
})

t.test('an organization admin answers without read access to the private repository', async (t) => {
  const { name } = await repository({ private: true })
  await dave.orgs.orgCreate({ username: 'daves' })
  await alice.repos.repoTransfer('alice', name, { new_owner: 'daves' })
  t.equal(await statusOf(dave.repos.repoGet('alice', name)), 404)
  t.equal((await dave.repos.acceptRepoTransfer('alice', name)).status, 202)
  t.match((await dave.repos.repoGet('daves', name)).data, { owner: { login: 'daves' } })
})

t.test('transfers that are refused change nothing', async (t) => {
  const { name, id } = await repository()
  await organization('veiled', 'private')
  const { data: team } = await alice.orgs.orgCreateTeam('veiled', {
    name: 'team',
    units: ['repo.code', 'repo.issues', 'repo.pulls'],
  })
  await carol.user.createCurrentUserRepo({ name })
  const transfer = (new_owner: string, team_ids?: number[]) =>
    call('alice', 'POST', `/api/v1/repos/alice/${name}/transfer`, {
      new_owner,
      ...(team_ids && { team_ids }),
    })
  t.match(await transfer('nobody'), { status: 404 })
  t.match(await transfer('carol'), { status: 422, body: { message: /carol has a repository with the name/ } })
  t.match(await transfer('alice'), { status: 422, body: { message: /is alice's already/ } })
  t.match(await transfer('bob', [team.id ?? 0]), {
    status: 422,
    body: { message: /only repositories of organ/ },
  })
  t.match(await transfer('veiled', [99_999]), { status: 422, body: { message: /team 99999 not found/ } })
  await organization('other-teams')
  t.match(await transfer('other-teams', [team.id ?? 0]), { status: 403 })
  const own = `/api/v1/repos/carol/${name}/transfer`
  t.match(
    await call('carol', 'POST', own, { new_owner: 'veiled' }),
    { status: 404 },
    'a private organization',
  )
  t.equal(
    (await call('bob', 'POST', `/api/v1/repos/alice/${name}/transfer`, { new_owner: 'bob' })).status,
    403,
  )
  t.match((await alice.repos.repoGet('alice', name)).data, { id, full_name: `alice/${name}` })
  t.notOk((await typesOf(`/api/v1/repos/alice/${name}`)).some((type) => type.startsWith('Transfer')))

  // The name is taken after the transfer started.
  const late = await repository()
  await alice.repos.repoTransfer('alice', late.name, { new_owner: 'bob' })
  const { data: own2 } = await bob.user.createCurrentUserRepo({ name: late.name })
  t.equal(await statusOf(bob.repos.acceptRepoTransfer('alice', late.name)), 422)
  t.match((await bob.repos.repoGet('bob', late.name)).data, { id: own2.id ?? 0 })
  t.match((await alice.repos.repoGet('alice', late.name)).data, {
    repo_transfer: { recipient: { login: 'bob' } },
  })
})

t.test('an old name redirects, also within a public path', async (t) => {
  const v1 = await server.as('v1')
  await v1.user.createCurrentUserRepo({ name: 'repos' })
  await v1.repos.repoEdit('v1', 'repos', { name: 'news' })
  const path = '/api/v1/repos/v1/repos/issues'
  const { status, location } = await call('v1', 'GET', path)
  t.equal(status, 307)
  t.equal(new URL(location ?? '', `${server.url}${path}`).pathname, '/api/v1/repos/v1/news/issues')
  t.equal((await v1.repos.issueListIssues('v1', 'repos')).status, 200)
})

t.test('the old name leads to the repository, for readers, until the name is taken', async (t) => {
  const { name, id, path } = await repository()
  const { data: issue } = await alice.repos.issueCreateIssue('alice', name, { title: 'First' })
  const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
  await organization('movers')
  await alice.repos.repoTransfer('alice', name, { new_owner: 'movers' })

  const here = `/api/v1/repos/movers/${name}`
  const moved = async (method: string, rest: string, body?: object) => {
    const { status, location } = await call('alice', method, `${path}${rest}`, body)
    const target = new URL(location ?? '', `${server.url}${path}${rest}`)
    return `${status} ${target.pathname}${target.search}`
  }
  t.equal(await moved('GET', ''), `307 ${here}`)
  t.equal(await moved('GET', '/issues?state=all&q=a%2Fb'), `307 ${here}/issues?state=all&q=a%2Fb`)
  t.equal(await moved('GET', '/hooks'), `307 ${here}/hooks`)
  t.equal(await moved('POST', '/issues', { title: 'x' }), `307 ${here}/issues`)
  // Clients follow, with their method and body.
  const comment = await alice.repos.issueCreateComment('alice', name, issue.number ?? 0, {
    body: 'Still here',
  })
  t.equal(comment.status, 201)
  t.match((await bob.repos.repoGet('alice', name)).data, { id, full_name: `movers/${name}` })

  await work.git('commit', '--allow-empty', '-m', 'after the move')
  await work.git('push', 'origin', 'HEAD')
  const clone = await workTree(t, server.gitUrl('alice', `alice/${name}`))
  t.equal(await clone.git('log', '-1', '--format=%s'), 'after the move', 'git follows, too')
  const refs = '/info/refs?service=git-upload-pack'
  const { headers } = await server.fetch('alice', `/alice/${name}.git${refs}`, { redirect: 'manual' })
  const place = `/movers/${name}.git${refs}`
  t.equal(headers.get('location'), place, 'a whole path: libgit2 does not resolve others')

  // It moves again, by name and by owner: all old names lead to it.
  await alice.repos.repoEdit('movers', name, { name: `${name}-new` })
  t.match((await bob.repos.repoGet('alice', name)).data, { id, full_name: `movers/${name}-new` })
  t.match((await bob.repos.repoGet('movers', name)).data, { id })
  await alice.repos.repoTransfer('movers', `${name}-new`, { new_owner: 'alice' })
  t.match((await bob.repos.repoGet('movers', `${name}-new`)).data, { full_name: `alice/${name}-new` })

  // Permissions apply at the new place: a private one is not revealed.
  await alice.repos.repoEdit('alice', `${name}-new`, { private: true })
  t.match(await call('bob', 'GET', path), { status: 404, location: null })
  t.equal((await call(null, 'GET', path)).status, 404)

  // Another repository takes the name, and leaves it.
  const { data: other } = await alice.user.createCurrentUserRepo({ name })
  t.match((await alice.repos.repoGet('alice', name)).data, { id: other.id ?? 0 })
  await alice.repos.repoDelete('alice', name)
  t.equal((await call('alice', 'GET', path)).status, 404, 'then it leads nowhere')
  await alice.repos.repoDelete('alice', `${name}-new`)
  t.equal((await call('alice', 'GET', here)).status, 404)
})

t.test('the old owner keeps its teams, collaborators, forks and names', async (t) => {
  const [from, to] = [await organization('from-here'), await organization('to-there')]
  const units = ['repo.code', 'repo.issues', 'repo.pulls']
  const team = async (organization: string, login: string) => {
    const { data } = await alice.orgs.orgCreateTeam(organization, {
      name: 'crew',
      permission: 'write',
      units,
    })
    await alice.teams.orgAddTeamMember(data.id ?? 0, login)
    return data.id ?? 0
  }
  const [old, next] = [await team(from, 'bob'), await team(to, 'carol')]
  await alice.orgs.createOrgRepo(from, { name: 'tool', private: true, auto_init: true })
  await alice.teams.orgAddTeamRepository(old, from, 'tool')
  await alice.repos.repoAddCollaborator(from, 'tool', 'dave', { permission: 'write' })
  t.equal((await bob.repos.repoGet(from, 'tool')).status, 200)
  await bob.repos.userCurrentPutSubscription(from, 'tool')

  const given = await alice.repos.repoTransfer(from, 'tool', { new_owner: to, team_ids: [next] })
  t.match(given, { status: 202, data: { full_name: `${to}/tool` } })
  t.equal(await statusOf(bob.repos.repoGet(to, 'tool')), 404, 'a team of the old owner gives nothing')
  t.match(
    (await carol.repos.repoGet(to, 'tool')).data,
    { permissions: { push: true } },
    'the named team has it',
  )
  const teams = (await alice.repos.repoListTeams(to, 'tool')).data.map(({ id }) => id)
  t.ok(teams.includes(next))
  t.notOk(teams.includes(old))
  t.match((await alice.teams.orgListTeamRepos(old)).data, [])
  t.match((await dave.repos.repoGet(to, 'tool')).data, { permissions: { push: true } }, 'collaborators stay')
  await until('nobody watches who may not read it', async () => {
    return (await alice.repos.repoListSubscribers(to, 'tool')).data.length === 0
  })

  // The teams have removed it: it can be added again.
  await alice.repos.repoTransfer(to, 'tool', { new_owner: from })
  t.equal(await statusOf(bob.repos.repoGet(from, 'tool')), 404)
  await alice.teams.orgAddTeamRepository(old, from, 'tool')
  t.equal((await bob.repos.repoGet(from, 'tool')).status, 200)

  // A collaborator who becomes the owner stops being one.
  await admin.repos.repoTransfer(from, 'tool', { new_owner: 'dave' })
  t.match((await dave.repos.repoListCollaborators('dave', 'tool')).data, [])
  // An owner has one fork of a repository.
  const { name } = await repository()
  await bob.repos.createFork('alice', name, {})
  await carol.repos.createFork('alice', name, { name: `${name}-mine` })
  t.match(await call('admin', 'POST', `/api/v1/repos/carol/${name}-mine/transfer`, { new_owner: 'bob' }), {
    status: 409,
    body: { message: /bob has a fork of this repository already/ },
  })
  t.equal((await admin.repos.repoTransfer('bob', name, { new_owner: 'dave' })).status, 202)
  t.equal((await bob.repos.createFork('alice', name, {})).status, 202, 'the old owner may fork it again')
})

t.test('later changes of a former owner to its labels and teams do not show in the issues', async (t) => {
  const org = await organization('former', 'private')
  const { data: label } = await alice.orgs.orgCreateLabel(org, { name: 'then', color: '#ff0000' })
  const units = ['repo.code', 'repo.issues', 'repo.pulls']
  const { data: team } = await alice.orgs.orgCreateTeam(org, { name: 'then', permission: 'write', units })
  await alice.orgs.createOrgRepo(org, { name: 'asked', auto_init: true })
  await alice.teams.orgAddTeamRepository(team.id ?? 0, org, 'asked')
  await alice.repos.repoCreateFile(org, 'asked', 'a', { content: 'YQ==', new_branch: 'topic' })
  const option = { title: 'Asked', head: 'topic', base: 'main', labels: [label.id ?? 0] }
  await alice.repos.repoCreatePullRequest(org, 'asked', option)
  await call('alice', 'POST', `/api/v1/repos/${org}/asked/pulls/1/requested_reviewers`, {
    team_reviewers: ['then'],
  })
  await admin.repos.repoTransfer(org, 'asked', { new_owner: 'bob' })
  await alice.orgs.orgEditLabel(org, label.id ?? 0, { name: 'secret', description: 'secret' })
  await alice.teams.orgEditTeam(team.id ?? 0, { name: 'secret', description: 'secret' })
  for (const path of ['issues/1', 'issues/1/labels', 'issues/1/timeline', 'pulls/1', 'pulls/1/reviews']) {
    const { status, body } = await call('bob', 'GET', `/api/v1/repos/bob/asked/${path}`)
    t.equal(status, 200)
    t.notMatch(JSON.stringify(body), /secret/, path)
  }
})

t.test('a retried request gets the first answer, also when the repository has moved', async (t) => {
  const { name, path } = await repository({ private: true })
  const headers = { 'idempotency-key': `move ${name}`, 'content-type': 'application/json' }
  const send = async (login: string, rest: string, body: object = {}) => {
    const init = { method: 'POST', headers, body: JSON.stringify(body), redirect: 'manual' } as const
    return (await server.fetch(login, `${path}${rest}`, init)).status
  }
  t.equal(await send('alice', '/transfer', { new_owner: 'bob' }), 201)
  t.equal(await send('alice', '/transfer', { new_owner: 'bob' }), 201)
  t.equal(await send('alice', '/transfer', { new_owner: 'carol' }), 422)
  t.equal(await send('bob', '/transfer/accept'), 202)
  t.equal(await send('bob', '/transfer/accept'), 202)
  t.equal(await send('carol', '/transfer/accept'), 404)
})

t.test('an archived repository can be given away, and stays archived', async (t) => {
  const { name, path } = await repository()
  await alice.repos.repoEdit('alice', name, { archived: true })
  t.match(await call('alice', 'POST', `${path}/transfer`, { new_owner: 'bob' }), { status: 201 })
  t.match(await bob.repos.acceptRepoTransfer('alice', name), { status: 202 })
  t.match((await bob.repos.repoGet('bob', name)).data, { archived: true, owner: { login: 'bob' } })
})
