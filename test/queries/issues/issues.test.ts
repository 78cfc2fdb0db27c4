import t from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import { issueStream } from '../../../src/events/streams.ts'
import { startIssues } from '../../commands/issues/setup.ts'
import { workTree } from '../../git-client.ts'
import { aContext } from '../../stores.ts'
import { until } from '../../until.ts'

const { server, alice, bob, call, repository } = await startIssues(t)

/** Numbers of the issues on a page, and the total. */
async function list(
  repo: string,
  query: Record<string, string> = {},
  login: string | null = 'bob',
  owner = 'alice',
) {
  const { status, body, headers } = await call(
    login,
    'GET',
    `repos/${owner}/${repo}/issues?${new URLSearchParams(query)}`,
  )
  if (status !== 200) return status
  const numbers = body.map(({ number }: { number: number }) => number)
  t.ok(Number(headers.get('x-total-count')) >= numbers.length)
  return numbers
}

t.test('search.1: closed or all; anything else means open', async (t) => {
  const { open, edit } = await repository('states')
  for (const title of ['a', 'b', 'c']) await open({ title })
  await edit(2, { state: 'closed' })
  for (const state of ['open', '', 'CLOSED', 'merged', 'closed,open'])
    t.same(await list('states', { state }), [3, 1], state)
  t.same(await list('states'), [3, 1])
  t.same(await list('states', { state: 'closed' }), [2])
  t.same(await list('states', { state: 'all' }), [3, 2, 1])
})

t.test('search.2: every word of q begins a word of the title, the body or the comments', async (t) => {
  const { open, edit } = await repository('words')
  await open({ title: 'Merge fails', body: 'On the second try' })
  await open({ title: 'Größe ändern', body: 'ПРИВЕТ' })
  await open({ title: '日本語のテスト', body: 'x' })
  await open({ title: 'Merge', body: 'never mind', closed: true })
  const say = (index: number, body: string) =>
    alice.repos.issueCreateComment('alice', 'words', index, { body })
  const { data: comment } = await say(1, 'Only with Submodules')
  const find = (q: string, more = {}) => list('words', { q, ...more })
  for (const [q, found] of [
    ['merge', [1]],
    ['MER fai', [1]],
    ['try mer', [1]],
    ['submod fails', [1]],
    ['erge', []],
    ['merge nothing', []],
    ['  GRÖSSE ', [2]],
    ['привет', [2]],
    ['本語', [3]],
    ['-merge!', [1]],
    ['x', [3]],
  ] as const) {
    t.same(await find(q), found, q)
  }
  t.same(await find('merge', { state: 'all' }), [4, 1])
  t.same(await find('merge', { state: 'all', limit: '1', page: '2' }), [1])
  const all = [3, 2, 1]
  for (const none of ['', '   ', '\t\n', 'merge\0', '\0']) t.same(await find(none), all)

  await alice.repos.issueEditComment('alice', 'words', comment.id ?? 0, { body: 'Only with worktrees' })
  t.same([await find('submod'), await find('worktree')], [[], [1]])
  await alice.repos.issueDeleteComment('alice', 'words', comment.id ?? 0)
  t.same(await find('worktree'), [])
  await edit(1, { title: 'Rebase fails', body: 'On the first try' })
  t.same([await find('merge'), await find('second'), await find('rebase first')], [[], [], [1]])
  await say(4, 'reopened')
  await edit(4, { state: 'open' })
  t.same(await find('merge reopen'), [4])
})

t.test('search.2: a keyword of signs alone is matched by nothing, so the list is empty', async (t) => {
  const { open, label } = await repository('signs')
  await open({ title: 'Party 🎉 !!!', labels: [await label('bug')] })
  for (const q of ['-- !', '🎉', '!!!', ' ++ ']) {
    t.same(await list('signs', { q }), [], q)
    t.same(await list('signs', { q, labels: 'bug' }), [], q)
    const found = await call('alice', 'GET', `repos/issues/search?${new URLSearchParams({ q })}`)
    t.same([found.body, found.headers.get('x-total-count')], [[], '0'], q)
  }
  t.same(await list('signs', { q: '🎉 party' }), [1])
})

