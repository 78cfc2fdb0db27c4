import { join } from 'node:path'
import t from 'tap'
import { startEventStoreDouble } from './doubles/eventstore.ts'
import { eventStoreWithLongTimeouts, mongoWithLongTimeouts } from './doubles/long-timeouts.ts'
import { startMongoDouble } from './doubles/mongodb.ts'
import { workTree } from './git-client.ts'
import { startTestServer, statusOf } from './start-server.ts'
import { until } from './until.ts'

t.test('a pull request is merged on EventStoreDB and MongoDB, with their real drivers', async (t) => {
  const dir = t.testdir()
  const eventStore = await startEventStoreDouble({ port: 0, file: join(dir, 'eventstore.db') })
  t.teardown(() => eventStore.close())
  const mongo = await startMongoDouble({ port: 0, file: join(dir, 'mongo.db') })
  t.teardown(() => mongo.close())
  const environment = {
    EVENTSTORE_URL: eventStoreWithLongTimeouts(eventStore),
    MONGODB_URL: mongoWithLongTimeouts(mongo),
  }
  const server = await startTestServer(t, environment)

  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true, private: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  await work.git('checkout', '-q', '-b', 'topic')
  const head = await work.commit('Add a file', { 'a.txt': 'a\n' })
  await work.git('push', '-q', 'origin', 'topic')
  const opening = { head: 'topic', base: 'main', title: 'Add a file' }
  const { data: pull } = await alice.repos.repoCreatePullRequest('alice', 'app', opening)
  t.match(pull, { number: 1, mergeable: true, head: { sha: head } })
  t.equal(await statusOf(alice.repos.repoCreatePullRequest('alice', 'app', opening)), 409)
  await alice.repos.repoMergePullRequest('alice', 'app', 1, { Do: 'merge' })
  await work.git('fetch', '-q')
  t.equal(await work.git('rev-parse', 'origin/main^2'), head)
  const { data: closed } = await alice.repos.repoListPullRequests('alice', 'app', { state: 'closed' })
  t.match(closed, [{ number: 1, merged: true }])
  t.equal(await statusOf(server.anonymous.repos.repoGet('alice', 'app')), 404)

  const health = await server.fetch(null, '/healthz')
  t.equal(health.status, 200)

  // A second node on the same stores has its own projector and gives the same answers.
  const said: string[] = []
  const second = await startTestServer(t, environment, { write: (line) => void said.push(line) })
  // Its data directory is a new one, on an old log.
  t.match(said.join(''), /\/git is empty, but the log has repositories: mount its disk, or restore a backup/)
  const { data: there } = await (await second.as('admin')).repos.repoGetPullRequest('alice', 'app', 1)
  t.match(there, { number: 1, merged: true, merge_commit_sha: await work.git('rev-parse', 'origin/main') })

  // Rebuild while serving works on MongoDB: the other node takes the new documents, too.
  const body = JSON.stringify({ models: ['issues'] })
  const rebuilt = await second.fetch('admin', '/api/v1/admin/rebuild', { method: 'POST', body })
  t.equal(rebuilt.status, 200)
  t.match((await rebuilt.text()).trim().split('\n').at(-1), /"rebuilt":/)
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'After the rebuild' })
  for (const node of [server, second]) {
    const found = await node.fetch('alice', '/api/v1/repos/alice/app/issues?q=rebuild')
    t.match(await found.json(), [{ title: 'After the rebuild' }], 'both nodes show what came after it')
  }

  // A list = one round trip to MongoDB. Beside it, the servers only ask for checkpoints, and sometimes look for merges
  // to finish; then the attempt is repeated.
  const askedOnce = async (path: string) => {
    const before = mongo.commands.length
    t.equal((await server.fetch('alice', `/api/v1/repos/alice/app${path}`)).status, 200, path)
    return mongo.commands.slice(before).filter((name) => name === 'aggregate').length
  }
  const asked = async (path: string) => {
    const first = await askedOnce(path)
    // Later requests have the total in the cache, and may ask nothing.
    return first <= 1 ? first : Math.max(1, Math.min(await askedOnce(path), await askedOnce(path)))
  }
  for (const path of [
    '/issues?state=all',
    '/pulls?state=all',
    '/labels',
    '/milestones',
    '/issues/comments',
  ]) {
    t.equal(await asked(path), 1, path)
  }

  // Without its log a server refuses writes and reports that it is unhealthy. It recovers without a restart.
  const { port } = eventStore
  await eventStore.close()
  const create = () =>
    server.fetch('alice', '/api/v1/user/repos', { method: 'POST', body: JSON.stringify({ name: 'later' }) })
  t.equal((await create()).status, 503)
  t.equal((await server.fetch(null, '/healthz')).status, 503)
  const back = await startEventStoreDouble({ port, file: join(dir, 'eventstore.db') })
  t.teardown(() => back.close())
  await until('the server is healthy again', async () => {
    return (await server.fetch(null, '/healthz')).status === 200
  })
  t.equal((await create()).status, 201)
})
