import t from 'tap'
import { startTestServer, statusOf } from '../../start-server.ts'

const server = await startTestServer(t)
const [alice, bob, carol] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])
await alice.user.createCurrentUserRepo({ name: 'app' })
await alice.repos.repoAddCollaborator('alice', 'app', 'carol', { permission: 'write' })
const open = async (title: string) =>
  (await bob.repos.issueCreateIssue('alice', 'app', { title })).data.number ?? 0
const lock = async (login: string, index: number, body?: string) =>
  (
    await server.fetch(login, `/api/v1/repos/alice/app/issues/${index}/lock`, {
      method: 'PUT',
      ...(body !== undefined && { body }),
    })
  ).status
const unlock = async (login: string, index: number) =>
  (await server.fetch(login, `/api/v1/repos/alice/app/issues/${index}/lock`, { method: 'DELETE' })).status
const comment = (client: typeof bob, index: number) =>
  statusOf(client.repos.issueCreateComment('alice', 'app', index, { body: 'Hm' }))

t.test('a locked issue refuses comments without write access (403), also of its poster', async (t) => {
  const index = await open('Heated')
  t.equal(await comment(bob, index), 201)
  t.equal(await lock('alice', index, '{"lock_reason":"Too heated"}'), 204)
  t.equal((await bob.repos.issueGetIssue('alice', 'app', index)).data.is_locked, true)
  t.equal(await comment(bob, index), 403)
  t.equal(await comment(carol, index), 201)
  const react = (client: typeof bob) =>
    statusOf(client.repos.issuePostIssueReaction('alice', 'app', index, { content: 'heart' }))
  t.same([await react(bob), await react(carol)], [403, 201], 'nor reactions')
  t.equal((await bob.repos.issueEditIssue('alice', 'app', index, { body: 'More' })).status, 201, 'no comment')
  t.equal(await lock('alice', index, '{"lock_reason":"Spam"}'), 204, 'locking what is locked')
  t.equal(await unlock('alice', index), 204)
  t.equal(await unlock('alice', index), 204, 'unlocking what is not locked')
  t.equal(await comment(bob, index), 201)
  t.equal((await bob.repos.issueGetIssue('alice', 'app', index)).data.is_locked, false)
  const { data } = await bob.repos.issueGetCommentsAndTimeline('alice', 'app', index)
  const rows = data.map(({ type, body }) => [type, body]).filter(([type]) => type?.includes('lock'))
  t.same(rows, [
    ['lock', 'Too heated'],
    ['unlock', ''],
  ])
  const replay = await server.fetch(null, `/api/v1/repos/alice/app/issues/${index}/replay?revision=2`)
  t.equal(JSON.parse(await replay.text()).is_locked, true)
})

t.test('`lock_reason` ignores case; locking twice is 204 and changes nothing', async (t) => {
  const index = await open('Loud')
  t.equal(await lock('alice', index, '{"lock_reason":" off-TOPIC "}'), 204)
  t.equal(await lock('alice', index, '{"lock_reason":"spam"}'), 204)
  const { data } = await bob.repos.issueGetCommentsAndTimeline('alice', 'app', index)
  t.same(
    data.map(({ type, body }) => [type, body]),
    [['lock', 'Off-topic']],
  )
})

t.test('only admins lock; the reason is one of Gitea’s, or none', async (t) => {
  const index = await open('Calm')
  t.equal(await lock('carol', index), 403)
  t.equal(await lock('bob', index), 403)
  t.equal(await lock('alice', index, '{"lock_reason":"I say so"}'), 400)
  t.equal(await lock('alice', index, '{"lock_reason":5}'), 422)
  t.equal(await lock('alice', 999), 404)
  t.equal((await bob.repos.issueGetIssue('alice', 'app', index)).data.is_locked, false)
  t.equal(await lock('alice', index, ''), 204)
  t.equal(await unlock('carol', index), 403)
})
