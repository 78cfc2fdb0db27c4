/** A whole server on EventStoreDB with wrong data or behaviour of the store. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EventStoreDBClient } from '@eventstore/db-client'
import { pino } from 'pino'
import t from 'tap'
import { oneLinePerOutage } from '../src/cli/outage-log.ts'
import { loadConfig } from '../src/config/config.ts'
import { startServer } from '../src/server/server.ts'
import { type EventStoreDouble, startEventStoreCluster, startEventStoreDouble } from './doubles/eventstore.ts'
import { basic } from './server-template.ts'
import { ADMIN_PASSWORD, type Gitea, startTestServer, statusOf, type TestServer } from './start-server.ts'
import { until } from './until.ts'

/** One server for the tests that do not damage it, and its EventStoreDB. */
let double: EventStoreDouble
let server: TestServer
let alice: Gitea
t.before(async () => {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-odd-'))
  t.teardown(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }))
  double = await startEventStoreDouble({ port: 0, file: join(dir, 'eventstore.db') })
  t.teardown(() => double.close())
  server = await startTestServer(t, { EVENTSTORE_URL: double.url, LOG_LEVEL: 'silent' })
  alice = await server.as('alice')
})

/** Creates a repository of alice. Resolves to its id. */
async function repository(name: string): Promise<number> {
  return (await alice.user.createCurrentUserRepo({ name })).data.id ?? 0
}

async function health() {
  const answer = await server.fetch(null, '/healthz')
  return { code: answer.status, text: await answer.text() }
}

