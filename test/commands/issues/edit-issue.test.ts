import t from 'tap'
import { decode } from '../../../src/events/codec.ts'
import { pullStream } from '../../../src/events/streams.ts'
import { workTree } from '../../git-client.ts'
import { statusOf } from '../../start-server.ts'
import { startIssues } from './setup.ts'

const { server, alice, bob, carol, call, repository } = await startIssues(t)

/** An issue of bob's in a repository of alice's. */
async function bobsIssue(name: string, option: object = {}) {
  const made = await repository(name)
  await made.open({ title: 'Old', body: 'Text', ...option }, 'bob')
  return made
}

/** A repository with an issue (1) and this number of pull requests (2, 3, …). */
async function withPulls(test: Parameters<typeof workTree>[0], name: string, count = 1) {
  const made = await repository(name, { auto_init: true })
  await made.open({ title: 'Issue' })
  const work = await workTree(test, server.gitUrl('alice', `alice/${name}`))
  const heads = Array.from({ length: count }, (_, i) => `b${i + 1}`)
  for (const head of heads) {
    await work.git('checkout', '-q', '-B', head, 'main')
    await work.commit(`Commit on ${head}`, { [head]: 'x\n' })
  }
  await work.git('push', '-q', 'origin', ...heads)
  for (const head of heads) {
    await alice.repos.repoCreatePullRequest('alice', name, { head, base: 'main', title: `From ${head}` })
  }
  return {
    ...made,
    work,
    pull: async (index: number) => (await alice.repos.repoGetPullRequest('alice', name, index)).data,
    merge: (index: number) =>
      call('alice', 'POST', `repos/alice/${name}/pulls/${index}/merge`, { Do: 'merge' }),
    async pullEvents(index: number) {
      const types: string[] = []
      for await (const event of server.services.events.readStream(pullStream(made.repoId, index), {
        from: 1,
      })) {
        const { type } = decode(event)
        if (type !== 'MergeabilityChecked') types.push(type)
      }
      return types
    },
  }
}

t.test('issues.edit.1: 403 for others than the poster and writers, 404 without an issue', async (t) => {
  const { edit, get, issues } = await bobsIssue('rights')
  const { edit: hidden, open } = await repository('private', { private: true })
  await open()
  await server.as('dave')
  const option = { title: 'New', body: 'B', state: 'closed', milestone: 9 }
  t.equal((await edit(1, option, 'dave')).status, 403)
  t.equal((await edit(1, {}, 'dave')).status, 403)
  t.equal((await edit(1, option, null)).status, 401)
  t.match(await get(1), { title: 'Old', body: 'Text', state: 'open' }, 'nothing of that changed it')
  for (const login of ['bob', 'carol', 'alice', 'admin']) {
    t.equal((await edit(1, { title: `By ${login}` }, login)).status, 201, login)
    t.equal((await get(1)).title, `By ${login}`)
  }
  t.equal((await hidden(1, option, 'dave')).status, 404)
  t.equal((await hidden(1, option, null)).status, 404)
  for (const index of [
    '2',
    '0',
    '-1',
    '1.0',
    '01',
    '+1',
    '1e0',
    'x',
    '9223372036854775808',
    '9007199254740993',
    '%31%00',
  ]) {
    t.equal((await edit(index, { title: 't' })).status, 404, index)
    t.equal((await call('alice', 'GET', `${issues}/${index}`)).status, 404, index)
    t.equal(
      (await call('alice', 'POST', `${issues}/${index}/deadline`, { due_date: null })).status,
      404,
      index,
    )
  }
})

t.test('issues.edit.2: a title applies when it is not empty, a body when it is present', async (t) => {
  const { edit, get, events } = await bobsIssue('texts')
  const { data, status } = await bob.repos.issueEditIssue('alice', 'texts', 1, {
    title: ' New ',
    body: 'More',
  })
  t.equal(status, 201)
  t.match(data, { title: 'New', body: 'More', user: { login: 'bob' } })
  t.same(await get(1), data)
  for (const title of ['', ' \n ', null])
    t.match((await edit(1, { title })).body, { title: 'New', body: 'More' })
  t.match((await edit(1, { body: null })).body, { body: 'More' })
  t.match((await edit(1, { body: '' })).body, { title: 'New', body: '' })
  t.match((await edit(1, {})).body, { title: 'New', body: '' })
  t.equal((await edit(1, { title: 'x'.repeat(256) })).status, 422)
  t.equal((await edit(1, { body: 7 })).status, 422)
  t.same(
    (await events(1)).map(({ type }) => type),
    ['IssueOpened', 'TitleChanged', 'BodyChanged', 'BodyChanged'],
    'what changes nothing is not recorded',
  )
})

