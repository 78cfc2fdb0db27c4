import t from 'tap'
import { hostedWork } from '../../hosted-work.ts'
import { startTestServer, statusOf } from '../../start-server.ts'

const server = await startTestServer(t)
const [alice, bob, carol] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])
const { data: made } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
await alice.repos.repoAddCollaborator('alice', 'app', 'carol', { permission: 'write' })
for (const title of ['1', '2', '3', '4']) await bob.repos.issueCreateIssue('alice', 'app', { title })
const { branch } = await hostedWork(t, server, {
  login: 'alice',
  repoId: made.id ?? 0,
  fullName: 'alice/app',
})
await branch('topic', { topic: 'topic' })
const { data: pull } = await alice.repos.repoCreatePullRequest('alice', 'app', {
  ...{ head: 'topic', base: 'main', title: 'Topic' },
})
const pin = (index: number, client = alice) => statusOf(client.repos.pinIssue('alice', 'app', index))
const pinned = async () =>
  (await bob.repos.repoListPinnedIssues('alice', 'app')).data.map(({ number, pin_order }) => [
    number,
    pin_order,
  ])

t.test('admins pin at most three issues, and as many pull requests, in their order', async (t) => {
  t.same(await pinned(), [])
  t.equal(await pin(2, bob), 403)
  t.equal(await pin(2, carol), 403)
  t.equal(await pin(9), 404)
  for (const index of [3, 1, 2]) t.equal(await pin(index), 204)
  t.equal(await pin(1), 204, 'it is pinned already')
  t.equal(await pin(4), 422)
  t.same(await pinned(), [
    [3, 1],
    [1, 2],
    [2, 3],
  ])
  t.same((await bob.repos.repoNewPinAllowed('alice', 'app')).data, { issues: false, pull_requests: true })
  t.equal(await pin(pull.number ?? 0), 204, 'pull requests are pinned apart from issues')
  const { data: pulls } = await bob.repos.repoListPinnedPullRequests('alice', 'app')
  t.match(pulls, [{ number: pull.number, pin_order: 1, title: 'Topic' }])
  const { data: listed } = await bob.repos.issueListIssues('alice', 'app', { type: 'issues' })
  t.same(
    listed.map(({ number, pin_order }) => [number, pin_order]),
    [
      [4, 0],
      [3, 1],
      [2, 3],
      [1, 2],
    ],
  )
})

t.test('a pin moves to a position, and goes', async (t) => {
  const move = (index: number, position: string, login = 'alice') =>
    server.fetch(login, `/api/v1/repos/alice/app/issues/${index}/pin/${position}`, { method: 'PATCH' })
  t.equal((await move(2, '1')).status, 204)
  t.same(
    (await pinned()).map(([index]) => index),
    [2, 3, 1],
  )
  for (const position of ['0', '4', 'x', '-1']) t.equal((await move(2, position)).status, 422, position)
  t.equal((await move(4, '1')).status, 204, 'what is not pinned stays so')
  t.equal((await move(2, '2', 'bob')).status, 403)
  t.equal((await alice.repos.unpinIssue('alice', 'app', 3)).status, 204)
  t.equal((await alice.repos.unpinIssue('alice', 'app', 3)).status, 204)
  t.same(await pinned(), [
    [2, 1],
    [1, 2],
  ])
  t.same((await bob.repos.repoNewPinAllowed('alice', 'app')).data, { issues: true, pull_requests: true })
  const history = await server.fetch('bob', '/api/v1/repos/alice/app/history?type=PinsChanged')
  const events: { data: object }[] = JSON.parse(await history.text())
  t.match(events.at(-1)?.data, { isPull: false, from: [2, 3, 1], to: [2, 1] })
})