t.test('search.2: finds only issues that have the words and one of the labels', async (t) => {
  const { open, label } = await repository('both')
  const bug = await label('bug')
  await open({ title: 'Merge', labels: [bug] })
  await open({ title: 'Merge' })
  await open({ title: 'Other', labels: [bug] })
  t.same(await list('both', { q: 'merge', labels: 'bug' }), [1])
  t.same(await list('both', { q: 'nothing', labels: 'bug' }), [])
  t.same(await list('both', { q: 'merge', labels: 'unknown' }), [2, 1])
})

t.test('search.3: finds issues with any of the labels; unknown names are discarded', async (t) => {
  const { open, label, edit } = await repository('labels')
  const [bug, idea] = [await label('bug'), await label('an idea')]
  await label('unused')
  await (await repository('labels-elsewhere')).label('far')
  await open({ labels: [bug] })
  await open({ labels: [idea] })
  await open({ labels: [bug, idea] })
  await open()
  const find = (labels: string) => list('labels', { labels })
  t.same(await find('bug'), [3, 1])
  t.same(await find('bug,an idea'), [3, 2, 1])
  t.same(await find(' bug , , unknown,far'), [3, 1])
  t.same(await find('unused'), [])
  t.same(await find('unused,bug'), [3, 1])
  for (const none of ['', ',', 'unknown', 'far', 'BUG', `${bug}`])
    t.same(await find(none), [4, 3, 2, 1], none)
  const many = Array.from({ length: 1000 }, (_, i) => `n${i}`).join()
  t.same(await find(`${many},bug`), [3, 1], 'also after many unknown names')

  await alice.repos.issueEditLabel('alice', 'labels', bug, { name: 'defect' })
  t.same([await find('defect'), await find('bug,unused')], [[3, 1], []])
  await alice.repos.issueDeleteLabel('alice', 'labels', bug)
  t.same(await find('defect'), [4, 3, 2, 1], 'a deleted one is unknown')
  t.same(await find('defect,an idea'), [3, 2])
  const again = await label('defect')
  t.same(await find('defect'), [], 'a new label with the same name is another label')
  await call('alice', 'POST', 'repos/alice/labels/issues/4/labels', { labels: [again] })
  await edit(4, { title: 'Still' })
  t.same(await find('defect'), [4])
})

t.test('search.3: labels of the organization are also found by their names', async (t) => {
  await alice.orgs.orgCreate({ username: 'guild' })
  const { data: wide } = await alice.orgs.orgCreateLabel('guild', { name: 'bug', color: '#fff' })
  const { open, label } = await repository('hall', {}, 'guild')
  const own = await label('bug')
  await open({ labels: [wide.id] })
  await open({ labels: [own] })
  await open()
  t.same(await list('hall', { labels: 'bug' }, 'bob', 'guild'), [2, 1])
})

t.test('search.4: the list of a repository has only its own issues, for its readers', async (t) => {
  const one = await repository('one')
  const two = await repository('two', { private: true })
  await one.open({ title: 'Mine' })
  await two.open({ title: 'Mine' })
  await two.open({ title: 'Mine' })
  t.same(await list('one', {}, null), [1])
  t.same(await list('two', {}, 'carol'), [2, 1])
  t.same(await list('two', { q: 'mine' }, 'admin'), [2, 1])
  t.equal(await list('two', {}, 'bob'), 404)
  t.equal(await list('two', {}, null), 404)
  t.equal(await list('missing', {}, 'alice'), 404)
})

