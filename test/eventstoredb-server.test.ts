/** A whole server on EventStoreDB, when the store holds or does what it should not. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startEventStoreDouble } from './doubles/eventstore.ts'
import { startTestServer, statusOf } from './start-server.ts'
import { until } from './until.ts'

async function started(t: Test) {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'eventstore.db') })
  t.teardown(() => double.close())
  const server = await startTestServer(t, { EVENTSTORE_URL: double.url, LOG_LEVEL: 'silent' })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app' })
  const health = async () => {
    const answer = await server.fetch(null, '/healthz')
    return { code: answer.status, text: await answer.text() }
  }
  return { double, server, alice, health }
}

t.test('what others wrote into our streams does not stop a command, and is named in /healthz', async (t) => {
  const { double, alice, health } = await started(t)
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'One' })
  t.notMatch((await health()).text, /problems/)
  const streams = ['ids-issue', 'ids-comment', 'numbers-1', 'issue-1.1', 'repo-1', 'claim-repository-2/next']
  for (const stream of streams) {
    await double.append(stream, [
      { type: 'NoEnvelope', data: '{}' },
      { type: 'Binary', data: Buffer.from([0, 255]), contentType: 'application/octet-stream' },
      { type: 'BrokenJson', data: '{"a":' },
    ])
  }
  const { data: issue } = await alice.repos.issueCreateIssue('alice', 'app', { title: 'Two' })
  t.ok(Number(issue.number) > 1, 'numbers may have gaps')
  await alice.repos.issueCreateComment('alice', 'app', 1, { body: 'still here' })
  await alice.repos.issueEditIssue('alice', 'app', 1, { title: 'One more' })
  await alice.repos.repoEdit('alice', 'app', { description: 'changed' })
  await alice.user.createCurrentUserRepo({ name: 'next' })
  const { data: comments } = await alice.repos.issueGetComments('alice', 'app', 1)
  t.equal(comments.length, 1)
  const { code, text } = await health()
  t.equal(code, 200)
  for (const stream of ['ids-issue', 'issue-1.1', 'numbers-1']) {
    t.match(text, new RegExp(`"event \\d+ of stream ${stream} was not written by Mergelog"`))
  }
})

t.test('POST issue, one client: at most four round trips, and each new event is sent once', async (t) => {
  const { double, alice } = await started(t)
  let calls: string[] = []
  double.access.called = (what, stream) => calls.push(`${what} ${stream}`)
  let index = 0
  // The first ones learn where the sequences end. Meanwhile all that follow the log come to its end.
  await until('an issue costs three appends, and its three events are sent once', async () => {
    const sent = double.sentEvents()
    calls = []
    const { data } = await alice.repos.issueCreateIssue('alice', 'app', { title: 'One' })
    index = data.number ?? 0
    return calls.length === 3 && double.sentEvents() - sent === 3
  })
  t.same(calls.toSorted(), ['write ids-issue', `write issue-1.${index}`, 'write numbers-1'])
  t.equal(calls.at(-1), `write issue-1.${index}`, 'what is independent goes together, before the last')
})

t.test('/healthz is 200 with any number of events of others at the end of the log', async (t) => {
  const { double, alice, health } = await started(t)
  for (const type of ['OrderPlaced', '$statsCollected']) {
    for (let n = 0; n < 5; n++) {
      await double.append('orders', new Array(200).fill({ type, data: '{}' }))
      await until('the server is healthy', async () => (await health()).code === 200)
    }
  }
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'One' })
  t.equal((await health()).code, 200)
})

t.test('while access is denied, requests get 503 and /healthz says why', async (t) => {
  const { double, server, alice, health } = await started(t)
  const open = (title: string) => statusOf(alice.repos.issueCreateIssue('alice', 'app', { title }))
  t.equal(await open('One'), 201)
  double.access.deniedWrites.add('numbers-1')
  t.equal(await open('Two'), 503)
  const denied = await health()
  t.equal(denied.code, 503)
  t.match(denied.text, /does not allow the user of EVENTSTORE_URL to write our streams/)
  double.access.deniedWrites.clear()
  t.equal(await open('Three'), 201)
  t.equal((await health()).code, 200)

  double.access.deniedReads.add('$all')
  const blind = await health()
  t.equal(blind.code, 503)
  t.match(blind.text, /does not allow the user of EVENTSTORE_URL to read \$all/)
  double.access.deniedReads.clear()
  double.access.refuseAll = true
  t.equal(
    (await server.fetch('alice', '/api/v1/repos/alice/app/issues', { method: 'POST', body: '{"title":"x"}' }))
      .status,
    503,
  )
  t.match((await health()).text, /does not know the user of EVENTSTORE_URL, or the password is wrong/)
  double.access.refuseAll = false
  await until(
    'the server is healthy again',
    async () => (await health()).code === 200 && (await open('Four')) === 201,
  )
})
