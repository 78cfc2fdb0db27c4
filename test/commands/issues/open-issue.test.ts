import t from 'tap'
import { issueStream } from '../../../src/events/streams.ts'
import { statusOf } from '../../start-server.ts'
import { startIssues } from './setup.ts'

const { server, alice, bob, call, repository } = await startIssues(t)

t.test('an issue is opened with all given fields', async (t) => {
  const { repoId, label, milestone, counts, events, get } = await repository('whole')
  const [bug, one] = [await label('bug'), await milestone('One')]
  const { data: issue, status } = await alice.repos.issueCreateIssue('alice', 'whole', {
    title: '  It breaks ',
    body: 'Always.',
    labels: [bug, bug],
    milestone: one,
    assignee: 'alice',
    assignees: ['CAROL', 'alice'],
    due_date: '2027-03-04T05:06:07+02:00',
  })
  t.equal(status, 201)
  t.match(issue, {
    number: 1,
    title: 'It breaks',
    body: 'Always.',
    user: { login: 'alice' },
    state: 'open',
    labels: [{ id: bug, name: 'bug' }],
    milestone: { id: one, title: 'One', open_issues: 1, closed_issues: 0 },
    assignee: { login: 'alice' },
    assignees: [{ login: 'alice' }, { login: 'carol' }],
    due_date: '2027-03-04T23:59:59+02:00',
    comments: 0,
    closed_at: null,
    pull_request: null,
    url: `${server.url}/api/v1/repos/alice/whole/issues/1`,
    html_url: `${server.url}/alice/whole/issues/1`,
    repository: { id: repoId, name: 'whole', owner: 'alice', full_name: 'alice/whole' },
  })
  t.same(await get(1), issue, 'and can be read at once')
  t.same((await server.anonymous.repos.issueGetIssue('alice', 'whole', 1)).data, issue)
  t.same(await counts(one), [1, 0])
  t.equal((await alice.repos.repoGet('alice', 'whole')).data.open_issues_count, 1)
  t.same(
    (await events(1)).map(({ type }) => type),
    ['IssueOpened'],
  )
})

t.test(
  'issues.create.1: fields for writers are ignored in requests of others, even when they are invalid',
  async (t) => {
    const { label, milestone, tryOpen, counts } = await repository('readers')
    const [bug, one] = [await label('bug'), await milestone('One')]
    const wanted = {
      title: 'Mine',
      body: 'b',
      labels: [bug],
      milestone: one,
      assignee: 'alice',
      assignees: ['carol'],
      due_date: '2027-03-04T05:06:07Z',
    }
    const bare = {
      title: 'Mine',
      body: 'b',
      labels: [],
      milestone: null,
      assignee: null,
      assignees: null,
      due_date: null,
    }
    t.match(await tryOpen(wanted, 'bob'), { status: 201, body: { ...bare, user: { login: 'bob' } } })
    const invalid = {
      ...wanted,
      labels: [999_999],
      milestone: 999_999,
      assignees: ['nobody', 'bob'],
      due_date: 'tomorrow',
      deadline: '2027-02-30T00:00:00Z',
    }
    t.match(await tryOpen(invalid, 'bob'), { status: 201, body: bare })
    t.same(await counts(one), [0, 0])
    t.match(await tryOpen(wanted, 'carol'), {
      status: 201,
      body: { labels: [{ id: bug }], milestone: { id: one } },
    })
    t.match(await tryOpen(wanted, 'admin'), {
      status: 201,
      body: { labels: [{ id: bug }], milestone: { id: one } },
    })
  },
)

