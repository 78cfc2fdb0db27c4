import t from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import { pullStream } from '../../../src/events/streams.ts'
import type { Test } from '../../git-client.ts'
import { aContext } from '../../stores.ts'
import { type RepositoryOptions, startPulls } from '../pull-requests/pull-repository.ts'

const { server, alice, bob, call, repository } = await startPulls(t)

type Side = 'dependencies' | 'blocks'
const path = (repo: string, index: number | string, side: Side) =>
  `repos/alice/${repo}/issues/${index}/${side}`
const list = async (repo: string, index: number, side: Side, login: string | null = 'alice', query = '') => {
  const { body, headers } = await call(login, 'GET', `${path(repo, index, side)}${query}`)
  const issues: { number: number; repository: { name: string } }[] = body
  return {
    issues: issues.map(({ number, repository }) => `${repository.name}#${number}`),
    total: headers.get('x-total-count'),
    link: headers.get('link'),
  }
}
/** A repository with this number of pull requests. */
async function withPulls(t: Test, name: string, count: number, options: RepositoryOptions = {}) {
  const made = await repository(t, name, options)
  const heads = Array.from({ length: count }, (_, i) => `b${i + 1}`)
  await made.branches(...heads)
  for (const head of heads) await made.open(head)
  return made
}

t.test('a dependency is added, listed in both issues, and removed', async (t) => {
  const { changes, id, get } = await withPulls(t, 'app', 2)
  const meta = { owner: 'alice', repo: 'app', index: 2 }
  const added = await call('alice', 'POST', path('app', 1, 'dependencies'), meta)
  t.equal(added.status, 201)
  const page = `${server.url}/alice/app/pulls/1`
  const pull = await get(1)
  t.match(added.body, {
    id: pull.id,
    number: 1,
    title: 'From b1',
    state: 'open',
    user: { login: 'alice' },
    labels: [],
    url: `${server.url}/api/v1/repos/alice/app/issues/1`,
    html_url: page,
    pull_request: { merged: false, merged_at: null, draft: false, html_url: page },
    repository: { name: 'app', owner: 'alice', full_name: 'alice/app' },
  })
  t.strictSame((await list('app', 1, 'dependencies')).issues, ['app#2'])
  t.strictSame((await list('app', 2, 'blocks')).issues, ['app#1'])
  t.strictSame((await list('app', 1, 'blocks')).issues, [])
  t.strictSame((await list('app', 2, 'dependencies')).issues, [])
  t.strictSame((await bob.repos.repoGetPullRequest('alice', 'app', 1)).data.updated_at, added.body.updated_at)
  t.equal((await alice.repos.issueListIssueDependencies('alice', 'app', '1')).data[0]?.number, 2)

  const removed = await call('alice', 'DELETE', path('app', 1, 'dependencies'), meta)
  t.match(removed, { status: 200, body: { number: 1 } })
  t.strictSame((await list('app', 1, 'dependencies')).issues, [])
  t.strictSame((await list('app', 2, 'blocks')).issues, [])
  t.strictSame(await changes(1), [
    { type: 'DependencyAdded', data: { ...id(1), dependency: id(2) } },
    { type: 'DependencyRemoved', data: { ...id(1), dependency: id(2) } },
  ])
  t.strictSame(await changes(2), [])
})

t.test('blocks lists the same dependencies from the other issue', async (t) => {
  const { changes, id } = await withPulls(t, 'sides', 2)
  const blocks = path('sides', 2, 'blocks')
  t.match(await call('alice', 'POST', blocks, { index: 1 }), { status: 201, body: { number: 2 } })
  t.strictSame((await list('sides', 1, 'dependencies')).issues, ['sides#2'])
  t.match(await call('alice', 'DELETE', blocks, { owner: '', repo: null, index: 1 }), {
    status: 200,
    body: { number: 2 },
  })
  t.strictSame((await list('sides', 2, 'blocks')).issues, [])
  t.strictSame(
    (await changes(1)).map(({ data }) => data),
    Array(2).fill({ ...id(1), dependency: id(2) }),
  )
})

t.test('itself or a cycle gives 422, a duplicate 409, removing a missing one 404', async (t) => {
  const { changes } = await withPulls(t, 'circles', 4)
  const add = async (index: number, on: number) =>
    (await call('alice', 'POST', path('circles', index, 'dependencies'), { index: on })).status
  t.equal(await add(1, 1), 422)
  t.equal(await add(1, 2), 201)
  t.equal(await add(1, 2), 409)
  t.equal(await add(2, 1), 422, 'each other')
  t.equal(await add(2, 3), 201)
  t.equal(await add(3, 4), 201)
  t.equal(await add(4, 1), 422, 'by way of others')
  t.equal((await call('alice', 'POST', path('circles', 1, 'blocks'), { index: 4 })).status, 422)
  t.equal(await add(1, 4), 201, 'a shorter way to the same one is not a cycle')
  t.equal((await call('alice', 'DELETE', path('circles', 1, 'dependencies'), { index: 3 })).status, 404)
  t.strictSame(
    (await changes(1)).map(({ type }) => type),
    ['DependencyAdded', 'DependencyAdded'],
  )
})

