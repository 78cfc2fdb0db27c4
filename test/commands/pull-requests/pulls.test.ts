import type { CreatePullRequestOption, MergePullRequestOption } from 'gitea-js'
import t from 'tap'
import { workTree } from '../../git-client.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { until } from '../../until.ts'

const server = await startTestServer(t)
const [alice, bob] = await Promise.all([server.as('alice'), server.as('bob')])

/** A repository of alice's with a first commit, and a clone of it. */
async function repository(t: Pick<WorkTreeTest, 'teardown'>, name: string, options: object = {}) {
  await alice.user.createCurrentUserRepo({ name, auto_init: true, ...options })
  const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
  return {
    work,
    /** Pushes a branch from main with these files; resolves to its tip. */
    async branch(branch: string, files: Record<string, string>, from = 'main') {
      await work.git('checkout', '-q', '-B', branch, from)
      const tip = await work.commit(`Commit on ${branch}`, files)
      await work.git('push', '-q', '-f', 'origin', branch)
      return tip
    },
    open: (head: string, options: Partial<CreatePullRequestOption> = {}) =>
      alice.repos.repoCreatePullRequest('alice', name, {
        head,
        base: 'main',
        title: `From ${head}`,
        ...options,
      }),
    get: async (index: number) => (await alice.repos.repoGetPullRequest('alice', name, index)).data,
    merge: (index: number, options: Partial<MergePullRequestOption> = {}) =>
      alice.repos.repoMergePullRequest('alice', name, index, { Do: 'merge', ...options }),
  }
}
type WorkTreeTest = Parameters<typeof workTree>[0]

