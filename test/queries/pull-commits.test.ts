import { rename, rm } from 'node:fs/promises'
import type { Commit } from 'gitea-js'
import t from 'tap'
import type { Static } from 'typebox'
import type { CommitWire } from '../../src/api/contents/commits.ts'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { statusOf } from '../start-server.ts'
import { until } from '../until.ts'

/** Compiles only if Gitea's client knows the name of every field. */
type Known<Wire, Theirs> = Exclude<keyof Wire, keyof Theirs> extends never ? true : never
export const knownToClients: Known<Static<typeof CommitWire>, Commit> = true

const { server, alice, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
const commitsOf = async (name: string, index: number, query = {}) =>
  (await alice.repos.repoGetPullRequestCommits('alice', name, index, query)).data
const idsOf = async (name: string, index: number, query = {}) =>
  (await commitsOf(name, index, query)).map(({ sha }) => sha)

t.test(
  "pulls.commits.1: an open pull request's commits are those that its base does not have, newest first",
  async (t) => {
    const { work, commit, push, open } = await repository(t, 'app')
    await work.git('checkout', '-q', '-b', 'topic')
    await work.git('config', 'user.name', 'x')
    const first = await commit('First\n\nWith a body.', { a: '1\n2\n', b: Buffer.from([0]) })
    await work.git('mv', 'a', 'c')
    const second = await commit('Second', { c: '1\n2\n3\n' })
    await push('topic')
    const index = await open('topic')
    const [newest, oldest] = await commitsOf('app', index)
    const api = `${server.url}/api/v1/repos/alice/app/git`
    const tree = await work.git('rev-parse', `${first}^{tree}`)
    const date = await work.git('log', '-1', '--format=%cI', first)
    const person = { name: 'Tester', email: 'tester@example.org' }
    const parent = await work.git('rev-parse', 'main')
    t.match(oldest, {
      url: `${api}/commits/${first}`,
      html_url: `${server.url}/alice/app/commit/${first}`,
      sha: first,
      commit: {
        url: `${api}/commits/${first}`,
        author: person,
        committer: person,
        message: 'First\n\nWith a body.\n',
        tree: { sha: tree, url: `${api}/trees/${tree}` },
        verification: { verified: false, reason: 'gpg.error.not_signed_commit', signature: '', payload: '' },
      },
      author: null,
      committer: null,
      parents: [{ sha: parent, url: `${api}/commits/${parent}` }],
      files: [
        { filename: 'a', status: 'added' },
        { filename: 'b', status: 'added' },
      ],
      stats: { total: 2, additions: 2, deletions: 0 },
    })
    t.equal(Date.parse(oldest?.created ?? ''), Date.parse(date))
    t.equal(Date.parse(oldest?.commit?.author?.date ?? ''), Date.parse(date))
    t.match(newest, {
      sha: second,
      parents: [{ sha: first }],
      files: [
        { filename: 'a', status: 'removed' },
        { filename: 'c', status: 'added' },
      ],
      stats: { total: 1, additions: 1, deletions: 0 },
    })
    for (const no of ['false', '0', 'no', '%00']) {
      const answer = await server.fetch(
        'alice',
        `/api/v1/repos/alice/app/pulls/${index}/commits?verification=${no}&files=${no}`,
      )
      t.match(await answer.json(), [{ commit: { verification: null }, files: null, stats: { total: 1 } }, {}])
    }

    // The base branch gets the first commit, so the pull request no longer lists it.
    await push(`${first}:main`)
    await until('its merge base has moved', async () => (await idsOf('app', index)).length === 1)
    t.strictSame(await idsOf('app', index), [second])
  },
)

t.test(
  "pulls.commits.1: a merged pull request's commits run from the stored merge base to its head",
  async (t) => {
    const { work, commit, push, open, dir, download } = await repository(t, 'merged')
    await work.git('checkout', '-q', '-b', 'topic')
    const ids = [
      await commit('1', { a: '1' }),
      await commit('2', { a: '2' }),
      await commit('3', { a: '3' }),
    ].reverse()
    await push('topic')
    const index = await open('topic')
    t.strictSame((await idsOf('merged', index)).sort(), [...ids].sort())
    await alice.repos.repoMergePullRequest('alice', 'merged', index, { Do: 'merge' })
    t.equal(await statusOf(alice.repos.repoDeleteBranch('alice', 'merged', 'topic')), 204)
    await work.git('checkout', '-q', 'main')
    await work.git('pull', '-q')
    await commit('Later', { later: 'l' })
    await push('main')
    const commits = await commitsOf('merged', index)
    t.strictSame(
      commits.map(({ sha }) => sha),
      (await work.git('log', '--format=%H', 'topic', '^main~2')).split('\n'),
    )
    t.equal(commits.length, 3)

    await rename(dir, `${dir}.away`)
    t.strictSame(await commitsOf('merged', index), commits, 'the second request needs no git')
    t.strictSame(await idsOf('merged', index, { limit: 2 }), ids.slice(0, 2), 'nor does another page')
    t.equal((await download('2/commits')).status, 404)
  },
)

t.test('api.paging.3: pages of commits have four more headers', async (t) => {
  const { work, commit, push, open, download } = await repository(t, 'pages')
  await work.git('checkout', '-q', '-b', 'topic')
  for (let i = 0; i < 5; i++) await commit(`${i}`, { a: `${i}\n` })
  await push('topic')
  const index = await open('topic')
  const log = (await work.git('log', '--format=%H', 'main..topic')).split('\n')
  const page = async (query: string) => {
    const answer = await download(`${index}/commits${query}`)
    const commits: { sha: string }[] = JSON.parse(await answer.text())
    const names = ['x-page', 'x-perpage', 'x-pagecount', 'x-hasmore', 'x-total-count']
    t.match(answer.headers.get('access-control-expose-headers'), /X-Page, X-PerPage, X-PageCount, X-HasMore/)
    return [commits.map(({ sha }) => sha), ...names.map((name) => answer.headers.get(name))]
  }
  t.strictSame(await page(''), [log, '1', '30', '1', 'false', '5'])
  t.strictSame(await page('?limit=2'), [log.slice(0, 2), '1', '2', '3', 'true', '5'])
  t.strictSame(await page('?limit=2&page=3'), [log.slice(4), '3', '2', '3', 'false', '5'])
  t.strictSame(await page('?limit=2&page=4'), [[], '4', '2', '3', 'false', '5'])
  t.strictSame((await page('?limit=2&page=99999999999999'))[0], [])
})

t.test('authors and committers are the users with their e-mail address', async (t) => {
  const { work, commit, push, open } = await repository(t, 'people')
  await work.git('checkout', '-q', '-b', 'topic')
  await commit('x', { a: 'a' })
  await work.git('commit', '-q', '--amend', '--no-edit', '--author=Robert <bob@example.org>')
  await push('topic')
  const [only] = await commitsOf('people', await open('topic'))
  t.match(only, {
    author: { login: 'bob', email: /^bob@noreply\./ },
    committer: null,
    commit: { author: { name: 'Robert', email: 'bob@example.org' } },
  })
})

t.test('a signed commit comes with its signature and the signed text', async (t) => {
  const { work, commit, open, push } = await repository(t, 'signed')
  await work.git('checkout', '-q', '-b', 'topic')
  const plain = await commit('x', { a: 'a' })
  const payload = `${await work.git('cat-file', 'commit', plain)}\n`
  const signature = '-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n'
  const header = `gpgsig ${signature.trimEnd().replaceAll('\n', '\n ')}\n`
  const at = payload.indexOf('\n\n') + 1
  await commit('raw', { raw: payload.slice(0, at) + header + payload.slice(at) })
  const signed = await work.git('hash-object', '-t', 'commit', '-w', 'raw')
  await push(`${signed}:refs/heads/topic`)
  t.match(await commitsOf('signed', await open('topic')), [
    { sha: signed, commit: { verification: { verified: false, signature, payload } } },
  ])
})

t.test('404 if the user may not read, or the pull request or its commits do not exist', async (t) => {
  const { work, commit, push, open, download, objectFile } = await repository(t, 'private', { private: true })
  await work.git('checkout', '-q', '-b', 'topic')
  await commit('first', { a: 'a\n' })
  const head = await commit('second', { a: 'b\n' })
  await push('topic')
  const index = await open('topic')
  t.equal((await server.fetch(null, `/api/v1/repos/alice/private/pulls/${index}/commits`)).status, 404)
  for (const odd of ['0', '-1', '2', 'x', '9223372036854775808']) {
    t.equal((await download(`${odd}/commits`)).status, 404, odd)
  }
  await rm(objectFile(head))
  t.equal((await download(`${index}/commits`)).status, 404)
})

t.test(
  'commits?sha=refs/pull/1/head and contents?ref= of it lead to the head of a pull request',
  async (t) => {
    const { branch, open, call, push } = await repository(t, 'by-ref')
    const head = await branch('topic', { 'a.txt': 'a\n' })
    const index = await open('topic')
    await push(':topic')
    const ref = `refs/pull/${index}/head`
    const { body: commits } = await call(null, 'GET', `commits?sha=${ref}`)
    t.match(commits[0], { sha: head })
    t.equal((await call(null, 'GET', `contents/a.txt?ref=${ref}`)).status, 200)
    t.equal(
      (await call('alice', 'POST', `statuses/${encodeURIComponent(ref)}`, { state: 'success' })).status,
      201,
    )
    for (const other of [
      'refs/pull/9/head',
      'refs/pull/01/head',
      'refs/pull/1/merge',
      'refs/pull/1',
      'pull/1/head',
    ]) {
      t.equal((await call(null, 'GET', `commits?sha=${other}`)).status, 404, other)
      t.equal((await call(null, 'GET', `contents/a.txt?ref=${other}`)).status, 404, other)
    }
  },
)