t.test(
  'issues.edit.3: milestone, assignees and deadline are for writers; of others they are ignored',
  async (t) => {
    const { edit, milestone, counts, events } = await bobsIssue('fields')
    const one = await milestone('One')
    const wanted = { milestone: one, assignees: ['carol'], due_date: '2027-01-01T00:00:00Z' }
    const bare = { milestone: null, assignees: null, due_date: null }
    t.match(await edit(1, wanted, 'bob'), { status: 201, body: bare })
    const invalid = {
      milestone: 9_999_999,
      assignees: ['nobody'],
      due_date: 'soon',
      deadline: '2027-02-30T00:00:00Z',
    }
    t.match(await edit(1, { ...invalid, title: 'New' }, 'bob'), {
      status: 201,
      body: { ...bare, title: 'New' },
    })
    const whole = {
      milestone: { id: one },
      assignees: [{ login: 'carol' }],
      due_date: '2027-01-01T23:59:59Z',
    }
    t.match(await edit(1, wanted, 'carol'), { status: 201, body: whole })
    t.same(await counts(one), [1, 0])
    const cleared = { milestone: 0, assignees: [], unset_due_date: true, remove_deadline: true }
    t.match(await edit(1, cleared, 'bob'), { status: 201, body: whole })
    t.match(await edit(1, cleared, 'carol'), { status: 201, body: bare })
    t.same(await counts(one), [0, 0])
    t.same(
      (await events(1)).map(({ type }) => type),
      [
        'IssueOpened',
        'TitleChanged',
        ...Array(2).fill(['MilestoneChanged', 'AssigneesChanged', 'DeadlineChanged']).flat(),
      ],
    )
  },
)

t.test('issues.edit.3: null changes nothing; milestone 0 clears, an unknown one gives 404', async (t) => {
  const { edit, milestone, open } = await repository('milestones')
  const far = await (await repository('far')).milestone('Far')
  const [one, two] = [await milestone('One'), await milestone('Two')]
  await open({ milestone: one })
  t.match((await edit(1, { milestone: null })).body, { milestone: { title: 'One' } })
  t.match((await edit(1, { milestone: two })).body, { milestone: { title: 'Two', open_issues: 1 } })
  for (const odd of [far, 9_999_999, -1])
    t.equal((await edit(1, { milestone: odd, title: 'No' })).status, 404)
  t.match((await edit(1, {})).body, { title: 'Issue', milestone: { title: 'Two' } }, 'all or nothing')
  t.match((await edit(1, { milestone: 0 })).body, { milestone: null })
  t.equal((await edit(1, { milestone: 'One' })).status, 422)
})

t.test('issues.edit.3: the given assignees replace the old ones; an empty array clears them', async (t) => {
  const { edit, open } = await repository('assignees', { private: true })
  await open({ assignees: ['alice'] })
  await alice.repos.repoAddCollaborator('alice', 'assignees', 'dave', { permission: 'read' })
  const after = async (option: object) => {
    const { status, body } = await edit(1, option)
    return status === 201 ? (body.assignees ?? []).map(({ login }: { login: string }) => login) : status
  }
  t.same(await after({ assignees: ['carol'] }), ['carol'])
  t.same(await after({ assignees: null, assignee: null }), ['carol'])
  t.same(await after({ assignee: '' }), ['carol'])
  t.same(await after({ assignee: 'alice' }), ['alice'])
  t.same(await after({ assignee: 'Alice', assignees: ['CAROL', 'alice'] }), ['alice', 'carol'])
  for (const nobody of ['nobody', 'dave', 'bob']) t.equal(await after({ assignees: [nobody] }), 422, nobody)
  t.equal(await after({ assignees: Array.from({ length: 2000 }, (_, i) => `user${i}`) }), 422)
  t.same(await after({}), ['alice', 'carol'])
  t.same(await after({ assignees: [] }), [])
})

