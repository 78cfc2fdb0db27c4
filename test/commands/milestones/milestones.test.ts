import t from 'tap'
import { startTestServer, statusOf } from '../../start-server.ts'

const server = await startTestServer(t)
const { services } = server
const alice = await server.as('alice')
await server.as('bob')
const MISSING = 999_999

async function call(login: string | null, method: string, path: string, body?: unknown, headers = {}) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body), headers }
  const answer = await server.fetch(login, `/api/v1/repos/alice/${path}`, init)
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? undefined : JSON.parse(text), headers: answer.headers }
}

const repository = (name: string, options: object = {}) =>
  alice.user.createCurrentUserRepo({ name, ...options })

async function milestone(repo: string, options: Parameters<typeof alice.repos.issueCreateMilestone>[2]) {
  return (await alice.repos.issueCreateMilestone('alice', repo, options)).data
}

const position = async () => {
  let last = 0
  for await (const event of services.events.readAll()) last = event.position
  return last
}

t.test('a milestone is made, read, changed and deleted', async (t) => {
  await repository('crud')
  const { data: made, status } = await alice.repos.issueCreateMilestone('alice', 'crud', {
    title: ' v1 ',
    description: 'First',
    due_on: '2026-05-01T12:30:00+02:00',
  })
  t.equal(status, 201)
  const { id = 0, created_at } = made
  t.same(made, {
    id,
    title: 'v1',
    description: 'First',
    state: 'open',
    open_issues: 0,
    closed_issues: 0,
    created_at,
    updated_at: created_at,
    closed_at: null,
    due_on: '2026-05-01T10:30:00Z',
  })
  t.ok(Date.parse(`${created_at}`) > 0)
  t.same((await server.anonymous.repos.issueGetMilestone('alice', 'crud', `${id}`)).data, made)

  const closed = await alice.repos.issueEditMilestone('alice', 'crud', `${id}`, { state: 'closed' })
  t.equal(closed.status, 200)
  const { updated_at } = closed.data
  t.same(closed.data, { ...made, state: 'closed', updated_at, closed_at: updated_at })
  const path = `crud/milestones/${id}`
  t.same((await call('alice', 'GET', path)).body, closed.data)
  const unset = { title: '', description: null, due_on: null, state: null }
  t.same((await call('alice', 'PATCH', path, unset)).body, closed.data, 'what Go clients send for nothing')
  const reopened = await call('alice', 'PATCH', path, { state: 'open', due_on: '0001-01-01T00:00:00Z' })
  t.match(reopened.body, { state: 'open', closed_at: null, due_on: null, title: 'v1' })

  t.equal((await alice.repos.issueDeleteMilestone('alice', 'crud', `${id}`)).status, 204)
  t.equal(await statusOf(alice.repos.issueGetMilestone('alice', 'crud', `${id}`)), 404)
  t.equal(await statusOf(alice.repos.issueEditMilestone('alice', 'crud', `${id}`, { title: 'x' })), 404)
  t.equal(await statusOf(alice.repos.issueDeleteMilestone('alice', 'crud', `${id}`)), 404)
  t.same((await alice.repos.issueGetMilestonesList('alice', 'crud', { state: 'all' })).data, [])
})

t.test('a milestone in a path is named by its id or, when none has it, by its title', async (t) => {
  await repository('named')
  await repository('other')
  const first = await milestone('named', { title: 'Über 100%' })
  const second = await milestone('named', { title: `${first.id}` })
  const third = await milestone('named', { title: `${MISSING}` })
  const foreign = await milestone('other', { title: 'elsewhere' })
  const read = async (id: string) =>
    (await call(null, 'GET', `named/milestones/${encodeURIComponent(id)}`)).body
  t.same(await read('Über 100%'), first)
  t.same(await read(`${first.id}`), first, 'the id comes first')
  t.same(await read(`${second.id}`), second)
  t.same(await read(`${MISSING}`), third)

  const edited = await call('alice', 'PATCH', `named/milestones/${MISSING}`, { title: 'x/y' })
  t.match(edited, { status: 200, body: { id: third.id, title: 'x/y' } })
  t.equal((await call('alice', 'DELETE', `named/milestones/${encodeURIComponent('x/y')}`)).status, 204)

  const before = await position()
  const none = [
    'nothing',
    'elsewhere',
    `${foreign.id}`,
    'x/y',
    '0',
    '-1',
    '9223372036854775808',
    '\u0000',
    ' ',
  ]
  for (const id of none) {
    const path = `named/milestones/${encodeURIComponent(id)}`
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      const { status } = await call('alice', method, path, method === 'PATCH' ? { title: 't' } : undefined)
      t.equal(status, 404, `${method} ${JSON.stringify(id)}`)
    }
  }
  t.equal(await position(), before)
})