/** Status and body of a POST as alice: for what Gitea's client hides of errors. */
async function post(path: string, body: object, headers: Record<string, string> = {}) {
  const answer = await server.fetch('alice', `/api/v1/repos/alice/${path}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
}

async function eventsOf(stream: string): Promise<string[]> {
  const types: string[] = []
  for await (const { type } of server.services.events.readStream(stream)) types.push(type)
  return types
}

t.test('from a push to a merged pull request', async (t) => {
  const { work, branch, open } = await repository(t, 'app')
  const head = await branch('topic', { 'a.txt': 'a\n' })
  const { data: pull, status } = await open('topic', { title: 'Add a file', body: 'Why' })
  t.equal(status, 201)
  t.match(pull, {
    number: 1,
    title: 'Add a file',
    body: 'Why',
    state: 'open',
    user: { login: 'alice' },
    merged: false,
    mergeable: true,
    additions: 1,
    deletions: 0,
    changed_files: 1,
    merge_base: await work.git('rev-parse', 'main'),
    base: { ref: 'main', sha: await work.git('rev-parse', 'main') },
    head: { ref: 'topic', sha: head },
  })
  t.strictSame((await alice.repos.repoGetPullRequest('alice', 'app', 1)).data, pull)

  t.equal(await statusOf(alice.repos.repoPullRequestIsMerged('alice', 'app', 1)), 404)
  const merge = await alice.repos.repoMergePullRequest('alice', 'app', 1, { Do: 'merge' })
  t.equal(merge.status, 200)
  t.equal((await alice.repos.repoPullRequestIsMerged('alice', 'app', 1)).status, 204)

  await work.git('fetch', '-q')
  const [tip, first, second] = (await work.git('log', '-1', '--format=%H %P', 'origin/main')).split(' ')
  t.strictSame([first, second], [await work.git('rev-parse', 'main'), head])
  t.equal(
    await work.git('log', '-1', '--format=%an <%ae> %cn', 'origin/main'),
    'alice <alice@example.org> alice',
  )
  const message = await work.git('log', '-1', '--format=%B', 'origin/main')
  t.equal(message, "Merge pull request 'Add a file' (#1) from topic into main")
  t.match((await alice.repos.repoGetPullRequest('alice', 'app', 1)).data, {
    state: 'closed',
    merged: true,
    merged_by: { login: 'alice' },
    merge_commit_sha: tip,
    mergeable: false,
  })
})

t.test('lists select by state, sort, and come in pages', async (t) => {
  const { branch, open, merge, work } = await repository(t, 'lists')
  for (let i = 1; i <= 5; i++) {
    await branch(`topic${i}`, { [`f${i}`]: 'x' })
    await open(`topic${i}`)
  }
  await merge(2)
  await work.git('checkout', '-q', 'topic3')
  await branch('topic3', { more: 'x' }, 'topic3')
  const url = '/api/v1/repos/alice/lists/pulls'
  const list = async (query: string) => {
    const answer = await server.fetch(null, `${url}?${query}`)
    const pulls = await answer.json()
    const numbers: number[] = Array.isArray(pulls) ? pulls.map(({ number }) => number) : []
    const { headers, status } = answer
    return { status, numbers, total: headers.get('x-total-count'), link: headers.get('link'), headers }
  }
  const numbers = async (query: string) => (await list(query)).numbers

  t.strictSame(await numbers(''), [5, 4, 3, 1], 'open ones, newest first')
  t.strictSame(await numbers('state=open'), [5, 4, 3, 1])
  t.strictSame(await numbers('state=closed'), [2])
  t.strictSame(await numbers('state=all'), [5, 4, 3, 2, 1])
  t.strictSame(await numbers('state=odd'), [5, 4, 3, 1], 'an unknown state selects the open ones')

  t.strictSame(await numbers('state=all&sort=oldest'), [1, 2, 3, 4, 5])
  t.strictSame(await numbers('state=all&sort=recentupdate'), [3, 2, 5, 4, 1])
  t.strictSame(await numbers('state=all&sort=leastupdate'), [1, 4, 5, 2, 3])
  t.strictSame(await numbers('sort=mostcomment'), [5, 4, 3, 1])
  t.strictSame(await numbers('sort=leastcomment'), [1, 3, 4, 5])
  t.strictSame(await numbers('sort=priority'), [5, 4, 3, 1])
  for (const odd of ['odd', 'constructor', '__proto__', 'toString']) {
    t.strictSame(await numbers(`sort=${odd}`), [5, 4, 3, 1], `sort=${odd}`)
  }

  const middle = await list('state=all&sort=oldest&page=2&limit=2')
  t.strictSame(middle.numbers, [3, 4])
  t.equal(middle.total, '5')
  const at = (page: number) => `<${server.url}${url}?state=all&sort=oldest&page=${page}&limit=2>`
  t.equal(
    middle.link,
    `${at(3)}; rel="next", ${at(3)}; rel="last", ${at(1)}; rel="first", ${at(1)}; rel="prev"`,
  )
  t.match(middle.headers.get('access-control-expose-headers'), /X-Total-Count, Link/)
  t.strictSame(await list('page=99&limit=2').then((page) => [page.numbers, page.total]), [[], '4'])
  for (const page of ['0', '-1', 'x', '1.5', '', '99999999999999999999']) {
    t.strictSame((await list(`page=${page}&limit=1`)).numbers, [5], `page=${page}`)
  }
  t.equal((await list('page=999999999999999&limit=50')).status, 200)
  for (const limit of ['0', '-3', 'x', '', '1e3', '9'.repeat(40)]) {
    t.strictSame((await list(`limit=${limit}`)).numbers, [5, 4, 3, 1], `limit=${limit}`)
  }
})

t.test('a limit above the maximum gives the maximum', async (t) => {
  const small = await startTestServer(t, { PAGE_LIMIT_MAX: '2', PAGE_LIMIT_DEFAULT: '1' })
  const api = await small.as('alice')
  await api.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const work = await workTree(t, small.gitUrl('alice', 'alice/app'))
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/a', 'HEAD:refs/heads/b')
  for (const head of ['a', 'b', 'main']) {
    const base = head === 'main' ? 'a' : 'main'
    await api.repos.repoCreatePullRequest('alice', 'app', { head, base, title: head })
  }
  const length = async (limit: number) =>
    (await api.repos.repoListPullRequests('alice', 'app', { limit })).data.length
  t.strictSame([await length(50), await length(2), await length(0)], [2, 2, 1])
})

t.test('an index that is no positive int64, or has no pull request, gives 404', async (t) => {
  await repository(t, 'indexes')
  const indexes = [
    '0',
    '-1',
    '1',
    '01',
    '1.0',
    '1e0',
    'x',
    ' 1',
    '9223372036854775807',
    '9'.repeat(100),
    '%00',
  ]
  for (const index of indexes) {
    const url = `/api/v1/repos/alice/indexes/pulls/${index}`
    t.equal((await server.fetch('alice', url)).status, 404, index)
    t.equal((await server.fetch('alice', `${url}/merge`)).status, 404, index)
    const merge = await server.fetch('alice', `${url}/merge`, { method: 'POST', body: '{"Do":"merge"}' })
    t.equal(merge.status, 404, index)
  }
})

t.test('merge rule 2: who may not write, merged ones and works in progress give 405', async (t) => {
  const { branch, open, merge } = await repository(t, 'rule-m2')
  await branch('topic', { a: 'a' })
  await branch('wip', { b: 'b' })
  await branch('wip2', { c: 'c' })
  await open('topic')
  await open('wip', { title: 'WIP: later' })
  await open('wip2', { title: '[wip] later' })
  const asBob = bob.repos.repoMergePullRequest('alice', 'rule-m2', 1, { Do: 'merge' })
  t.equal(await statusOf(asBob), 405)
  const anonymous = server.anonymous.repos.repoMergePullRequest('alice', 'rule-m2', 1, { Do: 'merge' })
  t.equal(await statusOf(anonymous), 401)
  t.equal(await statusOf(merge(2)), 405)
  t.equal(await statusOf(merge(3)), 405)
  t.equal((await merge(1)).status, 200)
  t.equal(await statusOf(merge(1)), 405)
})

t.test('merge rule 4: without Do, or without a body, the plain style is used', async (t) => {
  const { branch, open } = await repository(t, 'rule-m4')
  await branch('a', { a: 'a' })
  await branch('b', { b: 'b' })
  await branch('c', { c: 'c' })
  for (const head of ['a', 'b', 'c']) await open(head)
  t.equal((await post('rule-m4/pulls/1/merge', { Do: '' })).status, 200)
  t.equal((await post('rule-m4/pulls/2/merge', {})).status, 200)
  const bare = await server.fetch('alice', '/api/v1/repos/alice/rule-m4/pulls/3/merge', { method: 'POST' })
  t.equal(bare.status, 200)
  t.equal(await bare.text(), '')
})

t.test(
  'merge rule 5: the message is the trimmed title, or the default, and the body after a blank line',
  async (t) => {
    const { branch, open, merge, work } = await repository(t, 'rule-m5')
    const messages = [
      { MergeTitleField: '  Own title ', MergeMessageField: ' \n' },
      { MergeTitleField: 'Own title', MergeMessageField: '\n Own body\n\nof two parts \n' },
      { MergeTitleField: ' ', MergeMessageField: 'Own body' },
    ]
    const expected = [
      'Own title',
      'Own title\n\nOwn body\n\nof two parts',
      "Merge pull request 'From b2' (#3) from b2 into main\n\nOwn body",
    ]
    for (const [i, fields] of messages.entries()) {
      await branch(`b${i}`, { [`f${i}`]: 'x' })
      await open(`b${i}`)
      await merge(i + 1, fields)
      await work.git('fetch', '-q')
      t.equal(await work.git('log', '-1', '--format=%B', 'origin/main'), expected[i])
    }
  },
)

t.test('merge rule 7: an unknown style gives 405; conflicts and another head give 409', async (t) => {
  const { branch, open, merge, get, work } = await repository(t, 'rule-m7')
  await branch('mine', { 'x.txt': 'mine\n', 'y.txt': 'mine\n', 'z.txt': 'mine\n' })
  const theirs = await branch('theirs', { 'x.txt': 'theirs\n', 'y.txt': 'theirs\n' })
  await open('mine')
  await open('theirs')
  t.equal((await post('rule-m7/pulls/1/merge', { Do: 'octopus' })).status, 405)
  const stale = await post('rule-m7/pulls/1/merge', { Do: 'merge', head_commit_id: theirs })
  t.equal(stale.status, 409)
  const head_commit_id = (await get(1)).head?.sha ?? ''
  t.equal((await merge(1, { head_commit_id })).status, 200)

  const conflict = await post('rule-m7/pulls/2/merge', { Do: 'merge' })
  t.equal(conflict.status, 409)
  t.strictSame(conflict.body.errors, ['x.txt', 'y.txt'])
  t.match(await get(2), { state: 'open', merged: false })
  await until('the conflict is known', async () => (await get(2)).mergeable === false)
  t.equal(await work.git('ls-remote', 'origin', 'refs/pull/2/head'), `${theirs}\trefs/pull/2/head`)
})

t.test('of concurrent merges of one pull request one gives 200 and the others 405', async (t) => {
  const { branch, open, merge } = await repository(t, 'rush')
  await branch('topic', { a: 'a' })
  await open('topic')
  const statuses = await Promise.all(Array.from({ length: 10 }, () => statusOf(merge(1))))
  t.strictSame(statuses.sort(), [200, ...Array(9).fill(405)])
})

t.test('a push moves the head, and what it is merged with is checked again in the background', async (t) => {
  const { branch, open, get, work } = await repository(t, 'moves')
  await branch('topic', { 'a.txt': 'one\n' })
  await open('topic')
  const head = await branch('topic', { 'a.txt': 'two\n', 'b.txt': 'b\n' }, 'topic')
  t.match(await get(1), { head: { sha: head }, changed_files: 2, mergeable: true }, 'at once')

  await work.git('checkout', '-q', 'main')
  await branch('main', { 'a.txt': 'of main\n' }, 'main')
  await until('the conflict is known', async () => (await get(1)).mergeable === false)
  t.equal((await get(1)).base?.sha, await work.git('rev-parse', 'main'))
  await branch('topic', { 'a.txt': 'of main\n' }, 'topic')
  await until('the conflict is gone', async () => (await get(1)).mergeable === true)

  await work.git('push', '-q', 'origin', ':topic')
  await until('there is nothing to merge', async () => (await get(1)).mergeable === false)
  t.equal((await post('moves/pulls/1/merge', { Do: 'merge' })).status, 405)
})

t.test('with an Idempotency-Key a retried request is carried out once', async (t) => {
  const { branch, open, work } = await repository(t, 'once')
  await branch('topic', { a: 'a' })
  await branch('clash', { a: 'clash' })
  const body = { head: 'topic', base: 'main', title: 'Once' }
  const key = (name: string) => ({ 'idempotency-key': name })
  const answers = await Promise.all(Array.from({ length: 5 }, () => post('once/pulls', body, key('k'))))
  t.strictSame(
    answers.map(({ status }) => status),
    Array(5).fill(201),
  )
  t.strictSame(new Set(answers.map((answer) => answer.body.number)).size, 1)
  const { number } = answers[0]?.body ?? {}
  const repo = (await alice.repos.repoGet('alice', 'once')).data
  const stream = `pull-${repo.id}.${number}`
  t.strictSame(await eventsOf(stream), ['PullRequestOpened'])
  t.equal((await post('once/pulls', { ...body, title: 'Twice' }, key('k'))).status, 422)
  t.equal((await post('once/pulls', body, key('k2'))).status, 409, 'another key is another request')
  t.equal((await post('once/pulls', body, key('x'.repeat(256)))).status, 400)

  const merge = (name: string) => post(`once/pulls/${number}/merge`, { Do: 'merge' }, key(name))
  t.strictSame(
    [await merge('m'), await merge('m')].map(({ status }) => status),
    [200, 200],
  )
  t.equal((await merge('m2')).status, 405)
  t.equal((await eventsOf(stream)).filter((type) => type === 'PullRequestMerged').length, 1)

  await work.git('push', '-q', 'origin', ':topic')
  const late = await post('once/pulls', body, key('k'))
  t.strictSame([late.status, late.body.number, late.body.merged], [201, number, true], 'long after')
  await branch('topic', { c: 'c' })
  t.equal((await open('topic')).status, 201, 'the retry holds no claim')

  const clash = (await open('clash')).data.number
  const retried = () => post(`once/pulls/${clash}/merge`, { Do: 'merge' }, key('clash'))
  t.strictSame([(await retried()).status, (await retried()).status], [409, 409])
})

t.test('a merge whose repository was deleted meanwhile has failed, and is no burden', async (t) => {
  const { branch, open } = await repository(t, 'vanishing')
  await branch('topic', { a: 'a' })
  await open('topic')
  const [merged, deleted] = await Promise.all([
    statusOf(alice.repos.repoMergePullRequest('alice', 'vanishing', 1, { Do: 'merge' })),
    statusOf(alice.repos.repoDelete('alice', 'vanishing')),
  ])
  t.equal(deleted, 204)
  t.ok([200, 404, 405, 409].includes(merged), `${merged}`)
  t.strictSame(await server.services.views.pulls.find({ merging: true }), [])
})