t.test(
  'search.5: lists come in pages, newest first, with the total and links to the other pages',
  async (t) => {
    const { repoId } = await repository('pages')
    const context = aContext()
    const poster = { id: 2, login: 'alice' }
    await Promise.all(
      Array.from({ length: 75 }, (_, i) => {
        const index = i + 1
        const data = { repoId, index, id: 5_000_000 + index, poster, title: `Issue ${index}`, body: '' }
        const rest = { labels: [], milestone: null, assignees: [], deadline: null }
        const opened = { type: 'IssueOpened', data: { ...data, ...rest } } as const
        return append(server.services, context, issueStream(repoId, index), 'seed', [opened], 'no-stream')
      }),
    )
    await server.services.projector.waitFor(context.written, 60_000)
    const page = async (query: string) => {
      const { body, headers } = await call('bob', 'GET', `repos/alice/pages/issues?${query}`)
      t.equal(headers.get('x-total-count'), '75')
      const numbers: number[] = body.map(({ number }: { number: number }) => number)
      return {
        numbers,
        rels: [...(headers.get('link') ?? '').matchAll(/rel="(\w+)"/g)].map(([, rel]) => rel),
      }
    }
    const from = (newest: number, count: number) => Array.from({ length: count }, (_, i) => newest - i)
    for (const extra of ['', '&q=issue', '&state=all', '&type=issues']) {
      t.same(await page(`a=b${extra}`), { numbers: from(75, 30), rels: ['next', 'last'] })
      t.same(await page(`page=2${extra}`), { numbers: from(45, 30), rels: ['next', 'last', 'first', 'prev'] })
      t.same(await page(`page=3${extra}`), { numbers: from(15, 15), rels: ['first', 'prev'] })
      t.same(await page(`page=4${extra}`), { numbers: [], rels: ['first', 'prev'] })
      t.same((await page(`limit=1000${extra}`)).numbers, from(75, 50))
      t.same((await page(`limit=7&page=11${extra}`)).numbers, from(5, 5))
      for (const odd of [
        'page=0',
        'page=-1',
        'page=x',
        'limit=0',
        'limit=-5',
        'limit=x',
        'page=1e9&limit=',
      ]) {
        t.same((await page(`${odd}${extra}`)).numbers, from(75, 30), odd)
      }
      t.same((await page(`page=999999999999999${extra}`)).numbers, [])
    }
  },
)

t.test('lists have issues and pull requests, or only one of these kinds', async (t) => {
  const { open } = await repository('kinds', { auto_init: true })
  await open()
  const work = await workTree(t, server.gitUrl('alice', 'alice/kinds'))
  await work.git('checkout', '-q', '-b', 'topic')
  await work.commit('Topic', { topic: 'x\n' })
  await work.git('push', '-q', 'origin', 'topic')
  const pull = { head: 'topic', base: 'main', title: 'WIP: Topic' }
  await alice.repos.repoCreatePullRequest('alice', 'kinds', pull)
  await open({ title: 'Topic' })
  for (const type of ['', 'all', 'ISSUES']) t.same(await list('kinds', { type }), [3, 2, 1], type)
  t.same(await list('kinds', { type: 'issues' }), [3, 1])
  t.same(await list('kinds', { type: 'pulls' }), [2])
  t.same(await list('kinds', { type: 'pulls', q: 'topic' }), [2])
  t.same(await list('kinds', { type: 'issues', q: 'topic' }), [3])
  const { data } = await bob.repos.issueListIssues('alice', 'kinds', { type: 'pulls' })
  t.match(data, [{ number: 2, pull_request: { merged: false, draft: true, merged_at: null } }])
  await call('alice', 'PATCH', 'repos/alice/kinds/pulls/2', { title: 'Topic' })
  t.equal((await call('alice', 'POST', 'repos/alice/kinds/pulls/2/merge', { Do: 'merge' })).status, 200)
  t.same(await list('kinds', { type: 'pulls' }), [])
  const [merged] = (await bob.repos.issueListIssues('alice', 'kinds', { type: 'pulls', state: 'closed' }))
    .data
  t.match(merged, {
    number: 2,
    state: 'closed',
    closed_at: /^20/,
    pull_request: { merged: true, merged_at: /^20/ },
  })
})

t.test(
  '`created_by`, `assigned_by` and `mentioned_by` of repository issues and of the issue search',
  async (t) => {
    await alice.orgs.orgCreate({ username: 'crowd' })
    const { open } = await repository('people', {}, 'crowd')
    await open({ title: 'a', body: 'Ask @bob and @carol', assignees: ['carol'] })
    await open({ title: 'b' }, 'bob')
    await open({ title: 'c', body: '@bob' }, 'bob')
    await call('alice', 'POST', 'repos/crowd/people/issues/2/comments', { body: 'See @carol' })
    const found = async (path: string) => {
      const { body, headers } = await call('alice', 'GET', path)
      t.equal(headers.get('x-total-count'), `${body.length}`)
      return body.map(({ number }: { number: number }) => number)
    }
    // The server finds mentions after the answer.
    const mentionsCarol = 'repos/crowd/people/issues?mentioned_by=carol'
    await until(
      'both mentions are found',
      async () => (await call('alice', 'GET', mentionsCarol)).body.length === 2,
    )
    for (const path of ['repos/crowd/people/issues?', 'repos/issues/search?owner=crowd&']) {
      t.same(await found(`${path}created_by=BOB`), [3, 2], path)
      t.same(await found(`${path}created_by=bob&mentioned_by=carol`), [2])
      t.same(await found(`${path}assigned_by=carol&created_by=alice&mentioned_by=bob`), [1])
      t.same(await found(`${path}mentioned_by=carol`), [2, 1])
      t.same(await found(`${path}mentioned_by=bob`), [1], 'who mentions themselves is not called')
      for (const name of ['created_by', 'assigned_by', 'mentioned_by']) {
        t.same(await found(`${path}${name}=nobody`), [], name)
      }
    }
    const { body } = await call('carol', 'GET', 'repos/issues/search?mentioned=true&owner=crowd')
    t.same(
      body.map(({ number }: { number: number }) => number),
      [2, 1],
      '`mentioned` of the search means the requester',
    )
  },
)

