/** Retries a request with an Idempotency-Key much later: after many events, and on another server. */
import t from 'tap'
import type { EventStore } from '../../../src/events/store/event-store.ts'
import { gitStream, idsStream, issueStream, numbersStream } from '../../../src/events/streams.ts'
import { sharedStores } from '../../shared-stores.ts'
import { startTestServer } from '../../start-server.ts'
import { appendMany } from '../../stores.ts'
import { until } from '../../until.ts'
import { comments, MANY, poster } from './repeated-requests.ts'

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
  for (const sequence of [numbersStream(repoId), idsStream('comment')]) {
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
