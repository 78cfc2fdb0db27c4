import t from 'tap'
import { workTree } from '../../git-client.ts'
import { withoutCounters } from '../../queries/history/replay/recorded-answers.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { startPulls } from './pull-repository.ts'

const { server, alice, repository } = await startPulls(t)

t.test('pulls.merged.1: from a push to a merged pull request', async (t) => {
  const { work, branch, tryOpen } = await repository(t, 'app')
  const head = await branch('topic', { 'a.txt': 'a\n' })
  const { body: pull, status } = await tryOpen('topic', { title: 'Add a file', body: 'Why' })
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
  const { data } = await alice.repos.repoGetPullRequest('alice', 'app', 1)
  t.strictSame(withoutCounters(data), withoutCounters(pull))

  t.equal(await statusOf(alice.repos.repoPullRequestIsMerged('alice', 'app', 1)), 404)
  const merge = await alice.repos.repoMergePullRequest('alice', 'app', 1, { Do: 'merge' })
  t.equal(merge.status, 200)
  t.equal((await alice.repos.repoPullRequestIsMerged('alice', 'app', 1)).status, 204)

  await work.git('fetch', '-q')
  const [tip, first, second] = (await work.git('log', '-1', '--format=%H %P', 'origin/main')).split(' ')
  t.strictSame([first, second], [await work.git('rev-parse', 'main'), head])
  t.equal(
    await work.git('log', '-1', '--format=%an <%ae> %cn', 'origin/main'),
    'alice <alice@noreply.127.0.0.1> alice',
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

t.test(
  'pulls.list.1, api.paging.1, api.paging.2: lists select by state, sort, and come in pages',
  async (t) => {
    const { branch, branches, open, merge } = await repository(t, 'lists')
    const heads = Array.from({ length: 5 }, (_, i) => `topic${i + 1}`)
    await branches(...heads)
    for (const head of heads) await open(head)
    t.equal((await merge(2)).status, 200)
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
  },
)

t.test('api.paging.1: a limit above the maximum gives the maximum', async (t) => {
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

t.test('pulls.get.1: an index that is not a positive int64, or has no pull request, gives 404', async (t) => {
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

t.test('merge.4: without Do, or without a body, the plain style is used', async (t) => {
  const { branches, open, call } = await repository(t, 'rule-m4')
  await branches('a', 'b', 'c')
  for (const head of ['a', 'b', 'c']) await open(head)
  t.equal((await call('alice', 'POST', 'pulls/1/merge', { Do: '' })).status, 200)
  t.equal((await call('alice', 'POST', 'pulls/2/merge', {})).status, 200)
  const bare = await call('alice', 'POST', 'pulls/3/merge')
  t.equal(bare.status, 200)
  t.equal(bare.text, '')
})

t.test(
  'merge.5: the message is the trimmed title, or the default, and the body after a blank line',
  async (t) => {
    const { branches, open, merge, work } = await repository(t, 'rule-m5')
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
    const heads = messages.map((_, i) => `b${i}`)
    await branches(...heads)
    for (const [i, fields] of messages.entries()) {
      await open(`b${i}`)
      await merge(i + 1, fields)
      await work.git('fetch', '-q')
      t.equal(await work.git('log', '-1', '--format=%B', 'origin/main'), expected[i])
    }
  },
)

t.test('with an Idempotency-Key a retried request is carried out once', async (t) => {
  const { branch, call, open, tryOpen, push, typesOf } = await repository(t, 'once')
  const post = (path: string, body: object, headers: Record<string, string>) =>
    call('alice', 'POST', path, body, headers)
  await branch('topic', { a: 'a' })
  await branch('clash', { a: 'clash' })
  const body = { head: 'topic', base: 'main', title: 'Once' }
  const key = (name: string) => ({ 'idempotency-key': name })
  const answers = await Promise.all(Array.from({ length: 5 }, () => post('pulls', body, key('k'))))
  t.strictSame(
    answers.map(({ status }) => status),
    Array(5).fill(201),
  )
  t.strictSame(new Set(answers.map((answer) => answer.body.number)).size, 1)
  const { number } = answers[0]?.body ?? {}
  t.strictSame(await typesOf(number), ['PullRequestOpened'])
  t.equal((await post('pulls', { ...body, title: 'Twice' }, key('k'))).status, 422)
  t.equal((await post('pulls', body, key('k2'))).status, 409, 'another key is another request')
  t.equal((await post('pulls', body, key('x'.repeat(256)))).status, 400)
  const { id } = (await post('milestones', { title: 'One' }, {})).body
  await branch('named', { a: 'named' })
  const named = { head: 'named', base: 'main', title: 'Named', milestone: id }
  const opened = await post('pulls', named, key('named'))
  t.equal((await call('alice', 'DELETE', `milestones/${id}`)).status, 204)
  const again = await post('pulls', named, key('named'))
  t.strictSame([again.status, again.body.number], [201, opened.body.number], 'its milestone is gone since')
  t.equal((await call('alice', 'PATCH', `pulls/${again.body.number}`, { state: 'closed' })).status, 201)

  const merge = (name: string) => post(`pulls/${number}/merge`, { Do: 'merge' }, key(name))
  t.strictSame(
    [await merge('m'), await merge('m')].map(({ status }) => status),
    [200, 200],
  )
  t.equal((await merge('m2')).status, 405)
  t.equal((await typesOf(number)).filter((type) => type === 'PullRequestMerged').length, 1)

  await push(':topic')
  const late = await post('pulls', body, key('k'))
  t.strictSame([late.status, late.body.number, late.body.merged], [201, number, true], 'long after')
  await branch('topic', { c: 'c' })
  t.equal((await tryOpen('topic')).status, 201, 'the retry holds no claim')

  const clash = await open('clash')
  const retried = () => post(`pulls/${clash}/merge`, { Do: 'merge' }, key('clash'))
  t.strictSame([(await retried()).status, (await retried()).status], [409, 409])
})

t.test('a merge fails when its repository is deleted during it, and blocks nothing', async (t) => {
  const { branch, open, merge } = await repository(t, 'vanishing')
  await branch('topic', { a: 'a' })
  await open('topic')
  const [merged, deleted] = await Promise.all([
    statusOf(merge(1)),
    statusOf(alice.repos.repoDelete('alice', 'vanishing')),
  ])
  t.equal(deleted, 204)
  t.ok([200, 404, 405, 409].includes(merged), `${merged}`)
  t.strictSame(await server.services.views.pulls.find({ merging: true }), [])
})
