import t from 'tap'
import { LIVE_LIMITS } from '../../../src/projections/live/live-events.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { linesOf, listen } from '../history-client.ts'

const server = await startTestServer(t)
const [alice] = await Promise.all([server.as('alice'), server.as('bob')])

async function repository(name: string, options: object = {}) {
  await alice.user.createCurrentUserRepo({ name, ...options })
  const path = `/repos/alice/${name}`
  const { number: index = 0 } = (await alice.repos.issueCreateIssue('alice', name, { title: 'T' })).data
  return {
    path,
    index,
    issue: `${path}/issues/${index}/history`,
    say: (body: string) => alice.repos.issueCreateComment('alice', name, index, { body }),
    give: (login: string, permission: 'read' | 'write') =>
      alice.repos.repoAddCollaborator('alice', name, login, { permission }),
  }
}

t.test('a live history begins with the past events and continues with new ones', async (t) => {
  const { say, issue, path } = await repository('live')
  await say('before')
  const ofIssue = await listen(t, server, 'alice', issue)
  const ofRepository = await listen(t, server, null, `${path}/history`)
  const ofServer = await listen(t, server, 'admin', '/admin/history?after=now')
  t.equal(ofIssue.status, 200)
  t.match(ofIssue.headers.get('content-type'), /^text\/event-stream/)
  t.equal(ofIssue.headers.get('cache-control'), 'no-store')
  t.equal(ofIssue.headers.get('x-accel-buffering'), 'no')
  await ofIssue.has(2)
  await ofRepository.has(3)
  t.match(ofIssue.text(), /^retry: \d+\n\n/)
  await say('after')
  await Promise.all([ofIssue.has(3), ofRepository.has(4), ofServer.has(1)])
  t.strictSame(
    ofIssue.received.map(({ id }) => id),
    [0, 1, 2],
    'ids are revisions',
  )
  t.strictSame(
    ofIssue.received.map(({ event }) => event),
    await linesOf(server, 'alice', issue),
  )
  t.strictSame(
    ofRepository.received.map(({ event }) => event),
    await linesOf(server, null, `${path}/history`),
  )
  t.ok(ofRepository.received.every(({ id, event }) => id === event.position))
  t.strictSame(ofServer.received, ofRepository.received.slice(3))
})

t.test('a client that reconnects with any Last-Event-ID misses no event and gets none twice', async (t) => {
  const { say, issue, path } = await repository('again')
  for (const body of ['a', 'b', 'c', 'd']) await say(body)
  for (const history of [issue, `${path}/history`]) {
    const whole = await listen(t, server, 'alice', history)
    const all = [...(await whole.has(history === issue ? 5 : 6))]
    whole.close()
    for (const [i, { id }] of all.entries()) {
      const rest = all.slice(i + 1)
      const header = await listen(t, server, 'alice', `${history}?after=now`, { 'last-event-id': `${id}` })
      const query = await listen(t, server, 'alice', `${history}?after=${id}`)
      for (const stream of [header, query]) t.strictSame(await stream.has(rest.length), rest)
      header.close()
      query.close()
    }
    const last = await listen(t, server, 'alice', history, { 'last-event-id': `${all.at(-1)?.id}` })
    await say('more')
    t.match(await last.has(1), [{ event: { data: { body: 'more' } } }])
  }
})

t.test('a client that connects during writes gets every event once, in order', async (t) => {
  const { say, issue, path } = await repository('busy')
  const writers = Array.from({ length: 8 }, async (_, writer) => {
    for (let i = 0; i < 15; i++) await say(`${writer}.${i}`)
  })
  const histories = [issue, `${path}/history?type=CommentAdded`, `${path}/history`]
  const streams = []
  for (let i = 0; i < 12; i++) {
    streams.push({ i, stream: await listen(t, server, 'alice', histories[i % 3] ?? '') })
  }
  await Promise.all(writers)
  const all = await linesOf(server, 'alice', issue)
  t.equal(all.length, 121)
  for (const { i, stream } of streams) {
    const expected = i % 3 === 0 ? 121 : i % 3 === 1 ? 120 : 122
    const received = await stream.has(expected)
    t.equal(received.length, expected)
    t.strictSame(
      received.slice(-120).map(({ event }) => event.id),
      all.slice(-120).map(({ id }) => id),
    )
    stream.close()
  }
})

t.test('filters also apply to new events', async (t) => {
  const { say, path, give } = await repository('sieved')
  const titles = await listen(t, server, 'alice', `${path}/history?type=CollaboratorSet`)
  const actors = await listen(t, server, 'alice', `${path}/history?actor=bob&after=now`)
  await say('not asked for')
  await give('bob', 'write')
  const bob = await server.as('bob')
  await bob.repos.issueCreateComment('alice', 'sieved', 1, { body: 'from bob' })
  t.match(await titles.has(1), [{ event: { type: 'CollaboratorSet' } }])
  t.match(await actors.has(1), [{ event: { type: 'CommentAdded', actor: { login: 'bob' } } }])
})

t.test('a live history ends when the requester loses access', async (t) => {
  const { say, path, issue, give } = await repository('private', { private: true })
  await give('bob', 'read')
  const ofIssue = await listen(t, server, 'bob', issue)
  const ofRepository = await listen(t, server, 'bob', `${path}/history`)
  await Promise.all([ofIssue.has(1), ofRepository.has(2)])
  t.notOk(
    ofRepository.received.some(({ event }) => event.type === 'CollaboratorSet'),
    'events for admins are not sent',
  )
  await alice.repos.repoDeleteCollaborator('alice', 'private', 'bob')
  await say('a secret')
  await Promise.all([ofIssue.ended, ofRepository.ended])
  t.notMatch(ofIssue.text() + ofRepository.text(), /a secret|CollaboratorRemoved/)
})

