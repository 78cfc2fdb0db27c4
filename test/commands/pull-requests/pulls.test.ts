import t from 'tap'
import { workTree } from '../../git-client.ts'
import { startTestServer, statusOf } from '../../start-server.ts'

t.test('from a push to a merged pull request', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  const { data: repository } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  t.match(repository, { full_name: 'alice/app', empty: false, default_branch: 'main' })

  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  await work.git('checkout', '-q', '-b', 'topic')
  const head = await work.commit('Add a file', { 'a.txt': 'a\n' })
  await work.git('push', '-q', 'origin', 'topic')

  const { data: pull, status } = await alice.repos.repoCreatePullRequest('alice', 'app', {
    head: 'topic',
    base: 'main',
    title: 'Add a file',
  })
  t.equal(status, 201)
  t.match(pull, { number: 1, state: 'open', merged: false, mergeable: true, additions: 1, changed_files: 1 })
  t.equal(pull.head?.sha, head)

  t.equal(await statusOf(alice.repos.repoPullRequestIsMerged('alice', 'app', 1)), 404)
  const merge = await alice.repos.repoMergePullRequest('alice', 'app', 1, { Do: 'merge' })
  t.equal(merge.status, 200)
  t.equal((await alice.repos.repoPullRequestIsMerged('alice', 'app', 1)).status, 204)

  await work.git('fetch', '-q')
  const message = await work.git('log', '-1', '--format=%B', 'origin/main')
  t.equal(message, "Merge pull request 'Add a file' (#1) from topic into main")
  t.equal(await work.git('rev-parse', 'origin/main^2'), head)
  t.equal(await statusOf(alice.repos.repoMergePullRequest('alice', 'app', 1, { Do: 'merge' })), 405)
})
