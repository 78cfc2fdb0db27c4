/** Read your writes across nodes: each request goes to another node than the previous one. */
import { giteaApi } from 'gitea-js'
import t from 'tap'
import { workTree } from './git-client.ts'
import { listen } from './queries/history-client.ts'
import { basic } from './server-template.ts'
import { sharedStores } from './shared-stores.ts'
import { startTestServer, statusOf } from './start-server.ts'
import { until } from './until.ts'
import { call, clientOf, QUERY } from './upgrade/grpc-client.ts'

t.test('read your writes across nodes, each request to another one', async (t) => {
  const environment = await sharedStores(t)
  const first = await startTestServer(t, { ...environment, NODE_NAME: 'one' })
  const second = await startTestServer(t, { ...environment, NODE_NAME: 'two' })
  const nodes = [first, second, await startTestServer(t, { ...environment, NODE_NAME: 'three' })]
  let turn = 0
  const nextNode = () => nodes[turn++ % nodes.length] ?? first
  const toNext: typeof fetch = (input, init) => fetch(`${input}`.replace('http://next', nextNode().url), init)
  const client = (token: string) => giteaApi('http://next', { token, customFetch: toNext })
  const ask = (login: string, path: string, method = 'GET', body?: object) =>
    toNext(`http://next/api/v1${path}`, {
      method,
      headers: { authorization: basic(login), ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
  const newToken = async (login: string, name: string) => {
    const made = await ask(login, `/users/${login}/tokens`, 'POST', { name, scopes: ['all'] })
    const token: { id: number; sha1: string } = JSON.parse(await made.text())
    return token
  }
  await first.as('alice')
  await second.as('bob')
  const alice = client((await newToken('alice', 'hers')).sha1)
  const bob = client((await newToken('bob', 'his')).sha1)
  const [owner, repo] = ['alice', 'app']

  await t.test('tokens work immediately, and end immediately', async (t) => {
    for (let i = 0; i < 4; i++) {
      const { id, sha1 } = await newToken('alice', `t${i}`)
      t.equal((await client(sha1).user.userGetCurrent()).data.login, 'alice')
      t.equal((await ask('alice', `/users/alice/tokens/${id}`, 'DELETE')).status, 204)
      t.equal(await statusOf(client(sha1).user.userGetCurrent()), 401)
      t.equal(await statusOf(client(sha1).user.userGetCurrent()), 401)
    }
  })

  await t.test('a repository, its permissions, issues, comments and labels', async (t) => {
    await alice.user.createCurrentUserRepo({ name: repo, auto_init: true, private: true })
    t.equal((await alice.repos.repoGet(owner, repo)).data.name, repo)
    for (let i = 0; i < 3; i++) {
      t.equal(await statusOf(bob.repos.repoGet(owner, repo)), 404)
      await alice.repos.repoAddCollaborator(owner, repo, 'bob', { permission: 'write' })
      t.equal(await statusOf(bob.repos.repoGet(owner, repo)), 200)
      await alice.repos.repoDeleteCollaborator(owner, repo, 'bob')
    }
    await alice.repos.repoAddCollaborator(owner, repo, 'bob', { permission: 'write' })
    for (let number = 1; number <= 4; number++) {
      const { data: issue } = await bob.repos.issueCreateIssue(owner, repo, { title: `Issue ${number}` })
      t.equal(issue.number, number)
      t.match((await alice.repos.issueListIssues(owner, repo)).data[0], { number })
      t.match((await alice.repos.issueListIssues(owner, repo, { q: `issue ${number}` })).data, [{ number }])
      const { data: label } = await alice.repos.issueCreateLabel(owner, repo, {
        name: `l${number}`,
        color: '#ff0000',
      })
      t.equal((await bob.repos.issueListLabels(owner, repo)).data.length, number)
      await bob.repos.issueAddLabel(owner, repo, number, { labels: [label.id ?? 0] })
      t.match((await alice.repos.issueGetIssue(owner, repo, number)).data.labels, [{ name: `l${number}` }])
      const { data: comment } = await bob.repos.issueCreateComment(owner, repo, number, { body: 'first' })
      t.match((await alice.repos.issueGetComments(owner, repo, number)).data, [{ body: 'first' }])
      await bob.repos.issueEditComment(owner, repo, comment.id ?? 0, { body: 'second' })
      t.match((await alice.repos.issueGetComment(owner, repo, comment.id ?? 0)).data, { body: 'second' })
      t.match((await alice.repos.issueGetIssue(owner, repo, number)).data, { comments: 1 })
      await bob.repos.issueDeleteComment(owner, repo, comment.id ?? 0)
      t.same((await alice.repos.issueGetComments(owner, repo, number)).data, [])
      await alice.repos.issueEditIssue(owner, repo, number, { state: 'closed' })
      t.match((await bob.repos.issueGetIssue(owner, repo, number)).data, { state: 'closed' })
    }
  })

  await t.test('git from any node: pushes, pull requests, statuses and merges', async (t) => {
    const work = await workTree(t, first.gitUrl('alice', `${owner}/${repo}`))
    for (let i = 0; i < 3; i++) {
      const branch = `topic-${i}`
      await work.git('checkout', '-q', '-b', branch, 'origin/main')
      const sha = await work.commit(`Add ${i}`, { [`${i}.txt`]: `${i}\n` })
      await work.git('push', '-q', nextNode().gitUrl('alice', `${owner}/${repo}`), branch)
      t.match((await alice.repos.repoGetBranch(owner, repo, branch)).data, { commit: { id: sha } })
      const opening = { head: branch, base: 'main', title: `Add ${i}` }
      const { data: pull } = await bob.repos.repoCreatePullRequest(owner, repo, opening)
      const index = pull.number ?? 0
      t.match((await alice.repos.repoGetPullRequest(owner, repo, index)).data, {
        head: { sha },
        mergeable: true,
      })
      const next = await work.commit(`More ${i}`, { [`${i}.txt`]: `${i}${i}\n` })
      await work.git('push', '-q', nextNode().gitUrl('bob', `${owner}/${repo}`), branch)
      t.match((await alice.repos.repoGetPullRequest(owner, repo, index)).data, { head: { sha: next } })
      t.equal((await alice.repos.repoGetPullRequestFiles(owner, repo, index)).data.length, 1)
      await bob.repos.repoCreateStatus(owner, repo, next, { context: 'ci', state: 'success' })
      t.match((await alice.repos.repoGetCombinedStatusByRef(owner, repo, next)).data, { state: 'success' })
      t.equal(await statusOf(alice.repos.repoMergePullRequest(owner, repo, index, { Do: 'merge' })), 200)
      t.match((await bob.repos.repoGetPullRequest(owner, repo, index)).data, {
        merged: true,
        state: 'closed',
      })
      await work.git(
        'fetch',
        '-q',
        nextNode().gitUrl('bob', `${owner}/${repo}`),
        '+refs/heads/main:refs/remotes/origin/main',
      )
      t.equal(await work.git('rev-parse', 'origin/main^2'), next)
      const replayed = await ask('alice', `/repos/${owner}/${repo}/pulls/${index}/replay?revision=0`)
      t.match(await replayed.json(), { state: 'open', merged: false })
    }
  })

  await t.test('a live history shows events of another node, and continues on the next node', async (t) => {
    const path = `/repos/${owner}/${repo}/issues/1/history`
    const before = await listen(t, first, 'alice', path)
    const known = (await before.has(3)).length
    await bob.repos.issueCreateComment(owner, repo, 1, { body: 'live' })
    const all = await before.has(known + 1)
    t.match(all.at(-1), { event: { data: { body: 'live' } } })
    const after = await listen(t, second, 'alice', path, { 'last-event-id': `${all.at(-2)?.id}` })
    t.match(await after.has(1), [{ event: { data: { body: 'live' } } }])
  })

  await t.test('teams: granted and revoked permissions are effective on the next node', async (t) => {
    await alice.orgs.orgCreate({ username: 'acme', visibility: 'private' })
    await alice.orgs.createOrgRepo('acme', { name: 'lib', private: true, auto_init: true })
    const units = ['repo.code', 'repo.issues', 'repo.pulls']
    const option = { name: 'readers', permission: 'read' as const, units }
    const made = await Promise.all([1, 2, 3].map(() => ask('alice', '/orgs/acme/teams', 'POST', option)))
    t.same(made.map(({ status }) => status).sort(), [201, 422, 422], 'a name is taken once')
    const { data: teams } = await alice.orgs.orgListTeams('acme')
    const team = teams.find(({ name }) => name === 'readers')?.id ?? 0
    const reads = () => statusOf(bob.repos.repoGet('acme', 'lib'))
    const writes = () => statusOf(bob.repos.repoCreateFile('acme', 'lib', `${turn}`, { content: '' }))
    await alice.teams.orgAddTeamRepository(team, 'acme', 'lib')
    for (let i = 0; i < 3; i++) {
      t.equal(await reads(), 404)
      await alice.teams.orgAddTeamMember(team, 'bob')
      t.same([await reads(), await writes()], [200, 403])
      await alice.teams.orgEditTeam(team, { ...option, permission: 'write' })
      t.equal(await writes(), 201)
      await alice.teams.orgEditTeam(team, option)
      t.equal(await writes(), 403)
      await alice.teams.orgRemoveTeamMember(team, 'bob')
    }
    await alice.teams.orgAddTeamMember(team, 'bob')
    await alice.teams.orgRemoveTeamRepository(team, 'acme', 'lib')
    t.equal(await reads(), 404)
    await alice.teams.orgAddTeamRepository(team, 'acme', 'lib')
    t.equal(await reads(), 200)
    await alice.teams.orgDeleteTeam(team)
    t.equal(await reads(), 404)
  })

  await t.test('notifications: received, counted and read on the next node', async (t) => {
    const unread = async (): Promise<{ subject: { title: string } }[]> =>
      JSON.parse(await (await ask('bob', '/notifications')).text())
    const count = async () => JSON.parse(await (await ask('bob', '/notifications/new')).text())
    await ask('bob', '/notifications', 'PUT')
    t.same([await unread(), await count()], [[], { new: 0 }])
    for (let i = 0; i < 3; i++) {
      const { data: issue } = await bob.repos.issueCreateIssue(owner, repo, { title: `Heard ${i}` })
      t.same(await unread(), [], 'nobody hears of what they do themselves')
      const body = { body: 'Hm' }
      const said = [1, 2, 3].map(() => alice.repos.issueCreateComment(owner, repo, issue.number ?? 0, body))
      await Promise.all(said)
      t.match(await unread(), [{ subject: { title: `Heard ${i}` } }], 'one thread of three comments')
      t.same(await count(), { new: 1 })
      t.equal((await ask('bob', `/notifications/threads/${issue.id}`, 'PATCH')).status, 205)
      t.same([await unread(), await count()], [[], { new: 0 }])
    }
    const { data: called } = await alice.repos.issueCreateIssue(owner, repo, {
      title: 'Called',
      body: '@bob',
    })
    await until('a mention is heard', async () => (await unread()).length === 1)
    await alice.repos.repoDeleteCollaborator(owner, repo, 'bob')
    t.same(await unread(), [], 'who may not read is not told')
    await alice.repos.repoAddCollaborator(owner, repo, 'bob', { permission: 'write' })
    t.equal(called.title, 'Called')
  })

  await t.test('the Query service gives the same answer from any node', async (t) => {
    await first.as('admin')
    for (let height = 100; height < 103; height++) {
      const plan = { name: `v${height}`, height: `${height}`, info: '' }
      const made = await ask('admin', '/admin/upgrade/plan', 'PUT', plan)
      t.ok(made.ok, await made.text())
      for (const node of nodes) {
        const answer = await fetch(`${node.url}/sdk/upgrade/v1beta1/current_plan`)
        t.match(await answer.json(), { plan: { name: plan.name } })
        const grpc = clientOf(t, node.grpcAddress)
        t.match(await call(grpc, QUERY.sdk, 'CurrentPlan'), { plan: { name: plan.name } })
      }
    }
  })
})
