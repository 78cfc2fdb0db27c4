import type { NotificationThread } from 'gitea-js'
import t from 'tap'
import type { Static } from 'typebox'
import type { NotificationWire } from '../../../src/api/notifications/notifications.ts'
import { append, eventsOf } from '../../../src/commands/execution/append.ts'
import { issueStream } from '../../../src/events/streams.ts'
import { mentionsIn } from '../../../src/processes/issues/mentions.ts'
import { clockOf } from '../../set-clock.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { aContext } from '../../stores.ts'
import { until } from '../../until.ts'

/** Compiles only if Gitea's client knows the name of every field. */
type Known<Wire, Theirs> = Exclude<keyof Wire, keyof Theirs> extends never ? true : never
export const knownToClients: [Known<Static<typeof NotificationWire>, NotificationThread>] = [true]

const server = await startTestServer(t)
const [alice, bob, carol] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])

async function repository(name: string) {
  await alice.user.createCurrentUserRepo({ name })
  await alice.repos.repoAddCollaborator('alice', name, 'bob', { permission: 'write' })
  return {
    open: async (option: object = {}, who = alice) =>
      (await who.repos.issueCreateIssue('alice', name, { title: 'T', ...option })).data,
    say: async (index: number | undefined, body: string, who = alice) =>
      (await who.repos.issueCreateComment('alice', name, index ?? 0, { body })).data,
    ofRepository: async (login: string) => threads(login, `repos/alice/${name}/notifications`),
  }
}

async function threads(login: string, path = 'notifications'): Promise<NotificationThread[]> {
  const answer = await server.fetch(login, `/api/v1/${path}`)
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`)
  return JSON.parse(await answer.text())
}
const send = async (login: string, method: string, path: string) =>
  (await server.fetch(login, `/api/v1/${path}`, { method })).status
const indexes = (found: readonly NotificationThread[]) =>
  found.map(({ subject }) => Number(subject?.url?.split('/').at(-1)))

t.test('mentions are names after @, and not addresses', async (t) => {
  t.same(mentionsIn('@bob, (@Ann.) a@b.example x/@c @@d @bob `@e'), ['bob', 'ann'])
  t.equal(mentionsIn(Array.from({ length: 99 }, (_, i) => `@u${i} `).join('')).length, 20)
})

t.test('a user who opens, comments, is assigned or mentioned is notified of changes by others', async (t) => {
  const { open, say, ofRepository } = await repository('heard')
  const issue = await open()
  t.same(await ofRepository('alice'), [], 'nobody hears of what they do themselves')
  await say(issue.number, 'Hm', bob)
  t.match(await ofRepository('alice'), [
    {
      id: issue.id,
      unread: true,
      pinned: false,
      subject: { title: 'T', type: 'Issue', state: 'open', latest_comment_url: /\/issues\/comments\/\d+$/ },
      repository: { full_name: 'alice/heard' },
    },
  ])
  t.same(await ofRepository('bob'), [])
  await alice.repos.issueEditIssue('alice', 'heard', issue.number ?? 0, { state: 'closed' })
  t.match(await ofRepository('bob'), [{ subject: { state: 'closed' } }], 'who commented hears of the end')
  const assigned = await open({ assignees: ['bob'] })
  t.same(indexes(await ofRepository('bob')), [assigned.number, issue.number], 'the latest comes first')
  const mentioned = await open({ body: 'Ask @carol' })
  await until('carol is called', async () => (await ofRepository('carol')).length === 1)
  await say(assigned.number, 'and @Carol here')
  await until('carol is called again', async () => (await ofRepository('carol')).length === 2)
  t.same(indexes(await ofRepository('carol')), [assigned.number, mentioned.number])
})