t.test('10 requests for the same dependency at the same time: one gives 201, nine give 409', async (t) => {
  const { changes } = await withPulls(t, 'rush', 2)
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => call('alice', 'POST', path('rush', 1, 'dependencies'), { index: 2 })),
  )
  t.strictSame(answers.map(({ status }) => status).sort(), [201, ...Array(9).fill(409)])
  t.equal((await changes(1)).length, 1)
})

t.test('dependencies that are added at the same time make no cycle', async (t) => {
  const { changes } = await withPulls(t, 'race', 3)
  const add = async (index: number, on: number) =>
    (await call('alice', 'POST', path('race', index, 'dependencies'), { index: on })).status
  for (let round = 0; round < 5; round++) {
    const statuses = await Promise.all([add(1, 2), add(2, 3), add(3, 1)])
    for (const status of statuses) t.ok([201, 422].includes(status), `${status}`)
    const kept = [1, 2, 3].filter((_, i) => statuses[i] === 201)
    t.ok(kept.length < 3)
    for (const index of [1, 2, 3]) {
      const on = (index % 3) + 1
      const { issues } = await list('race', index, 'dependencies')
      t.strictSame(issues, kept.includes(index) ? [`race#${on}`] : [], 'what was refused is not there')
      if (kept.includes(index))
        await call('alice', 'DELETE', path('race', index, 'dependencies'), { index: on })
    }
  }
  const types = (await changes(1)).map(({ type }) => type)
  t.strictSame(
    types,
    types.map((_, i) => (i % 2 === 0 ? 'DependencyAdded' : 'DependencyRemoved')),
  )
})

t.test('an issue that does not exist gives 404, an invalid reference 422', async (t) => {
  await withPulls(t, 'missing', 1)
  const add = async (index: string, meta: unknown, side: Side = 'dependencies') =>
    (
      await server.fetch('alice', `/api/v1/${path('missing', index, side)}`, {
        method: 'POST',
        body: JSON.stringify(meta),
      })
    ).status
  for (const side of ['dependencies', 'blocks'] as const) {
    for (const index of [2, 0, -1, 1e300]) t.equal(await add('1', { index }, side), 404, `${index}`)
    for (const index of ['2', '0', '-1', 'x', '9'.repeat(30)]) {
      t.equal(await add(index, { index: 1 }, side), 404, index)
      t.equal((await call('alice', 'GET', path('missing', index, side))).status, 404, index)
    }
    t.equal(await add('1', { owner: 'nobody', repo: 'missing', index: 1 }, side), 404)
    t.equal(await add('1', { owner: 'alice', repo: 'nowhere', index: 1 }, side), 404)
    for (const meta of [{}, { index: '1' }, { index: 1.5 }, { index: 1, owner: 5 }, [], null]) {
      t.equal(await add('1', meta, side), 422, JSON.stringify(meta))
    }
  }
})

t.test('a change needs write access to the blocked issue and read access to the other', async (t) => {
  await withPulls(t, 'open', 1, { writers: ['dave'] })
  const { writer } = await withPulls(t, 'secret', 1, { private: true })
  const there = { owner: 'alice', repo: 'secret', index: 1 }
  const here = { owner: 'alice', repo: 'open', index: 1 }
  const status = async (login: string | null, method: string, repo: string, side: Side, meta: object) =>
    (await call(login, method, path(repo, 1, side), meta)).status
  for (const method of ['POST', 'DELETE']) {
    t.equal(await status('bob', method, 'open', 'dependencies', here), 403, 'a reader')
    t.equal(await status(null, method, 'open', 'dependencies', here), 401, 'nobody')
    t.equal(await status(null, method, 'open', 'blocks', here), 401, 'nobody')
    t.equal(await status('dave', method, 'open', 'dependencies', there), 404, 'the other is not his to read')
    t.equal(await status('dave', method, 'open', 'blocks', there), 404, 'the blocked is not his to read')
    t.equal(await status('dave', method, 'secret', 'blocks', here), 404)
  }
  await writer('dave', 'read')
  t.equal(await status('dave', 'POST', 'open', 'blocks', there), 403, 'the blocked is not his to write')
  t.equal(await status('dave', 'POST', 'secret', 'dependencies', here), 403)
  t.equal(await status('dave', 'POST', 'secret', 'blocks', here), 201)
  t.strictSame((await list('open', 1, 'dependencies', 'dave')).issues, ['secret#1'])
  t.match(await list('open', 1, 'dependencies', 'bob'), { issues: [], total: '0' }, 'others are not told')
  t.match(await list('open', 1, 'dependencies', null), { issues: [], total: '0' })
  t.equal((await call('bob', 'GET', path('secret', 1, 'blocks'))).status, 404)
  t.equal(await status('dave', 'DELETE', 'open', 'dependencies', there), 200)
})