t.test('milestones are listed by due date, those without one last, in pages', async (t) => {
  await repository('list')
  for (const [title, due_on, state] of [
    ['Later', undefined, 'open'],
    ['Third', '2026-03-01T00:00:00Z', 'open'],
    ['First', '2026-01-01T00:00:00+01:00', 'open'],
    ['Never', undefined, 'open'],
    ['Done', '2025-01-01T00:00:00Z', 'closed'],
    ['Second', '2026-01-01T00:00:00Z', 'open'],
  ] as const) {
    await milestone('list', { title, state, ...(due_on && { due_on }) })
  }
  const titles = async (query: string) => {
    const { body, headers, status } = await call(null, 'GET', `list/milestones?${query}`)
    t.equal(status, 200, query)
    const list: { title: string }[] = body
    return [list.map(({ title }) => title).join(' '), headers.get('x-total-count')]
  }
  t.same(await titles(''), ['First Second Third Later Never', '5'])
  t.same(await titles('state=open'), ['First Second Third Later Never', '5'])
  t.same(await titles('state=whatever'), ['First Second Third Later Never', '5'])
  t.same(await titles('state=closed'), ['Done', '1'])
  t.same(await titles('state=all'), ['Done First Second Third Later Never', '6'])
  t.same(await titles('state=all&limit=2&page=2'), ['Second Third', '6'])
  t.match((await call(null, 'GET', 'list/milestones?limit=2')).headers.get('link'), 'rel="next"')

  t.same(await titles('name=R'), ['First Third Later Never', '4'], 'a part of the title, whatever its case')
  t.same(await titles('name=hird'), ['Third', '1'])
  t.same(await titles('name=done'), ['', '0'])
  t.same(await titles('name=done&state=all'), ['Done', '1'])
  t.same(await titles('name='), ['First Second Third Later Never', '5'])
  t.same(await titles('name=%25'), ['', '0'])
  t.same(await titles(`name=${'x'.repeat(2000)}`), ['', '0'])
  t.same(await titles('name=%F0%9F%98%80'), ['', '0'])
})

t.test('users without write access change nothing', async (t) => {
  await repository('open')
  await repository('secret', { private: true })
  const shown = await milestone('open', { title: 'v1' })
  const hidden = await milestone('secret', { title: 'v1' })
  const before = await position()
  for (const [login, repo, id, read, write] of [
    [null, 'open', shown.id, 200, 401],
    ['bob', 'open', shown.id, 200, 403],
    [null, 'secret', hidden.id, 404, 404],
    ['bob', 'secret', hidden.id, 404, 404],
    ['alice', 'nowhere', 1, 404, 404],
  ] as const) {
    const path = `${repo}/milestones`
    const name = `${login} ${repo}`
    t.equal((await call(login, 'GET', path)).status, read, `list ${name}`)
    t.equal((await call(login, 'GET', `${path}/${id}`)).status, read, `read ${name}`)
    t.equal((await call(login, 'POST', path, { title: 'x' })).status, write, `make ${name}`)
    t.equal((await call(login, 'PATCH', `${path}/${id}`, { title: 'x' })).status, write, `edit ${name}`)
    t.equal((await call(login, 'DELETE', `${path}/${id}`)).status, write, `delete ${name}`)
  }
  t.equal(await position(), before)
})

t.test('an invalid milestone is refused with the name of the field and leaves no event', async (t) => {
  await repository('bad')
  const { id } = await milestone('bad', { title: 'good' })
  const before = await position()
  for (const [field, part] of [
    ['title', { title: '   ' }],
    ['title', { title: 5 }],
    ['title', { title: 'x'.repeat(256) }],
    ['title', { title: 'a\u0000b' }],
    ['description', { description: 'x'.repeat(131_073) }],
    ['description', { description: {} }],
    ['due_on', { due_on: 'soon' }],
    ['due_on', { due_on: '2026-02-30T00:00:00Z' }],
    ['due_on', { due_on: 1_700_000_000 }],
    ['state', { state: 1 }],
  ] as const) {
    const name = JSON.stringify(part).slice(0, 40)
    const made = await call('alice', 'POST', 'bad/milestones', { title: 'x', ...part })
    t.match(made, { status: 422, body: { message: new RegExp(`^${field}`) } }, `POST ${name}`)
    const edited = await call('alice', 'PATCH', `bad/milestones/${id}`, part)
    t.match(edited, { status: 422, body: { message: new RegExp(`^${field}`) } }, `PATCH ${name}`)
  }
  for (const body of [{}, { title: '' }, { title: null }, [], 'x', null]) {
    t.equal((await call('alice', 'POST', 'bad/milestones', body)).status, 422, JSON.stringify(body))
  }
  t.equal(await position(), before)
})

t.test('a title with invalid Unicode does not stop the server', async (t) => {
  await repository('odd')
  const made = await server.fetch('alice', '/api/v1/repos/alice/odd/milestones', {
    method: 'POST',
    body: '{"title": "x\\ud800\\udfffy\\udc00", "description": "\\ud800"}',
  })
  t.ok(made.status === 201 || made.status === 422, `${made.status}`)
  const after = await milestone('odd', { title: 'after' })
  t.same((await call(null, 'GET', 'odd/milestones?name=after')).body, [after])
})

t.test('a retried request makes one milestone', async (t) => {
  await repository('retry')
  const post = (title: string) =>
    call('alice', 'POST', 'retry/milestones', { title }, { 'idempotency-key': 'k' })
  const first = await post('a')
  t.equal(first.status, 201)
  t.same((await post('a')).body, first.body)
  t.equal((await post('b')).status, 422)
  t.equal((await alice.repos.issueGetMilestonesList('alice', 'retry')).data.length, 1)
})

t.test('two edits of a milestone at the same time are both kept', async (t) => {
  await repository('race')
  const { id } = await milestone('race', { title: 'a' })
  const edits = [{ title: 'b' }, { description: 'c' }, { state: 'closed' }]
  const answers = await Promise.all(
    edits.map((edit) => call('alice', 'PATCH', `race/milestones/${id}`, edit)),
  )
  t.same(
    answers.map(({ status }) => status),
    [200, 200, 200],
  )
  const { body } = await call(null, 'GET', `race/milestones/${id}`)
  t.match(body, { title: 'b', description: 'c', state: 'closed' })
})