t.test('deadline.1: only the date of a deadline counts, in its own zone', async (t) => {
  const { tryOpen } = await repository('deadlines')
  const due = async (option: object) => {
    const { status, body } = await tryOpen({ title: 't', ...option })
    return status === 201 ? body.due_date : status
  }
  t.equal(await due({ due_date: '2027-03-04T00:00:00Z' }), '2027-03-04T23:59:59Z')
  t.equal(await due({ due_date: '2027-03-04T23:59:59.999999999-11:30' }), '2027-03-04T23:59:59-11:30')
  t.equal(await due({ deadline: '2028-02-29T12:00:00+14:00' }), '2028-02-29T23:59:59+14:00')
  t.equal(
    await due({ due_date: '2027-03-04T00:00:00Z', deadline: '2030-01-01T00:00:00Z' }),
    '2027-03-04T23:59:59Z',
  )
  for (const none of [null, '', '0001-01-01T00:00:00Z']) t.equal(await due({ due_date: none }), null)
  for (const odd of [
    'tomorrow',
    '2027-03-04',
    '2027-02-30T00:00:00Z',
    '2027-03-04T25:00:00Z',
    '2027-03-04 00:00:00Z',
  ]) {
    t.equal(await due({ due_date: odd }), 422, odd)
  }
  t.equal(await due({ due_date: 12 }), 422)
})

t.test(
  'issues.create.3: 422 for an unknown assignee or one who cannot be assigned, 400 without access',
  async (t) => {
    const { tryOpen } = await repository('assignees', { private: true })
    await alice.orgs.orgCreate({ username: 'assigned' })
    await alice.repos.repoAddCollaborator('alice', 'assignees', 'dave', { permission: 'read' })
    const answer = async (option: object) => {
      const { status, body } = await tryOpen({ title: 't', ...option })
      return [status, body.message ?? body.assignees?.map(({ login }: { login: string }) => login) ?? null]
    }
    t.same(await answer({ assignees: ['nobody'] }), [422, 'assignees: no user "nobody"'])
    t.same(await answer({ assignee: 'nobody' }), [422, 'assignees: no user "nobody"'])
    t.same(await answer({ assignees: ['alice', 'assigned'] }), [422, 'assignees: no user "assigned"'])
    t.same(await answer({ assignees: ['dave'] }), [422, 'assignees: "dave" may not write to the repository'])
    t.same(await answer({ assignees: ['bob'] }), [400, 'assignees: "bob" has no access to the repository'])
    t.same(await answer({ assignee: 'carol', assignees: null }), [201, ['carol']])
    t.same(await answer({ assignee: '', assignees: [] }), [201, null])
    const { data } = await alice.repos.issueListIssues('alice', 'assignees')
    t.equal(data.length, 2, 'those that were refused are not there')
  },
)

t.test('issues.create.4: a new issue may be closed at once, by anyone who may open it', async (t) => {
  const { tryOpen, milestone, counts, events } = await repository('closed')
  const one = await milestone('One')
  const { status, body } = await tryOpen({ title: 'Done', closed: true, milestone: one })
  t.equal(status, 201)
  t.match(body, { state: 'closed', closed_at: /^20/, milestone: { open_issues: 0, closed_issues: 1 } })
  t.same(
    (await events(1)).map(({ type }) => type),
    ['IssueOpened', 'StatusChanged'],
  )
  t.same(await counts(one), [0, 1])
  t.match(await tryOpen({ title: 'Done', closed: true }, 'bob'), { status: 201, body: { state: 'closed' } })
  for (const closed of [false, null, undefined]) {
    t.match(await tryOpen({ title: 'To do', closed }), {
      status: 201,
      body: { state: 'open', closed_at: null },
    })
  }
  t.equal((await alice.repos.repoGet('alice', 'closed')).data.open_issues_count, 3)
  t.equal((await tryOpen({ title: 'Odd', closed: 'yes' })).status, 422)
})

t.test('issues.create.4: open dependencies give 412; the issue exists and stays open', async (t) => {
  const { tryOpen, open, get, repoId } = await repository('waiting')
  await open({ title: 'First' })
  // A concurrent change: the dependency comes between opening and closing.
  const { events } = server.services
  const { append, appendTogether } = events
  // As on EventStoreDB, the opening is a separate append.
  delete events.appendTogether
  events.append = async (stream, written, expected) => {
    const appended = await append(stream, written, expected)
    const [event] = written
    if (stream === issueStream(repoId, 2) && event?.type === 'IssueOpened') {
      const data = { repoId, index: 2, dependency: { repoId, index: 1 } }
      await append(stream, [{ ...event, id: crypto.randomUUID(), type: 'DependencyAdded', data }], 0)
      const { projector } = server.services
      await projector.waitFor(await events.lastPosition(), 5000)
    }
    return appended
  }
  t.teardown(() => {
    events.append = append
    if (appendTogether !== undefined) events.appendTogether = appendTogether
  })
  const refused = await tryOpen({ title: 'Second', closed: true })
  t.match(refused, {
    status: 412,
    body: { message: /depends on open issues/, errors: ['#1'] },
  })
  t.match(await get(2), { title: 'Second', state: 'open' })
})

