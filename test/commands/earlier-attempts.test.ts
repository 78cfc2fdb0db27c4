/** A request with an Idempotency-Key is sent again long after: when much was written since, and on another server. */
import t from 'tap'
import type { CommentEvent } from '../../src/events/domain-events.ts'
import type { EventStore } from '../../src/events/event-store.ts'
import { gitStream, idsStream, issueStream, numbersStream } from '../../src/events/streams.ts'
import { sharedStores } from '../shared-stores.ts'
import { startTestServer, statusOf, type TestServer } from '../start-server.ts'
import { appendMany } from '../stores.ts'
import { until } from '../until.ts'

/** More than the newest events of a stream that the log remembers by their ids. */
const MANY = 600

async function poster(server: TestServer, login: string) {
  await server.as(login)
  return async (path: string, body: object, key?: string) => {
    const headers = {
      'content-type': 'application/json',
      ...(key !== undefined && { 'idempotency-key': key }),
    }
    const init = { method: 'POST', headers, body: JSON.stringify(body) }
    const answer = await server.fetch(login, `/api/v1${path}`, init)
    const text = await answer.text()
    return { status: answer.status, id: /"(?:id|name)":[^,}]*/.exec(text)?.[0], text }
  }
}

/** Many comments of others, as the log has them. */
const comments = (repoId: number, index: number, count: number): CommentEvent[] =>
  Array.from({ length: count }, (_, i) => ({
    type: 'CommentAdded',
    data: { repoId, index, commentId: 1_000_000 + i, author: { id: 1, login: 'admin' }, body: 'noise' },
  }))

const numbers = (sequence: string) =>
  Array.from({ length: MANY }, () => ({ type: 'NumberTaken', data: { sequence } }) as const)

t.test('a request with an Idempotency-Key is done once, however much was written since', async (t) => {
  const environment = await sharedStores(t)
  const [one, two] = [
    await startTestServer(t, { ...environment, NODE_NAME: 'one', LOG_LEVEL: 'fatal' }),
    await startTestServer(t, { ...environment, NODE_NAME: 'two', LOG_LEVEL: 'fatal' }),
  ]
  const alice = await one.as('alice')
  const { data: repository } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const repoId = repository.id ?? 0
  const [first, again] = [await poster(one, 'alice'), await poster(two, 'alice')]
  const requests = [
    ['/repos/alice/app/issues', { title: 'An issue', closed: true }],
    ['/repos/alice/app/issues/1/comments', { body: 'A comment' }],
    ['/repos/alice/app/labels', { name: 'bug', color: '#ff0000' }],
    ['/repos/alice/app/issues/1/labels', { labels: ['bug'] }],
    ['/repos/alice/app/branches', { new_branch_name: 'topic' }],
  ] as const
  const answers = []
  for (const [path, body] of requests) answers.push(await first(path, body, 'the key'))
  t.same(
    answers.map(({ status }) => status),
    [201, 201, 201, 200, 201],
  )

  const { events } = one.services
  for (const sequence of [
    numbersStream(repoId),
    idsStream('issue'),
    idsStream('comment'),
    idsStream('label'),
  ]) {
    await appendMany(events, sequence, numbers(sequence))
  }
  await appendMany(events, issueStream(repoId, 1), comments(repoId, 1, MANY))
  const moves = await idsIn(events, gitStream(repoId))
  const last = await events.lastPosition()
  await until('the other server knows them', () => two.services.projector.waitFor(last, 100))
  for (const [i, [path, body]] of requests.entries()) {
    const { status, id, text } = await again(path, body, 'the key')
    t.equal(status, answers[i]?.status, `${path} ${text}`)
    t.equal(id, answers[i]?.id, `${path}: the same`)
  }
  t.equal((await alice.repos.issueListIssues('alice', 'app', { state: 'all' })).data.length, 1)
  const own = (await alice.repos.issueGetComments('alice', 'app', 1)).data.filter(
    ({ body }) => body === 'A comment',
  )
  t.equal(own.length, 1)
  t.same(await idsIn(events, gitStream(repoId)), moves)
  t.equal((await again('/repos/alice/app/issues/1/comments', { body: 'Another' }, 'the key')).status, 422)
})

async function idsIn(events: EventStore, stream: string): Promise<string[]> {
  const ids: string[] = []
  for await (const { id } of events.readStream(stream)) ids.push(id)
  return ids
}

t.test('a request with an Idempotency-Key reads no more of a long discussion than one without', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  const { data: repository } = await alice.user.createCurrentUserRepo({ name: 'app' })
  const repoId = repository.id ?? 0
  const post = await poster(server, 'alice')
  await post('/repos/alice/app/issues', { title: 'Long' })
  await post('/repos/alice/app/labels', { name: 'bug', color: '#ff0000' })
  const { events } = server.services
  const stream = issueStream(repoId, 1)
  await appendMany(events, stream, comments(repoId, 1, MANY))
  const { data: comment } = await alice.repos.issueCreateComment('alice', 'app', 1, { body: 'mine' })
  t.equal(await statusOf(alice.repos.issueEditIssue('alice', 'app', 1, { title: 'Very long' })), 201)

  let reads = 0
  const { readStream } = events
  events.readStream = async function* (name, options) {
    for await (const event of readStream.call(events, name, options)) {
      if (name === stream) reads += 1
      yield event
    }
  }
  const counted = async (key?: string) => {
    reads = 0
    t.equal((await post('/repos/alice/app/issues/1/labels', { labels: ['bug'] }, key)).status, 200)
    const form = new FormData()
    form.set('attachment', new File(['x'], 'x.txt'))
    const headers = key === undefined ? {} : { 'idempotency-key': key }
    const path = `/api/v1/repos/alice/app/issues/comments/${comment.id}/assets`
    t.equal((await server.fetch('alice', path, { method: 'POST', headers, body: form })).status, 201)
    return reads
  }
  t.ok((await counted('k')) < 50, `${reads} events`)
  t.ok((await counted('k')) < 50, `again: ${reads} events`)
  t.equal(
    (await alice.repos.issueListIssueCommentAttachments('alice', 'app', comment.id ?? 0)).data.length,
    1,
  )
})
