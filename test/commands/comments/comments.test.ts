import t from 'tap'
import { discussionStream } from '../../../src/events/streams.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer, statusOf } from '../../start-server.ts'

const server = await startTestServer(t)
const { services } = server
const [alice, bob, carol] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])

async function call(login: string | null, method: string, path: string, body?: unknown, headers = {}) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body), headers }
  const answer = await server.fetch(login, `/api/v1/repos/alice/${path}`, init)
  const text = await answer.text()
  return {
    status: answer.status,
    headers: answer.headers,
    body: text === '' ? undefined : JSON.parse(text),
  }
}

/** A repository of alice's with one issue, in which carol may write and bob, if it is public, may read. */
async function repository(name: string, options: object = {}) {
  const { data } = await alice.user.createCurrentUserRepo({ name, ...options })
  await alice.repos.repoAddCollaborator('alice', name, 'carol', { permission: 'write' })
  await alice.repos.issueCreateIssue('alice', name, { title: 'First', body: 'Text' })
  const repoId = data.id ?? 0
  return {
    repoId,
    say: async (body: string, who = alice, index = 1) =>
      (await who.repos.issueCreateComment('alice', name, index, { body })).data,
    issue: async () => (await alice.repos.issueGetIssue('alice', name, 1)).data,
    async events(isPull = false) {
      const types: string[] = []
      for await (const { type } of services.events.readStream(
        discussionStream({ repoId, index: 1, isPull }),
        { from: 1 },
      )) {
        types.push(type)
      }
      return types
    },
  }
}

t.test('a comment is made, read, changed and deleted', async (t) => {
  const { say, issue } = await repository('crud')
  const comment = await say('Hello', bob)
  const id = comment.id ?? 0
  t.match(comment, {
    id: Number,
    html_url: `${server.url}/alice/crud/issues/1#issuecomment-${id}`,
    issue_url: `${server.url}/alice/crud/issues/1`,
    pull_request_url: '',
    user: { login: 'bob' },
    original_author: '',
    original_author_id: 0,
    body: 'Hello',
    assets: [],
    created_at: comment.updated_at,
  })
  const { repos } = server.anonymous
  t.same((await repos.issueGetComment('alice', 'crud', id)).data, comment)
  t.same((await repos.issueGetComments('alice', 'crud', 1)).data, [comment])
  t.same((await repos.issueGetRepoComments('alice', 'crud')).data, [comment])
  t.match(await issue(), { comments: 1, updated_at: comment.created_at })

  const edited = await bob.repos.issueEditComment('alice', 'crud', id, { body: 'Hello, all' })
  t.equal(edited.status, 200)
  t.same(edited.data, { ...comment, body: 'Hello, all', updated_at: edited.data.updated_at })
  t.ok(`${edited.data.updated_at}` >= `${comment.updated_at}`)
  t.same((await repos.issueGetComment('alice', 'crud', id)).data, edited.data)

  t.equal((await bob.repos.issueDeleteComment('alice', 'crud', id)).status, 204)
  t.equal(await statusOf(repos.issueGetComment('alice', 'crud', id)), 404)
  t.same((await repos.issueGetComments('alice', 'crud', 1)).data, [])
  t.match(await issue(), { comments: 0 })
})