t.test('issues.create.7: a title must not be blank and is one line', async (t) => {
  const { tryOpen } = await repository('titles')
  for (const title of ['', '   ', '\n\t', '\u0000', '\u2028', null, 7]) {
    t.equal((await tryOpen({ title })).status, 422)
  }
  t.equal((await tryOpen({})).status, 422)
  t.equal((await tryOpen({ title: 'x'.repeat(256) })).status, 422)
  t.match(
    await tryOpen({ title: '😀'.repeat(255) }),
    { status: 201, body: { number: 1 } },
    'no number is lost',
  )
  t.match(await tryOpen({ title: ' a\r\nb\u0000c ' }), { body: { title: 'a b c' } })
  for (const body of ['', 'null', '[]', '{"title":', '"text"']) {
    t.match((await tryOpen(body)).status, /^4(00|22)$/, body)
  }
})

t.test('too many labels or assignees give 422', async (t) => {
  const { tryOpen, label } = await repository('many')
  const many = Array.from({ length: 2000 }, (_, i) => i + 1)
  t.equal((await tryOpen({ title: 't', labels: many })).status, 422)
  t.equal((await tryOpen({ title: 't', assignees: many.map((i) => `user${i}`) })).status, 422)
  t.equal((await tryOpen({ title: 't', labels: ['bug'] })).status, 422, 'ids alone')
  const own = await label('own')
  t.match(await tryOpen({ title: 't', labels: [9_999_999, own, -1] }), { body: { labels: [{ id: own }] } })
  t.equal(
    (await tryOpen({ title: 't', labels: null, assignees: null, milestone: null, body: null })).status,
    201,
  )
})

t.test('issues.create.6: a milestone of another repository is not found', async (t) => {
  const { tryOpen } = await repository('here')
  const elsewhere = await (await repository('elsewhere')).milestone('Far')
  for (const milestone of [elsewhere, 9_999_999, -1, 2 ** 53]) {
    t.equal((await tryOpen({ title: 't', milestone })).status, 404, `${milestone}`)
  }
  t.equal((await tryOpen({ title: 't', milestone: 0 })).status, 201)
})

t.test('issues.create.5: labels of the organization can be given in its repositories', async (t) => {
  await alice.orgs.orgCreate({ username: 'guild' })
  const { data: wide } = await alice.orgs.orgCreateLabel('guild', { name: 'wide', color: '#fff' })
  const { tryOpen } = await repository('hall', {}, 'guild')
  const { tryOpen: elsewhere } = await repository('outside')
  t.match(await tryOpen({ title: 't', labels: [wide.id] }), {
    body: { labels: [{ id: wide.id, name: 'wide' }] },
  })
  t.same((await elsewhere({ title: 't', labels: [wide.id] })).body.labels, [])
})

t.test('bodies of as many characters as are allowed are kept byte for byte', async (t) => {
  const { open, get, edit, repoId } = await repository('texts')
  const exotic = '\u0000\u0001\r\n\t"\\</script>\u2028\u{1f600}\ud800 e\u0301 é ﬁ ‮\uffff\udfff'
  const texts = [
    exotic,
    exotic.repeat(1000),
    'x'.repeat(65_535),
    '😀'.repeat(65_535),
    Array.from({ length: 7000 }, (_, i) => `word${i}`).join(' '),
    '東'.repeat(65_535),
  ]
  for (const [i, body] of texts.entries()) {
    const index = await open({ body })
    t.ok((await get(index)).body === body, `text ${i}`)
    t.ok((await edit(index, { body: `${body}!` })).body.body === `${body}!`, `text ${i}, edited`)
  }
  const { data } = await alice.repos.issueListIssues('alice', 'texts')
  t.ok(data.every(({ body }, i) => body === `${texts.at(-1 - i)}!`))
  for await (const { data } of server.services.events.readStream(issueStream(repoId, 1), { maxCount: 1 })) {
    t.match(data, { body: exotic }, 'in the log, too')
  }
})