t.test('deadline.1, deadline.2: a deadline ends its day; it is removed in three ways', async (t) => {
  const { edit, open } = await repository('deadlines')
  await open()
  const due = async (option: object) => {
    const { status, body } = await edit(1, option)
    return status === 201 ? body.due_date : status
  }
  const day = '2027-03-04T23:59:59+05:30'
  const set = () => due({ due_date: '2027-03-04T10:00:00+05:30' })
  t.equal(await set(), day)
  t.equal(await due({ due_date: null, unset_due_date: false, remove_deadline: null }), day)
  t.equal(await due({ due_date: '' }), day)
  t.equal(await due({ due_date: '2027-02-30T00:00:00Z' }), 422)
  t.equal(await due({ unset_due_date: true }), null)
  t.equal(await set(), day)
  t.equal(await due({ remove_deadline: true, deadline: '2030-01-01T00:00:00Z' }), null)
  t.equal(await set(), day)
  t.equal(await due({ due_date: '0001-01-01T00:00:00Z' }), null)
  t.equal(await due({ deadline: '2027-12-31T00:00:00Z' }), '2027-12-31T23:59:59Z')
})

t.test('issues.edit.4: closed closes, any other value opens', async (t) => {
  const { edit, milestone, counts, events } = await bobsIssue('states')
  const one = await milestone('One')
  await edit(1, { milestone: one })
  const state = async (value: unknown, login = 'bob') => {
    const { status, body } = await edit(1, { state: value }, login)
    return [status, body.state, body.closed_at === null]
  }
  t.same(await state('closed'), [201, 'closed', false])
  t.same(await counts(one), [0, 1])
  t.equal((await alice.repos.repoGet('alice', 'states')).data.open_issues_count, 0)
  t.same(await state('closed', 'alice'), [201, 'closed', false])
  t.same(await state(null), [201, 'closed', false])
  t.same(await state('open'), [201, 'open', true])
  t.same(await counts(one), [1, 0])
  for (const other of ['CLOSED', '', 'closed ', 'all']) {
    await state('closed')
    t.same(await state(other), [201, 'open', true], JSON.stringify(other))
  }
  t.equal((await alice.repos.repoGet('alice', 'states')).data.open_issues_count, 1)
  t.equal((await edit(1, { state: true })).status, 422)
  const changes = (await events(1)).filter((event) => event.type === 'StatusChanged')
  t.same(
    changes.map((event) => event.type === 'StatusChanged' && event.data.comment.kind),
    Array(5).fill(['close', 'reopen']).flat(),
  )
  const ids = changes.map((event) => (event.type === 'StatusChanged' ? event.data.comment.id : 0))
  t.equal(new Set(ids).size, ids.length, 'each change has a comment of its own')
})

t.test('issues.edit.4: closing with open dependencies gives 412, and changes nothing else', async (t) => {
  const { edit, open, depends, get } = await repository('waiting')
  for (const title of ['First', 'Second', 'Third']) await open({ title })
  await depends(1, 2)
  await depends(1, 3)
  await edit(3, { state: 'closed' })
  const refused = await edit(1, { state: 'closed', title: 'No' })
  t.match(refused, { status: 412, body: { message: /open issues/, errors: ['#2'] } })
  t.match(await get(1), { title: 'First', state: 'open' })
  t.equal((await edit(1, { state: 'open' })).status, 201)
  await edit(2, { state: 'closed' })
  t.equal((await edit(1, { state: 'closed' })).status, 201)
  await edit(2, { state: 'open' })
  t.equal((await edit(1, { state: 'closed' })).status, 201, 'it is closed already')
  const other = await repository('other')
  await other.open()
  await edit(2, { state: 'closed' })
  await edit(1, { state: 'open' })
  await depends(1, 1, 'other')
  t.equal((await edit(1, { state: 'closed' })).status, 412, 'in another repository, too')
  await alice.repos.repoDelete('alice', 'other')
  t.equal((await edit(1, { state: 'closed' })).status, 201, 'nothing waits for what is deleted')
})