t.test(
  'a review notifies participants and mentioned users, and its author becomes a participant',
  async (t) => {
    const { ofRepository } = await repository('reviewed')
    await server.as('erin')
    const content = Buffer.from('x').toString('base64')
    await alice.repos.repoCreateFile('alice', 'reviewed', 'README.md', { content })
    await alice.repos.repoCreateFile('alice', 'reviewed', 'topic', { content, new_branch: 'topic' })
    const { data: pull } = await alice.repos.repoCreatePullRequest('alice', 'reviewed', {
      ...{ head: 'topic', base: 'main', title: 'T' },
    })
    const index = pull.number ?? 0
    const reviewing = { path: 'topic', new_position: 1 }
    await bob.repos.repoCreatePullReview('alice', 'reviewed', index, {
      body: 'A draft for @carol',
      comments: [{ ...reviewing, body: 'and @erin' }],
    })
    t.same(await ofRepository('alice'), [], 'a draft is told to nobody')
    await bob.repos.repoCreatePullReview('alice', 'reviewed', index, {
      event: 'COMMENT',
      body: 'Done, @carol',
    })
    t.match(await ofRepository('alice'), [{ unread: true, subject: { title: 'T', type: 'Pull' } }])
    t.same(await ofRepository('bob'), [])
    await until('carol is called', async () => (await ofRepository('carol')).length === 1)
    await until('erin is called on a line', async () => (await ofRepository('erin')).length === 1)
    await alice.repos.issueCreateComment('alice', 'reviewed', index, { body: 'Thanks' })
    t.equal((await ofRepository('bob')).length, 1, 'who reviewed hears of what follows')
  },
)

t.test('a requested reviewer is a participant: notified of comments and of the merge', async (t) => {
  const { ofRepository } = await repository('asked')
  const content = Buffer.from('x').toString('base64')
  await alice.repos.repoCreateFile('alice', 'asked', 'README.md', { content })
  await alice.repos.repoCreateFile('alice', 'asked', 'topic', { content, new_branch: 'topic' })
  const { data: pull } = await alice.repos.repoCreatePullRequest('alice', 'asked', {
    ...{ head: 'topic', base: 'main', title: 'T' },
  })
  const index = pull.number ?? 0
  const news = async () => {
    const found = await ofRepository('bob')
    await send('bob', 'PUT', 'repos/alice/asked/notifications')
    return found.map(({ subject }) => subject?.state)
  }
  const request = { method: 'POST', body: JSON.stringify({ reviewers: ['bob'] }) }
  const asked = `/api/v1/repos/alice/asked/pulls/${index}/requested_reviewers`
  t.equal((await server.fetch('alice', asked, request)).status, 201)
  t.same(await news(), ['open'])
  t.same(await news(), [])
  await alice.repos.issueCreateComment('alice', 'asked', index, { body: 'Please' })
  t.same(await news(), ['open'])
  await alice.repos.repoMergePullRequest('alice', 'asked', index, { Do: 'merge' })
  t.same(await news(), ['merged'])
})

t.test('marks: read, unread, pinned; filters, totals, pages', async (t) => {
  const { open, say } = await repository('marked')
  const [first, second] = [await open({ assignees: ['bob'] }), await open({ assignees: ['bob'] })]
  const mine = async (query = '') => indexes(await threads('bob', `repos/alice/marked/notifications${query}`))
  t.same(await mine(), [second.number, first.number])
  t.same(await mine('?limit=1&page=2'), [first.number])
  t.same([await mine('?subject-type=pull'), (await mine('?subject-type=issue')).length], [[], 2])
  t.same(await mine('?before=2000-01-01T00:00:00Z'), [])
  const fresh = async () => (await bob.notifications.notifyNewAvailable()).data.new ?? 0
  const before = await fresh()
  const thread = `notifications/threads/${first.id}`
  t.equal(await send('bob', 'PATCH', thread), 205)
  t.same(
    [await mine(), await mine('?status-types=read'), await fresh()],
    [[second.number], [first.number], before - 1],
  )
  t.match((await bob.notifications.notifyGetThread(`${first.id}`)).data, { id: first.id, unread: false })
  t.equal(await send('bob', 'PATCH', `${thread}?to-status=pinned`), 205)
  t.same(await mine('?status-types=pinned'), [first.number])
  t.equal(await send('bob', 'PATCH', `${thread}?to-status=odd`), 422)
  t.equal(await send('bob', 'PUT', 'repos/alice/marked/notifications'), 205)
  t.same(await mine(), [first.number], 'a pinned one stays')
  t.equal((await mine('?all=true')).length, 2)
  await say(second.number, 'news')
  t.same(await mine('?status-types=unread'), [second.number], 'what happens later is unread')
  t.equal(await send('bob', 'PUT', 'notifications?last_read_at=2000-01-01T00:00:00Z'), 205)
  t.same(await mine('?status-types=unread'), [second.number])
  t.equal(await send('carol', 'PATCH', thread), 404, 'it is nothing to others')
  t.equal((await server.fetch(null, '/api/v1/notifications')).status, 401)
})

