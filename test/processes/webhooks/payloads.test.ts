/** The payload of an event is built once for all webhooks, and reads only the necessary part of the log. */
import t from 'tap'
import { issueStream } from '../../../src/events/streams.ts'
import { commentChange } from '../../../src/processes/webhooks/comment-history.ts'
import { createPayloads } from '../../../src/processes/webhooks/payloads.ts'
import { startTestServer } from '../../start-server.ts'

const server = await startTestServer(t)
const { services } = server
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'told' })
await alice.repos.issueCreateIssue('alice', 'told', { title: 'one' })
const repository = await services.views.repositories.findOne({ name: 'told' })
if (repository === undefined) throw new Error('no repository')
const stream = issueStream(repository.id, 1)

async function comment(body: string) {
  const { data } = await alice.repos.issueCreateComment('alice', 'told', 1, { body })
  return data.id ?? 0
}

async function lastOf(of: string) {
  for await (const event of services.events.readStream(of, { direction: 'backwards', maxCount: 1 }))
    return event
  throw new Error(`nothing in ${of}`)
}

t.test('webhooks for the same event share one payload, except across an erasure', async (t) => {
  const commentId = await comment('my password')
  const { id: eventId, position } = await lastOf(stream)
  let reads = 0
  const readPositions: typeof services.events.readPositions = (positions) => {
    reads += 1
    return services.events.readPositions(positions)
  }
  const payloads = createPayloads({ ...services, events: { ...services.events, readPositions } })
  const told = () => payloads({ eventId, position, part: 0 }, { kind: 'site' })
  const [one, other] = await Promise.all([told(), told()])
  t.match(one, { json: /my password/ })
  t.same(other, one)
  t.same(await told(), one)
  t.equal(reads, 1)
  const another = await payloads({ eventId, position, part: 0 }, { kind: 'owner', ownerId: 4711 })
  t.same(another, { problem: 'the repository has another owner now' })

  const erased = await server.fetch('alice', '/api/v1/repos/alice/told/issues/1/erase', {
    method: 'POST',
    body: JSON.stringify({ comment: commentId }),
  })
  t.equal(erased.status, 204)
  const later = await told()
  t.match(later, { json: /erased by alice/ })
  t.notMatch(later, { json: /my password/ })
})

t.test('a delivery of a comment in a long history reads only the events since the comment', async (t) => {
  for (let i = 0; i < 5; i++) await comment(`${i}`)
  const commentId = await comment('new')
  const read: number[] = []
  const events: typeof services.events = {
    ...services.events,
    async *readStream(of, options) {
      for await (const event of services.events.readStream(of, options)) {
        read.push(event.revision)
        yield event
      }
    },
  }
  const { revision } = await lastOf(stream)
  const made = await commentChange(events, stream, revision, commentId)
  t.match(made, { before: undefined, after: { body: 'new' } })
  t.same(read, [revision])
  await alice.repos.issueEditComment('alice', 'told', commentId, { body: 'newer' })
  t.match(await commentChange(events, stream, revision + 1, commentId), {
    before: { body: 'new' },
    after: { body: 'newer' },
  })
  await alice.repos.issueDeleteComment('alice', 'told', commentId)
  t.match(await commentChange(events, stream, revision + 2, commentId), {
    before: { body: 'newer' },
    after: undefined,
  })
})
