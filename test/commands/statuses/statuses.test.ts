import { rename } from 'node:fs/promises'
import t from 'tap'
import { combinedState } from '../../../src/api/statuses/statuses.ts'
import { gitDirOf } from '../../../src/services/services.ts'
import { gitIn, workTree } from '../../git-client.ts'
import { startTestServer, statusOf } from '../../start-server.ts'

t.test('statuses of commits over HTTP', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  const bob = await server.as('bob')
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  const first = await work.git('rev-parse', 'HEAD')
  await work.git('checkout', '-q', '-b', 'feature/x')
  const head = await work.commit('Work', { 'a.txt': 'a\n' })
  await work.git('tag', '-a', '-m', 'One', 'v/1')
  await work.git('push', '-q', 'origin', 'feature/x', 'v/1')
  const post = (sha: string, body: object, as = 'alice', headers: Record<string, string> = {}) =>
    server.fetch(as, `/api/v1/repos/alice/app/statuses/${sha}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers,
    })
  const get = async (path: string, as: string | null = null) => {
    const answer = await server.fetch(as, `/api/v1/repos/alice/app/${path}`)
    const json: unknown = await answer.json()
    return { status: answer.status, json, total: answer.headers.get('x-total-count') }
  }

  await t.test('a commit without statuses is pending', async (t) => {
    const { data } = await server.anonymous.repos.repoGetCombinedStatusByRef('alice', 'app', 'main')
    t.match(data, { sha: first, state: 'pending', total_count: 0, statuses: [] })
    t.match(data, { repository: { full_name: 'alice/app' } })
    t.same((await get(`statuses/${first}`)).json, [])
    t.same(await get(`commits/${first}/statuses`), { status: 200, json: [], total: '0' })
  })

  await t.test('writers post statuses: 201 with all given fields', async (t) => {
    const { status, data } = await alice.repos.repoCreateStatus('alice', 'app', head, {
      state: 'pending',
      context: 'ci',
      description: 'running',
      target_url: 'https://ci.example.org/1',
    })
    t.equal(status, 201)
    t.match(data, {
      id: Number,
      status: 'pending',
      context: 'ci',
      description: 'running',
      target_url: 'https://ci.example.org/1',
      creator: { login: 'alice' },
      created_at: String,
      updated_at: String,
      url: `${server.url}/api/v1/repos/alice/app/statuses/${head}`,
    })
  })

  await t.test(
    'a missing context is "default", and a branch or tag stands for the commit that it names now',
    async (t) => {
      for (const name of [head.toUpperCase(), head.slice(0, 10), 'v%2F1', 'feature%2Fx']) {
        const answer = await post(name, { state: 'success' })
        t.equal(answer.status, 201, name)
        t.match(await answer.json(), { context: 'default', url: new RegExp(`${head}$`), target_url: '' })
      }
    },
  )

  await t.test('the latest of each context together is the state of the commit', async (t) => {
    const combined = async () =>
      (await server.anonymous.repos.repoGetCombinedStatusByRef('alice', 'app', 'feature/x')).data
    t.match(await combined(), {
      sha: head,
      state: 'pending',
      total_count: 2,
      statuses: [{ context: 'default' }, { context: 'ci' }],
    })
    await post(head, { state: 'success', context: 'ci' })
    const green = await combined()
    t.match(green, { state: 'success', total_count: 2, statuses: [{ context: 'ci', status: 'success' }, {}] })
    t.equal(green.commit_url, `${server.url}/api/v1/repos/alice/app/commits/${head}`)
    t.equal(green.url, `${green.commit_url}/status`)
    await post(head, { state: 'error', context: 'lint' })
    t.match(await combined(), { state: 'failure', total_count: 3 })
  })

  await t.test('a ref is a branch with slashes or encoded ones, a tag, a full or short id', async (t) => {
    for (const ref of [
      'feature/x',
      'feature%2Fx',
      'refs/heads/feature/x',
      'v/1',
      'refs/tags/v/1',
      head.slice(0, 8),
    ]) {
      t.match((await get(`commits/${ref}/status`)).json, { sha: head, total_count: 3 }, ref)
      t.equal((await get(`commits/${ref}/statuses`)).total, '7', ref)
    }
    for (const ref of [
      'nothing',
      'a'.repeat(40),
      'abcdef12',
      'refs/pull/1/head',
      '-x',
      'a..b',
      'x%00y',
      'x%0Ay',
      '%20',
    ]) {
      t.equal((await get(`commits/${ref}/status`)).status, 404, ref)
      t.equal((await get(`commits/${ref}/statuses`)).status, 404, ref)
      t.equal((await get(`statuses/${ref.replaceAll('/', '%2F')}`)).status, 404, ref)
      t.equal((await post(ref.replaceAll('/', '%2F'), { state: 'success' })).status, 404, ref)
    }
    const blob = await work.git('rev-parse', 'HEAD:a.txt')
    t.equal((await post(blob, { state: 'success' })).status, 404, 'a blob is not a commit')
    t.match((await get('commits/feature/x')).json, { sha: head }, 'the commit itself')
  })

  await t.test('a branch with the name of a commit does not hide the commit', async (t) => {
    // A push cannot create such a branch any more. An older one still exists.
    await t.rejects(work.git('push', '-q', 'origin', `${first}:refs/heads/${head}`), /looks like the id/)
    const { data } = await alice.repos.repoGet('alice', 'app')
    await gitIn(gitDirOf(server.services, data.id ?? 0), ['update-ref', `refs/heads/${head}`, first])
    t.match((await get(`commits/${head}/status`)).json, { sha: head, total_count: 3 })
    await work.git('push', '-q', 'origin', `:refs/heads/${head}`)
  })

  await t.test('lists are sorted, selected by state and paged', async (t) => {
    const list = async (query: string) => {
      const { json, total } = await get(`commits/feature/x/statuses?${query}`)
      const states = Array.isArray(json) ? json.map(({ status, context }) => `${context}:${status}`) : []
      return { states, total: Number(total) }
    }
    const all = [
      'ci:pending',
      'default:success',
      'default:success',
      'default:success',
      'default:success',
      'ci:success',
      'lint:error',
    ]
    const newest = all.toReversed()
    for (const sort of ['oldest', 'leastupdate', 'leastindex'])
      t.same((await list(`sort=${sort}`)).states, all)
    for (const sort of ['', 'nonsense', 'recentupdate', 'highestindex']) {
      t.same((await list(`sort=${sort}`)).states, newest)
    }
    t.same(await list('state=pending'), { states: ['ci:pending'], total: 1 })
    t.same(await list('state=nonsense&limit=2&page=2'), { states: newest.slice(2, 4), total: 7 })
    t.same(await list('page=9&limit=5'), { states: [], total: 7 })
    const { json } = await get(`commits/${head}/status?limit=1&page=2`)
    t.match(json, { state: 'failure', total_count: 3, statuses: [{ context: 'ci' }] })
  })

  await t.test('invalid states, links and lengths give 422 with the field', async (t) => {
    const refused: [string, object][] = [
      ['state', {}],
      ['state', { state: 'green' }],
      ['state', { state: '' }],
      ['target_url', { state: 'success', target_url: 'javascript:alert(1)' }],
      ['target_url', { state: 'success', target_url: ' JavaScript:alert(1)' }],
      ['target_url', { state: 'success', target_url: 'java\nscript:alert(1)' }],
      ['target_url', { state: 'success', target_url: 'data:text/html,x' }],
      ['target_url', { state: 'success', target_url: `https://x/${'a'.repeat(3000)}` }],
      ['context', { state: 'success', context: 'c'.repeat(256) }],
      ['description', { state: 'success', description: 'd'.repeat(1025) }],
    ]
    for (const [field, body] of refused) {
      const answer = await post(head, body)
      t.equal(answer.status, 422, field)
      t.match(await answer.json(), { message: new RegExp(`^${field}: `) })
    }
    t.equal((await get(`statuses/${head}`)).total, '7')
  })

  await t.test('only writers post; a user who may not read the repository gets 404', async (t) => {
    t.equal(await statusOf(bob.repos.repoCreateStatus('alice', 'app', head, { state: 'success' })), 403)
    t.equal(
      await statusOf(server.anonymous.repos.repoCreateStatus('alice', 'app', head, { state: 'success' })),
      401,
    )
    await alice.repos.repoEdit('alice', 'app', { private: true })
    t.equal((await get(`statuses/${head}`, 'bob')).status, 404)
    t.equal((await get(`commits/${head}/status`, 'bob')).status, 404)
    t.equal((await post(head, { state: 'success' }, 'bob')).status, 404)
    await alice.repos.repoAddCollaborator('alice', 'app', 'bob', { permission: 'write' })
    t.equal((await post(head, { state: 'success', context: 'ci' }, 'bob')).status, 201)
    await alice.repos.repoEdit('alice', 'app', { private: false })
  })

  await t.test('a post with an Idempotency-Key is done once, and on the original commit', async (t) => {
    const headers = { 'idempotency-key': 'once' }
    const total = (await get(`statuses/${first}`)).total
    const answers = [
      await post(first, { state: 'success' }, 'alice', headers),
      await post(first, { state: 'success' }, 'alice', headers),
    ]
    const [one, two] = await Promise.all(answers.map((answer) => answer.json()))
    t.same(two, one)
    t.equal(Number((await get(`statuses/${first}`)).total), Number(total) + 1)
    t.equal((await post('main', { state: 'success' }, 'alice', headers)).status, 422)
  })

  await t.test('`state: "skipped"` of a commit status is accepted, and counts as success', async (t) => {
    await work.git('push', '-q', 'origin', `${first}:refs/heads/skipping`)
    const sha = await work.commit('Skip', { s: 's\n' })
    await work.git('push', '-q', 'origin', `${sha}:refs/heads/skipping`)
    const answer = await post(sha, { state: 'skipped', context: 'ci' })
    t.equal(answer.status, 201)
    t.match(await answer.json(), { status: 'skipped', context: 'ci' })
    t.match((await get(`commits/${sha}/status`)).json, {
      state: 'success',
      statuses: [{ status: 'skipped' }],
    })
    t.match(await get(`commits/${sha}/statuses?state=skipped`), { json: [{ status: 'skipped' }], total: '1' })
    t.match(await get(`commits/${sha}/statuses?state=success`), { json: [], total: '0' })
  })

  await t.test('a relative `target_url` of a status is accepted', async (t) => {
    const sha = await work.git('rev-parse', 'HEAD')
    for (const target_url of ['/jobs/7', 'jobs/7?a=b#c', '//ci.example.org/7', '?job=7']) {
      const answer = await post(sha, { state: 'success', context: 'links', target_url })
      t.match(await answer.json(), { status: 'success', target_url })
    }
  })

  await t.test('thirty posts at the same time are all kept', async (t) => {
    const before = Number((await get(`statuses/${head}`)).total)
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => post(head, { state: 'success', context: `parallel/${i}` })),
    )
    t.ok(answers.every(({ status }) => status === 201))
    t.equal(Number((await get(`statuses/${head}`)).total), before + 30)
  })

  await t.test(
    'reading by branch or full id starts no git process: it works without the repositories',
    async (t) => {
      const { gitDir } = server.services
      await rename(gitDir, `${gitDir}.away`)
      t.teardown(() => rename(`${gitDir}.away`, gitDir))
      for (const ref of ['feature/x', head]) {
        t.equal((await get(`commits/${ref}/status`)).status, 200)
        t.equal((await get(`commits/${ref}/statuses`)).status, 200)
      }
      t.equal((await get(`statuses/${head}`)).status, 200)
    },
  )
})

t.test('several states give one combined state', async (t) => {
  t.equal(combinedState([]), 'pending')
  t.equal(combinedState(['success', 'success']), 'success')
  t.equal(combinedState(['success', 'warning']), 'success')
  t.equal(combinedState(['skipped']), 'success')
  t.equal(combinedState(['success', 'pending']), 'pending')
  t.equal(combinedState(['pending', 'failure', 'success']), 'failure')
  t.equal(combinedState(['pending', 'error']), 'failure')
})