t.test('an issue of an archived repository does not change, from either side', async (t) => {
  await withPulls(t, 'live', 1)
  await withPulls(t, 'past', 1)
  const [there, here] = ['past', 'live'].map((repo) => ({ owner: 'alice', repo, index: 1 }))
  const change = async (method: string, repo: string, side: Side, meta: object = {}) =>
    (await call('alice', method, path(repo, 1, side), meta)).status
  t.equal(await change('POST', 'live', 'blocks', there), 201)
  t.equal((await call('alice', 'PATCH', 'repos/alice/past', { archived: true })).status, 200)
  for (const method of ['POST', 'DELETE']) {
    t.equal(await change(method, 'past', 'dependencies', here), 423)
    t.equal(await change(method, 'live', 'blocks', there), 423)
  }
  t.strictSame((await list('past', 1, 'dependencies')).issues, ['live#1'])
  t.equal(await change('POST', 'live', 'dependencies', there), 422, 'its own would be a circle')
})

t.test('a token needs the scope of issues', async (t) => {
  await withPulls(t, 'scopes', 2)
  const tokenWith = async (name: string, scope: string) => {
    const { body } = await call('alice', 'POST', 'users/alice/tokens', { name, scopes: [scope] })
    return `token ${body.sha1}`
  }
  const status = async (authorization: string, method: string) => {
    const url = `${server.url}/api/v1/${path('scopes', 1, 'dependencies')}`
    const headers = { authorization, 'content-type': 'application/json' }
    const body = method === 'GET' ? null : '{"index":2}'
    return (await fetch(url, { method, headers, body })).status
  }
  const [reading, writing, other] = [
    await tokenWith('r', 'read:issue'),
    await tokenWith('w', 'write:issue'),
    await tokenWith('o', 'write:repository'),
  ]
  t.strictSame([await status(reading, 'GET'), await status(reading, 'POST')], [200, 403])
  t.strictSame([await status(writing, 'GET'), await status(writing, 'POST')], [200, 201])
  t.strictSame([await status(other, 'GET'), await status(other, 'DELETE')], [403, 403])
})

t.test(
  'the lists are paged, across repositories, without issues that the requester may not read',
  async (t) => {
    const { label, edit, milestone } = await withPulls(t, 'many', 5, { writers: ['carol'] })
    await withPulls(t, 'far', 1)
    await withPulls(t, 'hidden', 1, { private: true })
    const option = { labels: [await label('bug')], milestone: await milestone('1'), assignees: ['carol'] }
    await edit(2, { ...option, title: 'WIP: later', due_date: '2027-01-01T00:00:00Z' })
    const add = (repo: string, index: number) =>
      call('alice', 'POST', path('many', 1, 'dependencies'), { owner: 'alice', repo, index })
    for (const [repo, index] of [
      ['hidden', 1],
      ['many', 3],
      ['far', 1],
      ['many', 2],
    ] as const)
      await add(repo, index)
    const page = (query: string, login: string | null) => list('many', 1, 'dependencies', login, query)
    const all = ['hidden#1', 'many#3', 'far#1', 'many#2']
    t.match(await page('', 'alice'), { issues: all, total: '4', link: /rel="first", .*rel="last"/ })
    t.match(await page('?limit=3', 'alice'), { issues: all.slice(0, 3), total: '4', link: /rel="next"/ })
    t.match(await page('?limit=3&page=2', 'alice'), { issues: all.slice(3), total: '4', link: /rel="prev"/ })
    t.match(await page('?limit=2&page=2', 'bob'), { issues: ['many#2'], total: '3' })
    t.match(await page('?page=9', null), { issues: [], total: '3' })
    for (const odd of ['?page=x&limit=-1', '?page=0&limit=0', '?limit=99999']) {
      t.match(await page(odd, 'bob'), { issues: ['many#3', 'far#1', 'many#2'] }, odd)
    }
    const { body } = await call('bob', 'GET', path('many', 1, 'dependencies'))
    t.match(body[2], {
      title: 'WIP: later',
      labels: [{ name: 'bug' }],
      milestone: { title: '1' },
      assignee: { login: 'carol' },
      due_date: '2027-01-01T23:59:59Z',
      pull_request: { draft: true },
      repository: { full_name: 'alice/many' },
    })
    t.equal(body[1].repository.full_name, 'alice/far')

    for (const index of [5, 4]) await call('alice', 'POST', path('many', index, 'dependencies'), { index: 3 })
    t.match(await list('many', 3, 'blocks'), { issues: ['many#1', 'many#4', 'many#5'], total: '3' })
    t.match(await list('many', 3, 'blocks', null, '?limit=2&page=2'), { issues: ['many#5'], total: '3' })
    t.match(await list('far', 1, 'blocks'), { issues: ['many#1'], total: '1' })
  },
)