t.test('issues.edit.4: issues wait for pull requests, and pull requests for issues', async (t) => {
  const { edit, depends, merge, pull } = await withPulls(t, 'mixed', 2)
  await depends(1, 2)
  t.match(await edit(1, { state: 'closed' }), { status: 412, body: { errors: ['#2'] } })
  await depends(3, 1)
  t.match(await edit(3, { state: 'closed' }), { status: 412, body: { errors: ['#1'] } })
  t.equal((await merge(2)).status, 200)
  t.equal((await edit(1, { state: 'closed' })).status, 201, 'what is merged is closed')
  t.equal((await edit(3, { state: 'closed' })).status, 201)
  t.equal((await pull(3)).state, 'closed')
})

t.test(
  'issues.get.1: issues and pull requests share their numbers, and the path of issues leads to both',
  async (t) => {
    const { edit, open, get, pull, merge, pullEvents, milestone, counts, work } = await withPulls(
      t,
      'shared',
      2,
    )
    t.equal(await open({ title: 'Last' }), 4)
    t.match(await get(2), { number: 2, title: 'From b1', pull_request: { merged: false } })
    const one = await milestone('One')
    const { status, body } = await edit(2, {
      title: 'New',
      body: 'More',
      milestone: one,
      assignees: ['carol'],
      due_date: '2027-01-01T00:00:00Z',
      state: 'closed',
    })
    t.equal(status, 201)
    const fields = {
      title: 'New',
      body: 'More',
      milestone: { id: one },
      assignees: [{ login: 'carol' }],
      due_date: '2027-01-01T23:59:59Z',
      state: 'closed',
    }
    t.match(body, { ...fields, pull_request: { merged: false } })
    t.match(await pull(2), fields)
    t.same(await counts(one), [0, 1])
    const { data } = await alice.repos.repoGet('alice', 'shared')
    t.match(data, { open_issues_count: 2, open_pr_counter: 1 })

    await work.git('checkout', '-q', 'b1')
    const tip = await work.commit('Later', { later: 'x\n' })
    await work.git('push', '-q', 'origin', 'b1')
    t.match((await edit(2, { state: 'open' })).body, { state: 'open' })
    t.equal((await pull(2)).head?.sha, tip, 'opened again it has the commits that came meanwhile')

    t.equal((await merge(3)).status, 200)
    for (const state of ['open', 'closed']) {
      t.equal((await edit(3, { state, title: 'No' })).status, 412, `a merged one stays merged: ${state}`)
    }
    t.match((await edit(3, { title: 'Merged' })).body, {
      title: 'Merged',
      state: 'closed',
      pull_request: { merged: true },
    })
    t.same(await pullEvents(3), ['MergeStarted', 'PullRequestMerged', 'TitleChanged'])
  },
)

t.test('closing the issue behind a pull request ends its schedule', async (t) => {
  const { edit, pull, pullEvents } = await withPulls(t, 'scheduled')
  const { sha = '' } = (await pull(2)).head ?? {}
  await call('alice', 'POST', `repos/alice/scheduled/statuses/${sha}`, { state: 'pending', context: 'ci' })
  const schedule = { Do: 'merge', merge_when_checks_succeed: true }
  t.equal((await call('alice', 'POST', 'repos/alice/scheduled/pulls/2/merge', schedule)).status, 201)
  t.equal((await edit(2, { state: 'closed' })).status, 201)
  t.same(await pullEvents(2), ['MergeScheduled', 'StatusChanged', 'MergeScheduleCanceled'])
})

t.test('many edits at the same time are all kept', async (t) => {
  const { edit, get, events } = await bobsIssue('rush')
  const answers = await Promise.all(
    Array.from({ length: 5 }, (_, i) =>
      edit(1, i % 2 === 0 ? { title: `Title ${i}` } : { state: i === 1 ? 'closed' : 'open' }),
    ),
  )
  t.ok(answers.every(({ status }) => status === 201 || status === 409))
  const { title, state } = await get(1)
  const log = await events(1)
  const titles = log.flatMap((event) => (event.type === 'TitleChanged' ? [event.data] : []))
  for (const [i, { oldTitle }] of titles.entries()) t.equal(oldTitle, titles[i - 1]?.title ?? 'Old')
  t.equal(title, titles.at(-1)?.title)
  const last = log.findLast((event) => event.type === 'StatusChanged')
  t.equal(state, last?.type === 'StatusChanged' && last.data.closed ? 'closed' : 'open')
})