t.test('20 issues opened at the same time get different numbers and ids', async (t) => {
  const { tryOpen } = await repository('rush')
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => tryOpen({ title: `Issue ${i}`, closed: i % 2 === 0 })),
  )
  t.ok(answers.every(({ status }) => status === 201))
  const numbers = answers.map(({ body }) => Number(body.number)).sort((a, b) => a - b)
  t.same(
    numbers,
    Array.from({ length: 20 }, (_, i) => i + 1),
  )
  t.equal(new Set(answers.map(({ body }) => body.id)).size, 20)
  t.ok(
    answers.every(({ body }, i) => body.title === `Issue ${i}`),
    'and each answer is its own',
  )
  const { headers } = await alice.repos.issueListIssues('alice', 'rush')
  t.equal(headers.get('x-total-count'), '10')
})

t.test('with an Idempotency-Key, a request sent twice opens one issue', async (t) => {
  const { tryOpen, edit, events } = await repository('once')
  const key = { 'idempotency-key': 'k1' }
  const option = { title: 'Once', body: 'b', closed: true }
  const first = await tryOpen(option, 'alice', key)
  const again = await tryOpen(option, 'alice', key)
  t.same([first.status, again.status], [201, 201])
  t.same(again.body, first.body)
  t.equal((await events(1)).length, 2)
  t.equal((await tryOpen({ ...option, title: 'Other' }, 'alice', key)).status, 422)
  t.match(await tryOpen(option, 'bob', key), { status: 201, body: { number: 2 } }, 'keys are one user’s own')
  t.match(await tryOpen(option, 'alice', { 'idempotency-key': 'k2' }), { body: { number: 3 } })
  await edit(1, { state: 'open', title: 'Edited since' })
  t.match((await tryOpen(option, 'alice', key)).body, { number: 1, state: 'open', title: 'Edited since' })
  const rush = await Promise.all(
    Array.from({ length: 10 }, () => tryOpen(option, 'alice', { 'idempotency-key': 'k3' })),
  )
  t.same([...new Set(rush.map(({ status, body }) => `${status} ${body.number}`))], ['201 4'])
})

t.test('a retried request finds its issue, also when its labels are deleted since', async (t) => {
  const { tryOpen, milestone } = await repository('gone')
  const key = { 'idempotency-key': 'gone' }
  const one = await milestone('One')
  const option = { title: 'Once', milestone: one }
  const first = await tryOpen(option, 'alice', key)
  await alice.repos.issueDeleteMilestone('alice', 'gone', `${one}`)
  const again = await tryOpen(option, 'alice', key)
  t.same([first.status, again.status, again.body.number], [201, 201, first.body.number])
  t.equal((await tryOpen(option, 'alice', { 'idempotency-key': 'another' })).status, 404)
  t.match(await tryOpen({ title: 'Next' }, 'alice', { 'idempotency-key': 'next' }), { body: { number: 2 } })
})

t.test('issues.create.8: opening needs a signed-in requester who may read the repository', async (t) => {
  const { tryOpen } = await repository('open-to-all')
  const { tryOpen: hidden, issues } = await repository('hidden', { private: true })
  t.equal((await tryOpen({ title: 't' }, null)).status, 401)
  t.equal((await hidden({ title: 't' }, null)).status, 404)
  t.equal((await hidden({ title: 't' }, 'bob')).status, 404)
  t.equal((await hidden({ title: 't' }, 'carol')).status, 201)
  for (const path of [issues, `${issues}/1`, `${issues}/1/labels`]) {
    t.equal((await call('bob', 'GET', path)).status, 404)
    t.equal((await call(null, 'GET', path)).status, 404)
    t.equal((await call('carol', 'GET', path)).status, 200)
  }
  t.equal(await statusOf(bob.repos.issueCreateIssue('alice', 'missing', { title: 't' })), 404)
  t.equal(await statusOf(bob.repos.issueCreateIssue('nobody', 'open-to-all', { title: 't' })), 404)
})