t.test('news in an old thread appear before hundreds of other threads, and pinned ones stay', async (t) => {
  const { open, say, ofRepository } = await repository('busy')
  const [old, pinned, quiet] = [
    await open({ assignees: ['bob'] }),
    await open({ assignees: ['bob'] }),
    await open(),
  ]
  t.equal(await send('bob', 'PATCH', `notifications/threads/${pinned.id}?to-status=pinned`), 205)
  const { events, views, projector } = server.services
  const of = await views.repositories.findOne({ key: 'alice/busy' })
  const [poster, assignee] = await Promise.all(
    ['alice', 'bob'].map((loginKey) => views.accounts.findOne({ loginKey })),
  )
  if (of === undefined || poster === undefined || assignee === undefined) throw new Error('nobody is there')
  const person = ({ id, login }: { id: number; login: string }) => ({ id, login })
  const context = aContext({ actor: person(poster), at: new Date().toISOString() })
  for (let index = 1000; index < 1310; index++) {
    const data = {
      ...{ repoId: of.id, index, id: 100_000 + index, title: 'Other', body: '', poster: person(poster) },
      ...{ assignees: [person(assignee)], labels: [], milestone: null, deadline: null },
    }
    const stream = issueStream(of.id, index)
    await events.append(
      stream,
      eventsOf(context, stream, 'open', [{ type: 'IssueOpened', data }]),
      'no-stream',
    )
  }
  await projector.waitFor(await events.lastPosition(), 60_000)
  const first = async (query = '') =>
    indexes(await threads('bob', `repos/alice/busy/notifications${query}`))[0]
  t.equal(await first('?status-types=pinned'), pinned.number)
  t.not(await first(), old.number)
  await say(old.number, 'news')
  t.equal(await first(), old.number)
  await alice.repos.issueEditIssue('alice', 'busy', quiet.number ?? 0, { assignees: ['bob'] })
  t.equal(await first(), quiet.number, 'who is assigned is told, however old the issue is')
  t.equal(await send('bob', 'DELETE', `repos/alice/busy/issues/${old.number}/subscriptions/bob`), 201)
  await say(old.number, 'more news for @bob')
  t.notOk(indexes(await ofRepository('bob')).includes(old.number ?? 0), 'who has left hears no more')
  await alice.repos.repoDelete('alice', 'busy')
  const others = (await threads('bob')).map(({ repository }) => repository?.full_name)
  t.ok(others.includes('alice/heard'), 'what is gone takes no place')
})