t.test('pull requests have comments, too: counted, and what lists are sorted by', async (t) => {
  const name = 'pulls'
  await alice.user.createCurrentUserRepo({ name, auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
  for (const branch of ['a', 'b', 'c']) {
    await work.git('checkout', '-q', '-b', branch, 'main')
    await work.commit(`On ${branch}`, { [branch]: 'x\n' })
    await work.git('push', '-q', 'origin', branch)
    await alice.repos.repoCreatePullRequest('alice', name, { head: branch, base: 'main', title: branch })
  }
  const say = async (index: number) =>
    (await bob.repos.issueCreateComment('alice', name, index, { body: `On ${index}` })).data
  await say(2)
  const last = await say(2)
  const other = await say(3)
  t.match(last, {
    html_url: `${server.url}/alice/pulls/pulls/2#issuecomment-${last.id}`,
    pull_request_url: `${server.url}/alice/pulls/pulls/2`,
    issue_url: '',
  })
  const { data: pull } = await alice.repos.repoGetPullRequest('alice', name, 2)
  t.match(pull, { comments: 2, updated_at: last.created_at })
  const sorted = async (sort: 'mostcomment' | 'leastcomment') =>
    (await alice.repos.repoListPullRequests('alice', name, { sort })).data.map(({ number }) => number)
  t.same(await sorted('mostcomment'), [2, 3, 1])
  t.same(await sorted('leastcomment'), [1, 3, 2])
  await bob.repos.issueDeleteComment('alice', name, other.id ?? 0)
  t.equal((await alice.repos.repoGetPullRequest('alice', name, 3)).data.comments, 0)
})

t.test('commenting needs a signed-in reader, an issue that exists and a text', async (t) => {
  await repository('open')
  await repository('hidden', { private: true })
  const post = async (login: string | null, path: string, body: unknown = { body: 'x' }) =>
    (await call(login, 'POST', path, body)).status
  t.equal(await post(null, 'open/issues/1/comments'), 401)
  t.equal(await post('bob', 'open/issues/1/comments'), 201)
  t.equal(await post('bob', 'hidden/issues/1/comments'), 404)
  t.equal(await post('carol', 'hidden/issues/1/comments'), 201)
  for (const index of ['2', '0', '-1', 'x', '1.5', '9223372036854775808']) {
    t.equal(await post('bob', `open/issues/${index}/comments`), 404, `issue ${index}`)
    t.equal((await call(null, 'GET', `open/issues/${index}/comments`)).status, 404, `issue ${index}`)
  }
  for (const body of [{ body: '' }, { body: ' \n\t ' }, {}, { body: 5 }, { body: null }, []]) {
    t.equal(await post('bob', 'open/issues/1/comments', body), 422, JSON.stringify(body))
  }
  t.equal((await call(null, 'GET', 'hidden/issues/1/comments')).status, 404)
  t.equal((await call('bob', 'GET', 'hidden/issues/comments')).status, 404)
})

t.test('a comment is changed and deleted only by its author and by writers', async (t) => {
  const { say } = await repository('rights')
  const { id = 0 } = await say('by alice')
  const path = `rights/issues/comments/${id}`
  for (const [login, status] of [
    [null, 401],
    ['bob', 403],
  ] as const) {
    t.equal((await call(login, 'PATCH', path, { body: 'x' })).status, status)
    t.equal((await call(login, 'DELETE', path)).status, status)
  }
  t.equal((await carol.repos.issueEditComment('alice', 'rights', id, { body: 'by carol' })).status, 200)
  const admin = await server.as('admin')
  const { data } = await admin.repos.issueEditComment('alice', 'rights', id, { body: 'by admin' })
  t.match(data, { body: 'by admin', user: { login: 'alice' } })
  t.equal((await call('alice', 'PATCH', path, { body: ' ' })).status, 422)
  t.equal((await carol.repos.issueDeleteComment('alice', 'rights', id)).status, 204)
  const own = await say('by bob', bob)
  t.equal((await bob.repos.issueDeleteComment('alice', 'rights', own.id ?? 0)).status, 204)
})

t.test('a comment is found only in its own repository, until it is deleted', async (t) => {
  const { say } = await repository('here')
  await repository('there')
  const { id = 0 } = await say('x')
  const gone = await say('y')
  await alice.repos.issueDeleteComment('alice', 'here', gone.id ?? 0)
  const paths = [
    `there/issues/comments/${id}`,
    ...[gone.id, '0', '-1', 'x', '999999', '9223372036854775808'].map((no) => `here/issues/comments/${no}`),
  ]
  for (const path of paths) {
    t.equal((await call('alice', 'GET', path)).status, 404, path)
    t.equal((await call('alice', 'PATCH', path, { body: 'x' })).status, 404, path)
    t.equal((await call('alice', 'DELETE', path)).status, 404, path)
  }
  t.equal((await call('alice', 'GET', `here/issues/comments/${id}`)).status, 200)
})

t.test('an edit that changes nothing appends no event', async (t) => {
  const { say, events } = await repository('unchanged')
  const comment = await say('x')
  const { status, data } = await alice.repos.issueEditComment('alice', 'unchanged', comment.id ?? 0, {
    body: 'x',
  })
  t.equal(status, 200)
  t.same(data, comment)
  t.same(await events(), ['CommentAdded'])
})

t.test('the work of a command is proportional to its change: other comments are not read', async (t) => {
  const { say, repoId } = await repository('proportional')
  const comments: number[] = []
  for (let i = 0; i < 30; i++) comments.push((await say(`${i} ${'x'.repeat(20_000)}`)).id ?? 0)
  const { events } = services
  const { readStream } = events
  const stream = discussionStream({ repoId, index: 1, isPull: false })
  let read = 0
  events.readStream = async function* (name, options) {
    for await (const event of readStream(name, options)) {
      if (name === stream) read += 1
      yield event
    }
  }
  t.teardown(() => {
    events.readStream = readStream
  })
  const [first = 0, second = 0] = comments
  const edited = await call('alice', 'PATCH', `proportional/issues/comments/${first}`, { body: 'short' })
  t.match(edited, { status: 200, body: { body: 'short' } })
  t.match(await call('alice', 'DELETE', `proportional/issues/comments/${second}`), { status: 204 })
  t.match(await call('alice', 'DELETE', `proportional/issues/comments/${second}`), { status: 404 })
  t.ok(read <= 4, `${read} events of the issue were read`)
  const { body: left } = await call('alice', 'GET', 'proportional/issues/1/comments')
  t.equal(left.length, 29)
  t.equal(left[0].body, 'short')
})

t.test('a text of as many characters as are allowed is kept byte for byte', async (t) => {
  const { say } = await repository('long')
  const odd = ' \r\n\u0000\u2028\ufeffé\u{1f600}\u0301"\\</script> '
  const body = odd + 'ö'.repeat(131_072 - 2 * Array.from(odd).length) + odd
  const { id = 0 } = await say(body)
  const { data } = await server.anonymous.repos.issueGetComment('alice', 'long', id)
  t.ok(data.body === body)
  const other = body.replaceAll('ö', 'ü')
  const edited = await alice.repos.issueEditComment('alice', 'long', id, { body: other })
  t.ok(edited.data.body === other)
  const [listed] = (await server.anonymous.repos.issueGetComments('alice', 'long', 1)).data
  t.ok(listed?.body === other)
})

t.test('twenty comments at the same time are all kept, each with its own id', async (t) => {
  const { say, issue } = await repository('crowd')
  const made = await Promise.all(Array.from({ length: 20 }, (_, i) => say(`no. ${i}`, i % 2 ? bob : carol)))
  const ids = made.map(({ id = 0 }) => id)
  t.equal(new Set(ids).size, 20)
  t.equal((await issue()).comments, 20)
  const listed = (await alice.repos.issueGetComments('alice', 'crowd', 1)).data
  t.same(
    listed.map(({ id }) => id),
    [...ids].sort((a, b) => a - b),
  )
})

t.test(
  'comments of one issue are edited and created at the same time, and no change gets a conflict',
  async (t) => {
    const { say, issue } = await repository('busy')
    const ids: number[] = []
    for (let i = 0; i < 12; i++) ids.push((await say(`no. ${i}`)).id ?? 0)
    const edits = ids.map((id) =>
      statusOf(alice.repos.issueEditComment('alice', 'busy', id, { body: `edited ${id}` })),
    )
    const [statuses] = await Promise.all([
      Promise.all(edits),
      Promise.all(ids.map(() => say('meanwhile', bob))),
    ])
    t.same(statuses, Array(12).fill(200))
    t.equal((await issue()).comments, 24)
    const { data } = await alice.repos.issueGetComments('alice', 'busy', 1)
    t.same(
      data.slice(0, 12).map(({ body }) => body),
      ids.map((id) => `edited ${id}`),
    )
  },
)

t.test('of two deletions of a comment at the same time, one succeeds', async (t) => {
  const { say, issue, events } = await repository('twice')
  await say('stays')
  const { id = 0 } = await say('goes')
  const remove = () => statusOf(alice.repos.issueDeleteComment('alice', 'twice', id))
  const statuses = await Promise.all([remove(), remove(), remove()])
  t.same(statuses.sort(), [204, 404, 404])
  t.equal((await issue()).comments, 1)
  t.same(await events(), ['CommentAdded', 'CommentAdded', 'CommentDeleted'])
})

t.test('a comment sent again with its Idempotency-Key is the same comment', async (t) => {
  const { say, issue, events } = await repository('again')
  const key = { 'Idempotency-Key': 'k1' }
  const post = (body: string, login = 'bob') => call(login, 'POST', 'again/issues/1/comments', { body }, key)
  const first = await post('once')
  t.equal(first.status, 201)
  await say('in between')
  const [second, third] = await Promise.all([post('once'), post('once')])
  for (const again of [second, third]) {
    t.equal(again.status, 201)
    t.same(again.body, first.body)
  }
  const other = await post('something else')
  t.equal(other.status, 422)
  t.match(other.body.message, /Idempotency-Key/)
  t.equal((await post('once', 'carol')).body.user.login, 'carol', 'the key of another one is another key')
  t.equal((await issue()).comments, 3)
  t.same(await events(), ['CommentAdded', 'CommentAdded', 'CommentAdded'])
})

t.test('all comments of an issue come in one answer, by id, with their number', async (t) => {
  const { say } = await repository('many')
  await alice.repos.issueCreateIssue('alice', 'many', { title: 'Other' })
  const ids: (number | undefined)[] = []
  for (let i = 0; i < 45; i++) ids.push((await say(`no. ${i}`, i % 2 ? bob : alice)).id)
  await say('elsewhere', alice, 2)
  const { headers, body } = await call(null, 'GET', 'many/issues/1/comments')
  t.equal(headers.get('x-total-count'), '45')
  t.match(headers.get('content-type'), /^application\/json/)
  t.same(
    body.map((comment: { id: number }) => comment.id),
    ids,
  )
  t.match(body[1], { body: 'no. 1', user: { login: 'bob' } })
  const page = await call(null, 'GET', 'many/issues/1/comments?limit=20&page=3')
  t.equal(page.headers.get('x-total-count'), '45')
  t.equal(page.body.length, 5, 'a page, when one is asked for')
  t.same((await call(null, 'GET', 'many/issues/2/comments')).body.length, 1)
})

t.test('comments of a repository are paged, those of all its issues together', async (t) => {
  const { say } = await repository('paged')
  await alice.repos.issueCreateIssue('alice', 'paged', { title: 'Other' })
  const said = [await say('a'), await say('b', bob, 2), await say('c')]
  const { headers, body } = await call(null, 'GET', 'paged/issues/comments?limit=2&page=2')
  t.same(body, said.slice(2))
  t.equal(headers.get('x-total-count'), '3')
  t.match(headers.get('link'), /rel="prev"/)
  t.same((await alice.repos.issueGetRepoComments('alice', 'paged', { limit: 2 })).data, said.slice(0, 2))
})

t.test('since and before select by the last change, both inclusive', async (t) => {
  const { say } = await repository('times')
  const [a, b, c] = [await say('a'), await say('b'), await say('c')]
  await alice.repos.issueEditComment('alice', 'times', a.id ?? 0, { body: 'A' })
  // Answers show whole seconds.
  const timeOf = async ({ id }: { id?: number }) =>
    `${(await services.views.comments.get(`${id}`))?.updatedAt}`
  const times = { b: await timeOf(b), c: await timeOf(c) }
  for (const list of ['times/issues/1/comments', 'times/issues/comments']) {
    const bodies = async (query: Record<string, string>) =>
      (await call(null, 'GET', `${list}?${new URLSearchParams(query)}`)).body.map(
        (comment: { body: string }) => comment.body,
      )
    t.same(await bodies({ since: times.c }), ['A', 'c'])
    t.same(await bodies({ before: times.c }), ['b', 'c'])
    t.same(await bodies({ since: times.b, before: times.b }), ['b'])
    t.same(await bodies({ since: times.b.replace('Z', '+00:00') }), ['A', 'b', 'c'])
    const shown = `${c.updated_at}`
    t.ok((await bodies({ since: shown, before: shown })).includes('c'), 'a time as an answer shows it')
    t.same(await bodies({ since: '', before: '0001-01-01T00:00:00Z' }), ['A', 'b', 'c'])
    t.same(await bodies({ since: '9999-12-31T23:59:59-14:00' }), [])
    for (const wrong of ['yesterday', '2026-02-30T00:00:00Z', '2026-01-01', '1'.repeat(1000)]) {
      for (const field of ['since', 'before']) {
        const { status, body } = await call(null, 'GET', `${list}?${field}=${wrong}`)
        t.equal(status, 422, `${field}=${wrong.slice(0, 20)}`)
        t.match(body.message, new RegExp(field))
      }
    }
  }
})