t.test("foreign events in Mergelog's streams do not stop a command, and /healthz names them", async (t) => {
  t.equal(await repository('app'), 1)
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

/** Requests that change issue 1, and its comment, by all deciders of its stream. */
const changes = (comment: number, label: number) =>
  [
    ['PATCH', 'issues/1', { title: 'Another' }],
    ['POST', 'issues/1/comments', { body: 'More' }],
    ['PATCH', `issues/comments/${comment}`, { body: 'Other' }],
    ['DELETE', `issues/comments/${comment}`, undefined],
    ['POST', 'issues/1/labels', { labels: [label] }],
    ['PUT', 'issues/1/lock', {}],
  ] as const

for (const [name, what, reasonFor] of [
  ['tb', 'cut off ($tb)', (issue: string) => `revision 0 is cut off from stream ${issue}`],
  ['max-count', 'cut off ($maxCount)', (issue: string) => `are cut off from stream ${issue}`],
  ['tombstone', 'tombstoned', (issue: string) => `stream ${issue} has a tombstone`],
] as const) {
  t.test(`a stream that is ${what} refuses every command alike (503), and /healthz names it`, async (t) => {
    const stream = `issue-${await repository(name)}.1`
    const reason = reasonFor(stream)
    const { data: label } = await alice.repos.issueCreateLabel('alice', name, {
      name: 'bug',
      color: '#ff0000',
    })
    await alice.repos.issueCreateIssue('alice', name, { title: 'One' })
    await alice.repos.issueCreateIssue('alice', name, { title: 'Whole' })
    const first = await alice.repos.issueCreateComment('alice', name, 1, { body: 'First' })
    await alice.repos.issueCreateComment('alice', name, 1, { body: 'Second' })
    const client = EventStoreDBClient.connectionString(double.url)
    t.teardown(() => client.dispose())
    if (what === 'tombstoned') await client.tombstoneStream(stream)
    else if (what === 'cut off ($tb)') await client.setStreamMetadata(stream, { truncateBefore: 1 })
    else await client.setStreamMetadata(stream, { maxCount: 1 })
    for (const [method, path, body] of changes(first.data.id ?? 0, label.id ?? 0)) {
      const answer = await server.fetch('alice', `/api/v1/repos/alice/${name}/${path}`, {
        method,
        ...(body && { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
      })
      t.equal(answer.status, 503, `${method} ${path}`)
      t.equal(answer.headers.get('retry-after'), null, 'to try again is of no use')
      t.match(await answer.json(), { message: reason })
    }
    const named = await health()
    t.equal(named.code, 200, 'all else can be used')
    t.match(named.text, reason)
    await alice.repos.issueCreateComment('alice', name, 2, { body: 'Others go on' })

    if (what === 'tombstoned') return
    await client.setStreamMetadata(stream, {})
    await alice.repos.issueCreateComment('alice', name, 1, { body: 'Third' })
    t.notMatch((await health()).text, reason, 'an operator has taken it back')
  })
}

t.test('an outage of EventStoreDB is one line in the log, and its end is one line', async (t) => {
  const cluster = await startEventStoreCluster({ nodes: 3, file: join(t.testdir(), 'eventstore.db') })
  t.teardown(() => cluster.close())
  const lines: string[] = []
  const over: (() => void)[] = []
  let now = 0
  const hooks = {
    logMethod: oneLinePerOutage(
      () => now,
      (call) => void over.push(call),
    ),
  }
  const dataDir = await mkdtemp(join(tmpdir(), 'mergelog-outage-'))
  const settings = {
    DATA_DIR: dataDir,
    PORT: '0',
    GRPC_PORT: '0',
    ADMIN_PASSWORD,
    EVENTSTORE_URL: `${cluster.url}&discoveryInterval=20&maxDiscoverAttempts=3`,
  }
  const log = pino({ level: 'warn', hooks }, { write: (line: string) => void lines.push(line) })
  const server = await startServer(loadConfig(settings), log)
  t.teardown(async () => {
    await server.stop()
    await rm(dataDir, { recursive: true, force: true, maxRetries: 3 })
  })
  const statusFor = async (method: string, path: string, body?: object) => {
    const headers = { authorization: basic('admin'), 'content-type': 'application/json' }
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
    return (await fetch(`${server.url}${path}`, init)).status
  }
  const open = () => statusFor('POST', '/api/v1/repos/admin/app/issues', { title: 'One' })
  const isWell = async () => (await statusFor('GET', '/healthz')) === 200 && (await open()) === 201
  t.equal(await statusFor('POST', '/api/v1/user/repos', { name: 'app' }), 201)
  await until('the server is well', isWell)
  t.same(lines, [])

  for (const node of cluster.nodes) node.stop()
  await until('the outage is noticed', async () => (await open()) === 503)
  // The projector, the processes, requests and /healthz meet the stream repeatedly.
  for (let n = 0; n < 3; n++) {
    t.equal(await open(), 503)
    const health = await fetch(`${server.url}/healthz`)
    t.equal(health.status, 503)
    t.match(await health.json(), { log: null, problems: [/^the log does not answer/] })
  }
  for (const node of cluster.nodes) await node.start()
  await until('the server is well again', isWell)
  t.equal(lines.length, 1, lines.join(''))
  t.match(JSON.parse(lines[0] ?? ''), {
    reason: /^EventStoreDB/,
    msg: /a store does not answer; further lines about this are left out until it does/,
  })
  now += 60_000
  for (const call of over.splice(0)) call()
  t.equal(lines.length, 2, lines.join(''))
  t.match(JSON.parse(lines[1] ?? ''), { store: 'EventStoreDB', msg: /a store answers again/ })
})

t.test('POST issue, one client: at most four round trips, and each new event is sent once', async (t) => {
  const repoId = await repository('calls')
  let calls: string[] = []
  t.teardown(() => {
    double.access.called = () => {}
  })
  double.access.called = (what, stream) => calls.push(`${what} ${stream}`)
  let index = 0
  // The first ones read the ends of the sequences. Meanwhile all followers reach the end of the log.
  await until('an issue costs at most three appends, and its events are sent once', async () => {
    const sent = double.sentEvents()
    calls = []
    const { data } = await alice.repos.issueCreateIssue('alice', 'calls', { title: 'One' })
    index = data.number ?? 0
    return calls.length <= 3 && double.sentEvents() - sent === calls.length
  })
  // Of many in a row, most get an id from the pool.
  const needed = calls.filter((call) => call !== 'write ids-issue')
  t.same(needed.toSorted(), [`write issue-${repoId}.${index}`, `write numbers-${repoId}`])
  t.equal(
    calls.at(-1),
    `write issue-${repoId}.${index}`,
    'what is independent goes together, before the last',
  )
})

t.test('after a start, upgrade queries answer although the log ends with foreign events', async (t) => {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'eventstore.db') })
  const dataDir = await mkdtemp(join(tmpdir(), 'mergelog-upgrade-'))
  t.teardown(async () => {
    await double.close()
    await rm(dataDir, { recursive: true, force: true, maxRetries: 3 })
  })
  const environment = { EVENTSTORE_URL: double.url, LOG_LEVEL: 'silent', DATA_DIR: dataDir }
  await (await startTestServer({ teardown: () => {} }, environment)).stop()
  for (const type of ['OrderPlaced', '$statsCollected']) {
    await double.append('orders', new Array(200).fill({ type, data: '{}' }))
    const server = await startTestServer({ teardown: () => {} }, environment)
    try {
      await until('the server is healthy', async () => (await server.fetch(null, '/healthz')).status === 200)
      const answer = await server.fetch('admin', '/cosmos/upgrade/v1beta1/current_plan')
      t.equal(answer.status, 200, `after ${type}`)
    } finally {
      await server.stop()
    }
  }
})

t.test('while access is denied, requests get 503 and /healthz gives the reason', async (t) => {
  const repoId = await repository('denied')
  const open = (title: string) => statusOf(alice.repos.issueCreateIssue('alice', 'denied', { title }))
  t.equal(await open('One'), 201)
  double.access.deniedWrites.add(`numbers-${repoId}`)
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
    (
      await server.fetch('alice', '/api/v1/repos/alice/denied/issues', {
        method: 'POST',
        body: '{"title":"x"}',
      })
    ).status,
    503,
  )
  t.match((await health()).text, /does not know the user of EVENTSTORE_URL, or the password is wrong/)
  double.access.refuseAll = false
  // A denied write is reported for half a minute, unless it succeeds.
  const { now } = performance
  performance.now = () => now.call(performance) + 30_000
  t.teardown(() => {
    performance.now = now
  })
  await until(
    'the server is healthy again',
    async () => (await health()).code === 200 && (await open('Four')) === 201,
  )
})

// Last, because each later read of the end of the log would read them all.
t.test('/healthz is 200 with any number of foreign events at the end of the log', async (t) => {
  for (const type of ['OrderPlaced', '$statsCollected']) {
    for (let n = 0; n < 5; n++) {
      await double.append('orders', new Array(200).fill({ type, data: '{}' }))
      await until('the server is healthy', async () => (await health()).code === 200)
    }
  }
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'One' })
  t.equal((await health()).code, 200)
})