t.test('many dependents of one issue are listed page by page, each once', async (t) => {
  const { repoId } = await withPulls(t, 'crowd', 1)
  const { body } = await call('alice', 'GET', 'repos/alice/crowd/pulls/1')
  const context = aContext()
  const poster = { id: body.user.id, login: 'alice' }
  const point = (branch: string) => ({ repoId, branch, sha: body.head.sha })
  for (let index = 2; index <= 121; index++) {
    const head = point(`h${index}`)
    await append(
      server.services,
      context,
      pullStream(repoId, index),
      'seed',
      [
        {
          type: 'PullRequestOpened',
          data: {
            repoId,
            index,
            id: 1_000_000 + index,
            poster,
            title: `Seeded ${index}`,
            body: '',
            head,
            base: point('main'),
            mergeBase: body.merge_base,
            diff: { additions: 0, deletions: 0, changedFiles: 0 },
            mergeable: true,
            labels: [],
            milestone: null,
            assignees: [],
            deadline: null,
          },
        },
        { type: 'DependencyAdded', data: { repoId, index, dependency: { repoId, index: 1 } } },
      ],
      'no-stream',
    )
  }
  await server.services.projector.waitFor(context.written, 60_000)
  const seen: string[] = []
  for (let page = 1; page <= 4; page++) {
    const { issues, total } = await list('crowd', 1, 'blocks', 'bob', `?limit=50&page=${page}`)
    t.equal(total, '120')
    seen.push(...issues)
  }
  t.strictSame(
    seen,
    Array.from({ length: 120 }, (_, i) => `crowd#${i + 2}`),
  )
})

t.test('a merged pull request is listed as merged', async (t) => {
  const { merge } = await withPulls(t, 'merged', 2)
  await call('alice', 'POST', path('merged', 1, 'dependencies'), { index: 2 })
  t.equal((await merge(2)).status, 200)
  const { body } = await call('alice', 'GET', path('merged', 1, 'dependencies'))
  t.match(body, [{ number: 2, state: 'closed', pull_request: { merged: true, merged_at: /^20/ } }])
})

t.test('with an Idempotency-Key, a request sent twice adds one dependency', async (t) => {
  const { changes } = await withPulls(t, 'once', 2)
  const send = async (index: number) =>
    (
      await server.fetch('alice', `/api/v1/${path('once', 1, 'dependencies')}`, {
        method: 'POST',
        headers: { 'idempotency-key': 'k' },
        body: JSON.stringify({ index }),
      })
    ).status
  t.strictSame([await send(2), await send(2)], [201, 201])
  t.equal((await changes(1)).length, 1)
})

t.test('a writer removes a dependency on an issue that no writer may read any more', async (t) => {
  const { open, branches } = await repository(t, 'waiting')
  await branches('topic')
  await open('topic')
  const hidden = { owner: 'carol', repo: 'hidden', index: 1 }
  await call('carol', 'POST', 'user/repos', { name: 'hidden' })
  await call('carol', 'POST', 'repos/carol/hidden/issues', { title: 'First' })
  await call('carol', 'POST', 'repos/carol/hidden/issues', { title: 'Second' })
  t.equal((await call('alice', 'POST', path('waiting', 1, 'dependencies'), hidden)).status, 201)
  await call('carol', 'PATCH', 'repos/carol/hidden', { private: true })
  const close = () => call('alice', 'PATCH', 'repos/alice/waiting/issues/1', { state: 'closed' })
  t.equal((await close()).status, 412)

  const remove = (login: string, meta: object) =>
    call(login, 'DELETE', path('waiting', 1, 'dependencies'), meta)
  const unknown = { status: 404, body: { message: 'repository not found' } }
  t.match(await remove('alice', { ...hidden, index: 2 }), unknown, 'it does not depend on that one')
  t.match(await remove('alice', { ...hidden, repo: 'none' }), unknown)
  t.equal((await remove('bob', hidden)).status, 403, 'who may not write there')
  t.equal((await call('alice', 'POST', path('waiting', 1, 'dependencies'), hidden)).status, 404)
  await call('carol', 'PATCH', 'repos/carol/hidden', { name: 'renamed' })
  t.equal((await remove('alice', hidden)).status, 200, 'also by the name that it had')
  t.match(await remove('alice', hidden), unknown)
  t.equal((await close()).status, 201)
})
