import { rename } from 'node:fs/promises'
import t from 'tap'
import { workTree } from '../git-client.ts'
import { startTestServer, statusOf } from '../start-server.ts'

t.test(
  'reading pull requests and branches does not use git: it works after the repositories are removed',
  async (t) => {
    const server = await startTestServer(t)
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
    const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
    await work.git('checkout', '-q', '-b', 'topic')
    const head = await work.commit('Add a file', { 'a.txt': 'a\n' })
    await work.git('push', '-q', 'origin', 'topic')
    await alice.repos.repoCreatePullRequest('alice', 'app', {
      head: 'topic',
      base: 'main',
      title: 'Add a file',
    })

    const { gitDir } = server.services
    await rename(gitDir, `${gitDir}.away`)
    t.teardown(() => rename(`${gitDir}.away`, gitDir))
    const { data: list } = await server.anonymous.repos.repoListPullRequests('alice', 'app')
    t.match(list, [{ number: 1, mergeable: true, additions: 1, head: { sha: head } }])
    t.match((await server.anonymous.repos.repoGetPullRequest('alice', 'app', 1)).data, { merge_base: String })
    const { data: branches } = await server.anonymous.repos.repoListBranches('alice', 'app')
    t.match(branches, [{ name: 'main' }, { name: 'topic', commit: { id: head, message: 'Add a file\n' } }])
    const { data: branch } = await server.anonymous.repos.repoGetBranch('alice', 'app', 'topic')
    t.match(
      branch.commit,
      {
        verification: { verified: false, reason: 'gpg.error.not_signed_commit', signature: '', payload: '' },
        added: null,
        removed: null,
        modified: null,
      },
      '`GET branches` carries `commit.verification`, `added`, `removed`, `modified`',
    )
    t.strictSame(branches[1], branch)

    const merge = alice.repos.repoMergePullRequest('alice', 'app', 1, { Do: 'merge' })
    t.not(await statusOf(merge), 200, 'a request that needs git fails now')
    t.equal(await statusOf(server.anonymous.repos.repoPullRequestIsMerged('alice', 'app', 1)), 404)
  },
)