t.test(
  'watchers are notified of everything, subscribers of their issues, unsubscribed users of nothing',
  async (t) => {
    const { open, say, ofRepository } = await repository('watched')
    const before = await open()
    await carol.repos.userCurrentPutSubscription('alice', 'watched')
    const after = await open()
    t.same(indexes(await ofRepository('carol')), [after.number])
    await carol.repos.userCurrentDeleteSubscription('alice', 'watched')
    t.same(await ofRepository('carol'), [])
    const subscription = (index: number | undefined, who: string) =>
      `repos/alice/watched/issues/${index}/subscriptions/${who}`
    t.equal(await send('carol', 'PUT', subscription(before.number, 'carol')), 201)
    t.equal(await send('carol', 'PUT', subscription(before.number, 'carol')), 200)
    t.equal(await send('bob', 'PUT', subscription(before.number, 'carol')), 403)
    const subscribers = await alice.repos.issueSubscriptions('alice', 'watched', before.number ?? 0)
    t.same(
      subscribers.data.map(({ login }) => login),
      ['carol'],
    )
    const check = async (who: typeof alice) =>
      (await who.repos.issueCheckSubscription('alice', 'watched', before.number ?? 0)).data.subscribed
    t.same([await check(alice), await check(bob), await check(carol)], [true, false, true])
    await say(before.number, 'news')
    t.same(indexes(await ofRepository('carol')), [before.number])
    t.equal(await send('carol', 'DELETE', subscription(before.number, 'carol')), 201)
    t.same([await ofRepository('carol'), await check(carol)], [[], false])
    await say(before.number, '@carol')
    t.same(await ofRepository('carol'), [])
  },
)

t.test('present permissions count: a user without access is neither notified nor listed', async (t) => {
  const { open, say } = await repository('closing')
  const issue = await open({ body: 'T' })
  await carol.repos.issueCreateComment('alice', 'closing', issue.number ?? 0, { body: 'I am here' })
  t.equal(await send('carol', 'PUT', `repos/alice/closing/issues/${issue.number}/subscriptions/carol`), 200)
  const second = await open()
  t.equal(await send('carol', 'PUT', `repos/alice/closing/issues/${second.number}/subscriptions/carol`), 201)
  await say(issue.number, 'SECRET')
  const heard = async () =>
    (await threads('carol')).filter(({ repository }) => repository?.name === 'closing')
  t.equal((await heard()).length, 1)
  await alice.repos.repoEdit('alice', 'closing', { private: true })
  t.same(await heard(), [])
  t.equal(await statusOf(carol.notifications.notifyGetThread(`${issue.id}`)), 404)
  await until(
    'the subscription has ended',
    async () =>
      (await alice.repos.issueSubscriptions('alice', 'closing', second.number ?? 0)).data.length === 0,
  )
})

t.test('later events are news, also from a server whose clock is behind', async (t) => {
  const setClock = clockOf(t)
  const { open, say, ofRepository } = await repository('clocks')
  const unread = async (login: string) => indexes(await ofRepository(login))
  const { number, id } = await open()
  await say(number, 'First', bob)
  setClock(5 * 60_000)
  t.equal(await send('alice', 'PATCH', `notifications/threads/${id}`), 205)
  t.equal(await send('carol', 'PUT', 'repos/alice/clocks/subscription'), 200)
  setClock(0)
  await say(number, 'Second', bob)
  t.same(await unread('alice'), [number], 'after a mark')
  t.same(await unread('carol'), [number], 'after the watching began')
  setClock(5 * 60_000)
  await say(number, 'An answer')
  t.same(await unread('alice'), [])
  setClock(0)
  await say(number, 'Third', bob)
  t.same(await unread('alice'), [number], 'after an own comment')
  t.equal(await send('alice', 'PUT', 'notifications'), 205)
  t.same(await unread('alice'), [])
})

t.test('a mention on a server whose clock is days behind notifies the user', async (t) => {
  const { open, ofRepository } = await repository('late')
  const { number = 0 } = await open()
  const { data: late } = await alice.repos.repoGet('alice', 'late')
  const repoId = late.id ?? 0
  const context = aContext({ at: new Date(Date.now() - 2 * 24 * 3_600_000).toISOString() })
  const data = { repoId, index: number, commentId: 4711, author: { id: 1, login: 'admin' }, body: '@bob!' }
  const comment = { type: 'CommentAdded', data } as const
  await append(server.services, context, issueStream(repoId, number), 'comment', [comment], 'any')
  await until('bob hears of it', async () => (await ofRepository('bob')).length === 1)
  t.match(await ofRepository('bob'), [{ unread: true }])
})