t.test('deadline.3: only writers set it, 403 for others', async (t) => {
  const { issues, get } = await bobsIssue('due')
  const set = (body: unknown, login: string | null = 'carol', index: number | string = 1) =>
    call(login, 'POST', `${issues}/${index}/deadline`, body)
  const option = { due_date: '2027-03-04T01:00:00-08:00' }
  t.equal((await set(option, null)).status, 401)
  t.equal((await set(option, 'bob')).status, 403, 'not even its poster')
  t.equal((await set({ due_date: 'soon' }, 'bob')).status, 403)
  t.equal((await set(option, 'carol', 2)).status, 404)
  t.equal((await get(1)).due_date, null)
  const { data, status } = await carol.repos.issueEditIssueDeadline('alice', 'due', 1, option)
  t.same([status, data], [201, { due_date: '2027-03-04T23:59:59-08:00' }])
  t.equal((await get(1)).due_date, '2027-03-04T23:59:59-08:00')
})

t.test(
  'deadline.2, deadline.3: null and the zero value remove it, `{}` counts as null; `""` and an invalid date are 422',
  async (t) => {
    const { issues, get, open, events } = await repository('null')
    await open({ due_date: '2027-03-04T01:00:00Z' })
    const set = async (body: unknown) => {
      const answer = await call('alice', 'POST', `${issues}/1/deadline`, body)
      return answer.status === 201 ? answer.body : answer.status
    }
    for (const odd of [
      { due_date: '' },
      { deadline: '' },
      { due_date: 'soon' },
      { due_date: '2027-02-29T00:00:00Z' },
      { due_date: 1 },
      [],
      null,
    ]) {
      t.equal(await set(odd), 422, JSON.stringify(odd))
    }
    t.equal((await get(1)).due_date, '2027-03-04T23:59:59Z')
    t.same(await set({ due_date: null }), { due_date: null })
    t.equal((await get(1)).due_date, null)
    t.same(await set({ deadline: '2028-02-29T00:00:00Z' }), { due_date: '2028-02-29T23:59:59Z' })
    t.same(await set({ due_date: '0001-01-01T00:00:00Z' }), { due_date: null })
    t.same(await set({ due_date: null }), { due_date: null })
    t.same(await set({ deadline: '2028-02-29T00:00:00Z' }), { due_date: '2028-02-29T23:59:59Z' })
    t.same(await set({}), { due_date: null })
    t.equal((await events(1)).length, 6, 'what changes nothing is not recorded')
  },
)

t.test('deadline.3: a pull request has one, too', async (t) => {
  const { issues, pull, repoId } = await withPulls(t, 'pulls')
  const option = { due_date: '2027-03-04T01:00:00Z' }
  const headers = { 'idempotency-key': 'd' }
  const first = await call('alice', 'POST', `${issues}/2/deadline`, option, headers)
  t.match(first, { status: 201, body: { due_date: '2027-03-04T23:59:59Z' } })
  t.equal((await pull(2)).due_date, '2027-03-04T23:59:59Z')
  t.equal((await call('alice', 'POST', `${issues}/2/deadline`, option, headers)).status, 201)
  t.equal((await call('alice', 'POST', `${issues}/2/deadline`, { due_date: null }, headers)).status, 422)
  t.equal((await server.services.views.issues.get(`${repoId}.2`))?.deadline, '2027-03-04T23:59:59Z')
})

t.test('an issue is deleted with its repository', async (t) => {
  const { issues, open, edit } = await repository('gone')
  await open()
  await alice.repos.repoDelete('alice', 'gone')
  t.equal((await edit(1, { title: 't' })).status, 404)
  t.equal((await call('alice', 'POST', `${issues}/1/deadline`, { due_date: null })).status, 404)
  t.equal(await statusOf(alice.repos.issueGetIssue('alice', 'gone', 1)), 404)
  const again = await repository('gone')
  t.equal(
    await statusOf(alice.repos.issueGetIssue('alice', 'gone', 1)),
    404,
    'a new one of that name is another',
  )
  t.equal(await again.open(), 1)
})
