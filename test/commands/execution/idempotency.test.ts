/** The search for an earlier attempt (Idempotency-Key) in a long discussion. */
import t from 'tap'
import { issueStream } from '../../../src/events/streams.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { appendMany } from '../../stores.ts'
import { comments, MANY, poster } from './repeated-requests.ts'

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