t.test('lists can be filtered by milestone, poster, assignee and time', async (t) => {
  const { open, milestone, get, edit } = await repository('narrow')
  const far = await (await repository('narrow-far')).milestone('Far')
  const [one, two] = [await milestone('One'), await milestone('2, or more')]
  const seven = await milestone(`${one}`)
  await open({ title: 'a', milestone: one, assignees: ['carol'] })
  await open({ title: 'b' }, 'bob')
  await open({ title: 'c', milestone: two, assignees: ['alice', 'carol'] }, 'carol')
  await open({ title: 'd', milestone: seven })
  t.same(await list('narrow', { milestones: 'One' }), [1])
  t.same(await list('narrow', { milestones: `One, ${two}` }), [3, 1])
  t.same(await list('narrow', { milestones: `${one}` }), [4], 'titles come before ids')
  for (const unknown of ['', 'one', 'Far', `${far}`, '0', 'x']) {
    t.same(
      await list('narrow', { milestones: unknown }),
      [4, 3, 2, 1],
      `unknown ones are discarded: ${unknown}`,
    )
  }
  t.same(await list('narrow', { created_by: 'BOB' }), [2])
  t.same(await list('narrow', { created_by: 'nobody' }), [])
  t.same(await list('narrow', { assigned_by: 'carol' }), [3, 1])
  t.same(await list('narrow', { assigned_by: 'carol', created_by: 'alice', milestones: 'One', q: 'a' }), [1])
  t.same(await list('narrow', { assigned_by: 'nobody' }), [])
  await alice.repos.issueDeleteMilestone('alice', 'narrow', `${two}`)
  t.same(await list('narrow', { milestones: `${two}` }), [4, 3, 2, 1], 'a deleted one is unknown')
  t.equal((await get(3)).milestone, null)

  await edit(2, { body: 'changed' })
  // Answers show whole seconds; the history has milliseconds.
  const history = await server.fetch('alice', '/api/v1/repos/alice/narrow/issues/2/history')
  const at: string = JSON.parse(await history.text()).at(-1).at
  t.same(await list('narrow', { since: at }), [2])
  t.same(await list('narrow', { before: at }), [4, 3, 2, 1])
  t.same(await list('narrow', { since: at, q: 'b' }), [2])
  t.same(await list('narrow', { since: '2999-01-01T00:00:00Z' }), [])
  t.same(await list('narrow', { before: '2001-01-01T00:00:00+02:00' }), [])
  t.same(await list('narrow', { since: '', before: '' }), [4, 3, 2, 1])
  for (const odd of ['soon', '2027-02-30T00:00:00Z', '2027-01-01']) {
    t.equal(await list('narrow', { since: odd }), 422)
    t.equal(await list('narrow', { before: odd }), 422)
  }
})

t.test('hostile queries are answered', async (t) => {
  const { open } = await repository('hostile')
  await open({ title: 'It\'s 100% "odd" $[*] {$gt: 1}' })
  for (const q of [
    "it's",
    '100%',
    '"odd"',
    "' OR 1=1 --",
    '$gt',
    '*',
    '(',
    '\\',
    '%00',
    '\u{10ffff}',
    '\ud800',
  ]) {
    const found = await list('hostile', { q })
    t.ok(Array.isArray(found) && found.length <= 1, q)
  }
  const long = Array.from({ length: 1500 }, (_, i) => `w${i}`).join(' ')
  t.same(await list('hostile', { q: long }), [])
  t.same(await list('hostile', { labels: "x' OR '1'='1" }), [1])
})