t.test('a live history of an anonymous client ends when the repository becomes private', async (t) => {
  const { say, issue } = await repository('closing')
  const stream = await listen(t, server, null, issue)
  await stream.has(1)
  await alice.repos.repoEdit('alice', 'closing', { private: true })
  await say('a secret')
  await stream.ended
  t.notMatch(stream.text(), /a secret/)
})

t.test('a live history ends when the token of its request is deleted', async (t) => {
  const { issue } = await repository('token')
  const body = JSON.stringify({ name: 'short-lived', scopes: ['all'] })
  const made = await server.fetch('alice', '/api/v1/users/alice/tokens', { method: 'POST', body })
  const { sha1, id } = JSON.parse(await made.text())
  const stream = await listen(t, server, null, issue, { authorization: `token ${sha1}` })
  await stream.has(1)
  await server.fetch('alice', `/api/v1/users/alice/tokens/${id}`, { method: 'DELETE' })
  await stream.ended
  t.pass('it has ended')
})

t.test('an invalid event id gives 422 with the name of the field', async (t) => {
  const { issue, path } = await repository('odd')
  for (const history of [issue, `${path}/history`]) {
    for (const odd of ['x', '-1', '1.5', '1e3', '99999999999999999999', 'NOW', '0x1']) {
      const header = await listen(t, server, 'alice', history, { 'last-event-id': odd })
      t.equal(header.status, 422, `Last-Event-ID: ${odd}`)
      t.match(header.headers.get('content-type'), /^application\/json/)
      await header.ended
      t.match(JSON.parse(header.text()), { errors: [/^Last-Event-ID: /] })
      const query = await listen(t, server, 'alice', `${history}?after=${odd}`)
      t.equal(query.status, 422, `after=${odd}`)
      await query.ended
      t.match(JSON.parse(query.text()), { errors: [/^after: /] })
    }
  }
})

t.test('a live history cannot begin after an event that does not exist yet', async (t) => {
  const { issue, path, say } = await repository('beyond')
  const ends = { [issue]: 0, [`${path}/history`]: await server.services.events.lastPosition() }
  for (const [history, end] of Object.entries(ends)) {
    for (const filter of ['', '?type=CommentAdded', '?actor=nobody']) {
      for (const beyond of [end + 1, 999_999]) {
        const asked = `${history}${filter}`
        const header = await listen(t, server, null, asked, { 'last-event-id': `${beyond}` })
        await header.ended
        t.equal(header.status, 422, `${asked} behind ${beyond}`)
        t.strictSame(JSON.parse(header.text()).errors, [
          `Last-Event-ID: there is no such event; the last is ${end}`,
        ])
        const query = await listen(t, server, null, `${asked}${filter ? '&' : '?'}after=${beyond}`)
        await query.ended
        t.equal(query.status, 422)
        t.strictSame(JSON.parse(query.text()).errors, [`after: there is no such event; the last is ${end}`])
      }
    }
  }
  // The last event of a filtered history seldom matches the filter.
  const filtered = []
  for (const [history, end] of Object.entries(ends)) {
    filtered.push(await listen(t, server, null, `${history}?type=CommentAdded&after=${end}`))
  }
  await say('heard')
  for (const stream of filtered) t.match(await stream.has(1), [{ event: { data: { body: 'heard' } } }])
  const all = await listen(t, server, 'admin', '/admin/history', { 'last-event-id': '99999999' })
  t.equal(all.status, 422)
})

t.test('a client with too many subscriptions is told to retry later; others can connect', async (t) => {
  const { issue } = await repository('crowded')
  const other = await server.as('carol').then(() => 'carol')
  const many = []
  for (let i = 0; i < LIVE_LIMITS.perAddress; i++) many.push(await listen(t, server, null, issue))
  t.ok(many.every(({ status }) => status === 200))
  for (const history of [issue, `${issue}?after=now`]) {
    const more = await listen(t, server, null, history)
    t.equal(more.status, 429)
    t.match(more.headers.get('retry-after'), /^[1-9]\d*$/)
    await more.ended
    t.match(JSON.parse(more.text()), { message: /20 live histories/ })
  }
  for (let i = 0; i < LIVE_LIMITS.perAccount; i++) many.push(await listen(t, server, other, issue))
  t.ok(many.every(({ status }) => status === 200))
  t.equal((await listen(t, server, other, issue)).status, 429)
  t.equal((await listen(t, server, 'admin', '/admin/history')).status, 200)
  many[0]?.close()
  await until('one is free again', async () => (await listen(t, server, null, issue)).status === 200)
})

t.test('a server that stops ends live histories, also of clients that do not read', async (t) => {
  const stops: (() => unknown)[] = []
  const own = await startTestServer({ teardown: (stop: () => unknown) => stops.push(stop) })
  t.teardown(async () => {
    for (const stop of stops) await stop()
  })
  const stream = await listen(t, own, 'admin', '/admin/history')
  const [received] = await stream.has(1)
  t.equal(received?.event.type, 'UserCreated')
  const abort = new AbortController()
  t.teardown(() => abort.abort())
  await own.fetch('admin', '/api/v1/admin/history', {
    headers: { accept: 'text/event-stream' },
    signal: abort.signal,
  })
  for (const stop of stops.splice(0)) await stop()
  await t.resolves(stream.ended)
})

t.test('streams of disconnected clients free their subscriptions', async (t) => {
  const { issue, say } = await repository('left')
  for (let i = 0; i < 30; i++) {
    const stream = await listen(t, server, 'alice', issue)
    stream.close()
  }
  const stream = await listen(t, server, 'alice', issue)
  await say('still there')
  await until('the comment has come', async () => /still there/.test(stream.text()))
  t.equal(stream.status, 200)
})
