import { ContentType } from 'gitea-js'
import t from 'tap'
import { takeClaim } from '../../../src/commands/execution/claims.ts'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { claimKeys, pullStream } from '../../../src/events/streams.ts'
import { createClaimAges } from '../../../src/services/writes/claim-ages.ts'
import { withoutCounters } from '../../queries/history/replay/recorded-answers.ts'
import { aContext } from '../../stores.ts'
import { startPulls } from './pull-repository.ts'

const { server, alice, call, repository } = await startPulls(t)

const named = (people: { login?: string }[] | null) => people?.map(({ login }) => login)
const titled = (labels: { name?: string }[]) => labels.map(({ name }) => name).sort()

// Without it gitea-js sends plain text, which Gitea refuses, too.
const json = { type: ContentType.Json }

t.test('issues.edit.1: 403 for others than the poster and writers', async (t) => {
  const { edit, open, branches, changes } = await repository(t, 'rule1', { writers: ['carol'] })
  await branches('topic')
  await open('topic', {}, 'bob')
  t.equal((await edit(1, { title: 'Of dave' }, 'dave')).status, 403)
  t.equal((await edit(1, { title: 'Of nobody' }, null)).status, 401)
  t.strictSame(await changes(1), [])
  for (const login of ['bob', 'carol', 'alice', 'admin']) {
    const { status, body } = await edit(1, { title: `Of ${login}` }, login)
    t.strictSame([status, body.title], [201, `Of ${login}`])
  }
  t.equal((await edit(2, { title: 'x' })).status, 404)
  for (const index of ['0', '-1', 'x', '1.0', '9'.repeat(30)]) {
    t.equal((await call('alice', 'PATCH', `repos/alice/rule1/pulls/${index}`, {})).status, 404, index)
  }
})

t.test('issues.edit.1: a poster who cannot read the repository any more gets 404', async (t) => {
  const { edit, open, branches } = await repository(t, 'rule1-private')
  await branches('topic')
  await open('topic', {}, 'bob')
  await alice.repos.repoEdit('alice', 'rule1-private', { private: true })
  t.equal((await edit(1, { title: 'x' }, 'bob')).status, 404)
})

t.test('issues.edit.3, pulls.edit.2: only writers change labels, milestone and assignees', async (t) => {
  const { edit, open, branches, label, milestone, changes, counts } = await repository(t, 'rule2', {
    writers: ['carol'],
  })
  await branches('topic')
  await open('topic', {}, 'bob')
  const milestoneId = await milestone('1.0')
  const change = {
    labels: [await label('bug')],
    milestone: milestoneId,
    assignees: ['carol'],
    assignee: 'alice',
  }
  const asBob = await edit(1, { ...change, title: 'By the poster' }, 'bob')
  t.equal(asBob.status, 201)
  t.match(asBob.body, { title: 'By the poster', labels: [], milestone: null, assignees: [] })
  t.equal(
    (await edit(1, { assignees: ['nobody'], milestone: 7_000_000 }, 'bob')).status,
    201,
    'not looked at',
  )
  t.strictSame(
    (await changes(1)).map(({ type }) => type),
    ['TitleChanged'],
  )
  const asCarol = (await edit(1, change, 'carol')).body
  t.match(asCarol, { labels: [{ name: 'bug' }], milestone: { title: '1.0' } })
  t.strictSame(named(asCarol.assignees), ['alice', 'carol'])
  t.strictSame(await counts(milestoneId), [1, 0])
})

t.test('issues.edit.3: assignees are replaced as a whole; unknown ones give 422', async (t) => {
  const { edit, open, branches, changes, id } = await repository(t, 'assignees', { writers: ['carol'] })
  await branches('topic')
  await open('topic', { assignees: ['alice'] })
  const assigned = async (option: object) => named((await edit(1, option)).body.assignees)
  t.strictSame(await assigned({ assignees: ['carol'] }), ['carol'])
  t.strictSame(await assigned({ assignee: 'alice' }), ['alice'])
  t.strictSame(await assigned({ assignee: '' }), ['alice'], 'no name changes nothing')
  t.strictSame(await assigned({ assignee: null, assignees: null }), ['alice'])
  t.strictSame(await assigned({ assignee: 'alice', assignees: ['admin', 'ALICE'] }), ['alice', 'admin'])
  t.equal((await edit(1, { assignees: ['carol', 'nobody'], title: 'New' })).status, 422)
  t.equal((await edit(1, { assignee: 'bob' })).status, 422, 'who may not write')
  t.strictSame(await assigned({}), ['alice', 'admin'])
  t.strictSame((await edit(1, { assignees: [] })).body.assignees, [])
  const recorded = (await changes(1)).map(({ data }) => data)
  t.match(recorded[0], {
    ...id(1),
    assignees: [{ login: 'carol' }],
    added: [{ login: 'carol' }],
    removed: [{ login: 'alice' }],
  })
  t.equal(recorded.length, 4)
})

t.test('issues.edit.3: an assignee without access to a private repository gives 422', async (t) => {
  const { edit, open, branches } = await repository(t, 'assignees-private', { private: true })
  await branches('topic')
  await open('topic')
  t.match(await edit(1, { assignees: ['bob'] }), { status: 422, body: { message: /no access/ } })
})

t.test('pulls.edit.2: labels are replaced when present, and [] clears them', async (t) => {
  const { edit, open, branches, label, changes, id } = await repository(t, 'labels')
  await branches('topic', 'other')
  const [a, b, c] = [await label('a'), await label('b'), await label('c')]
  await open('topic', { labels: [a, b] })
  await open('other')
  const labels = async (option: object) => titled((await edit(1, option)).body.labels)
  t.strictSame(await labels({ labels: [b, c, c, 6_000_000] }), ['b', 'c'])
  t.strictSame(await labels({ labels: null }), ['b', 'c'])
  t.strictSame(await labels({ labels: [c, b] }), ['b', 'c'], 'another order is not a change')
  t.strictSame(await changes(1), [
    {
      type: 'LabelsChanged',
      data: {
        ...id(1),
        labels: [
          { id: b, name: 'b' },
          { id: c, name: 'c' },
        ],
        added: [{ id: c, name: 'c' }],
        removed: [{ id: a, name: 'a' }],
      },
    },
  ])
  const numbers = async (query: string) => {
    const { body, headers } = await call('bob', 'GET', `repos/alice/labels/pulls?${query}`)
    return [body.map(({ number }: { number: number }) => number), headers.get('x-total-count')]
  }
  t.strictSame(await numbers(`labels=${b}`), [[1], '1'])
  t.strictSame(await numbers(`labels=${a}`), [[], '0'])
  t.strictSame(await labels({ labels: [] }), [])
  t.strictSame(await numbers(`labels=${b}`), [[], '0'])
  t.equal((await edit(1, { labels: Array.from({ length: 2000 }, (_, i) => i) })).status, 422)
})

t.test('issues.create.5, pulls.edit.2: the last of the exclusive labels of a scope counts', async (t) => {
  const { edit, openPull, branches, label } = await repository(t, 'exclusive')
  await branches('topic')
  const names = ['kind/bug', 'kind/idea', 'other/bug', 'plain', '/odd', 'odd/']
  const ids = await Promise.all(names.map((name) => label(name, { exclusive: true })))
  t.strictSame(titled((await openPull('topic', { labels: ids })).labels ?? []), [
    '/odd',
    'kind/idea',
    'odd/',
    'other/bug',
    'plain',
  ])
  const [bug = 0, idea = 0] = ids
  t.strictSame(titled((await edit(1, { labels: [idea, bug] })).body.labels), ['kind/bug'])
})

t.test('issues.edit.3: a milestone is applied when it is not 0, and its counters follow', async (t) => {
  const { edit, open, branches, milestone, counts, merge, changes, close, id } = await repository(
    t,
    'milestones',
  )
  await branches('topic', 'other')
  const [first, second] = [await milestone('1'), await milestone('2')]
  await open('topic', { milestone: first })
  await open('other', { milestone: first })
  t.strictSame(await counts(first), [2, 0])
  t.equal((await edit(1, { milestone: second })).body.milestone.title, '2')
  t.strictSame(
    [await counts(first), await counts(second)],
    [
      [1, 0],
      [1, 0],
    ],
  )
  t.equal((await edit(1, { milestone: 0 })).body.milestone.title, '2')
  t.equal((await edit(1, { milestone: null })).body.milestone.title, '2')
  const elsewhere = await repository(t, 'milestones-elsewhere')
  t.equal((await edit(1, { milestone: await elsewhere.milestone('3') })).status, 404)
  t.strictSame(await changes(1), [
    {
      type: 'MilestoneChanged',
      data: { ...id(1), from: { id: first, title: '1' }, to: { id: second, title: '2' }, closed: false },
    },
  ])
  const list = async (query: string) =>
    (await call(null, 'GET', `repos/alice/milestones/pulls?${query}`)).body.map(
      ({ number }: { number: number }) => number,
    )
  t.strictSame(await list(`milestone=${second}`), [1])
  await close(1)
  t.strictSame(await counts(second), [0, 1])
  t.strictSame([await list(`milestone=${second}`), await list(`milestone=${second}&state=closed`)], [[], [1]])
  await edit(1, { milestone: first })
  t.strictSame(
    [await counts(first), await counts(second)],
    [
      [1, 1],
      [0, 0],
    ],
    'a closed one moves as closed',
  )
  await edit(1, { state: 'open', milestone: second })
  t.strictSame(
    [await counts(first), await counts(second)],
    [
      [1, 0],
      [1, 0],
    ],
    'both at once',
  )
  t.equal((await merge(1)).status, 200)
  t.strictSame(await counts(second), [0, 1])
})

t.test('deadline.1: only the date of a deadline counts, in the zone in which it is given', async (t) => {
  const { edit, open, branches, changes, id } = await repository(t, 'deadlines')
  await branches('topic')
  await open('topic', { due_date: '2027-01-01T00:00:00Z' }, 'bob')
  const due = async (option: object) => (await edit(1, option, 'bob')).body.due_date
  const day = '2027-02-03T23:59:59+09:30'
  t.equal(await due({ due_date: '2027-02-03T04:05:06+09:30' }), day)
  t.equal(await due({ deadline: '2027-02-03T21:00:00+09:30' }), day, 'the same day')
  t.strictSame(await changes(1), [
    { type: 'DeadlineChanged', data: { ...id(1), from: '2027-01-01T23:59:59Z', to: day } },
  ])
  t.equal(await due({ title: 'Without' }), day)
  t.equal(await due({ due_date: null, unset_due_date: null, remove_deadline: false }), day)
  for (const removal of [
    { unset_due_date: true },
    { remove_deadline: true },
    { due_date: '0001-01-01T00:00:00Z' },
    { deadline: '0001-01-01T00:00:00Z' },
    { due_date: '2030-01-01T00:00:00Z', unset_due_date: true },
    { due_date: '2030-01-01T00:00:00Z', unset_due_date: false, remove_deadline: true },
  ]) {
    t.equal(await due({ due_date: '2027-02-03T00:00:00+09:30', unset_due_date: false }), day)
    t.equal(await due(removal), null, JSON.stringify(removal))
  }
  for (const odd of ['soon', '2027-13-01T00:00:00Z', '2027-02-29T00:00:00Z', 7]) {
    t.equal((await edit(1, { due_date: odd, title: 'Never' })).status, 422, `${odd}`)
  }
  t.equal((await edit(1, {})).body.title, 'Without')
})

t.test('pulls.edit.4: the state of a merged pull request gives 412, and then nothing changes', async (t) => {
  const { edit, open, branches, merge, get, changes, label } = await repository(t, 'rule4')
  await branches('topic')
  await open('topic')
  await merge(1)
  const before = await get(1)
  const recorded = await changes(1)
  for (const state of ['closed', 'open', 'anything', '']) {
    const { status } = await edit(1, { state, title: 'New', labels: [await label(`l-${state}`)] })
    t.equal(status, 412, state)
  }
  t.strictSame(withoutCounters(await get(1)), withoutCounters(before))
  t.strictSame(await changes(1), recorded)
  t.equal((await edit(1, { title: 'New', state: null })).body.title, 'New', 'the rest can be changed')
})

t.test('issues.edit.4: closing with open dependencies gives 412, and 201 once they are closed', async (t) => {
  const { edit, open, branches, changes, close } = await repository(t, 'depends')
  await branches('topic', 'first', 'second')
  for (const head of ['topic', 'first', 'second']) await open(head)
  const depend = (index: number) =>
    alice.repos.issueCreateIssueDependencies(
      'alice',
      'depends',
      '1',
      {
        owner: 'alice',
        repo: 'depends',
        index,
      },
      json,
    )
  await depend(2)
  await depend(3)
  const recorded = await changes(1)
  const refused = await edit(1, { state: 'closed', title: 'New' })
  t.equal(refused.status, 412)
  t.strictSame(refused.body.errors, ['#2', '#3'])
  t.strictSame(await changes(1), recorded)
  t.equal((await edit(1, { state: 'open' })).status, 201, 'opening does not depend on them')
  await close(2)
  t.strictSame((await edit(1, { state: 'closed' })).body.errors, ['#3'])
  await close(3)
  t.match(await edit(1, { state: 'closed' }), { status: 201, body: { state: 'closed' } })
})

t.test(
  'issues.edit.4: a merged dependency, or one in a deleted repository, does not block closing',
  async (t) => {
    const here = await repository(t, 'waits')
    const there = await repository(t, 'vanishes')
    await here.branches('topic', 'first')
    await there.branches('topic')
    for (const head of ['topic', 'first']) await here.open(head)
    await there.open('topic')
    for (const [repo, index] of [
      ['waits', 2],
      ['vanishes', 1],
    ] as const) {
      await alice.repos.issueCreateIssueDependencies(
        'alice',
        'waits',
        '1',
        { owner: 'alice', repo, index },
        json,
      )
    }
    t.equal((await here.edit(1, { state: 'closed' })).body.errors.length, 2)
    await here.merge(2)
    t.equal((await here.edit(1, { state: 'closed' })).body.errors.length, 1)
    await alice.repos.repoDelete('alice', 'vanishes')
    t.equal((await here.edit(1, { state: 'closed' })).status, 201)
  },
)

t.test('pulls.edit.5: changes of title, state and base are recorded with what the spec names', async (t) => {
  const { edit, open, branches, work, changes, repoId, milestone, reopen, eventsOf, id } = await repository(
    t,
    'rule5',
    { writers: ['carol'] },
  )
  await branches('topic', 'next')
  const milestoneId = await milestone('1')
  await open('topic', { title: 'Old', milestone: milestoneId })
  await edit(1, { title: ' New ', base: 'next', state: 'closed' })
  t.strictSame(await changes(1), [], 'refused as a whole: a closed one has no new base')
  await edit(1, { title: ' New ', base: 'next' })
  await edit(1, { state: 'closed' }, 'carol')
  await reopen(1)
  const main = await work.git('rev-parse', 'main')
  const next = await work.git('rev-parse', 'next')
  const recorded = await changes(1)
  const [, , closed, opened] = recorded.map(({ data }) => data)
  const commentOf = (data: unknown) => {
    if (typeof data !== 'object' || data === null || !('comment' in data)) throw new Error('no comment')
    return data.comment
  }
  t.match(commentOf(closed), { id: Number, kind: 'close' })
  t.match(commentOf(opened), { id: Number, kind: 'reopen' })
  const change = { ...id(1), milestone: { id: milestoneId, title: '1' } }
  t.strictSame(recorded, [
    { type: 'TitleChanged', data: { ...id(1), oldTitle: 'Old', title: 'New' } },
    {
      type: 'TargetBranchChanged',
      data: {
        ...id(1),
        from: { repoId, branch: 'main', sha: main },
        base: { repoId, branch: 'next', sha: next },
        mergeBase: main,
        diff: { additions: 1, deletions: 0, changedFiles: 1 },
      },
    },
    { type: 'StatusChanged', data: { ...change, closed: true, comment: commentOf(closed) } },
    { type: 'StatusChanged', data: { ...change, closed: false, comment: commentOf(opened) } },
  ])
  const statuses = (await eventsOf(1)).filter(({ type }) => type === 'StatusChanged')
  t.strictSame(
    statuses.map(({ metadata }) => metadata.actor?.login),
    ['carol', 'alice'],
  )
})

t.test('pulls.edit.5: an edit that changes nothing appends no event', async (t) => {
  const { edit, open, branches, changes, get, label, milestone } = await repository(t, 'nothing', {
    writers: ['carol'],
  })
  await branches('topic')
  const option = {
    title: 'Same',
    body: 'Same',
    labels: [await label('a')],
    milestone: await milestone('1'),
    assignees: ['carol'],
    due_date: '2027-01-01T00:00:00Z',
  }
  await open('topic', option)
  const before = withoutCounters(await get(1))
  const same = { ...option, base: 'main', state: 'open', allow_maintainer_edit: false }
  t.strictSame(withoutCounters((await edit(1, same)).body), before)
  const empty = { title: ' ', body: '', base: '', milestone: 0, assignee: '', due_date: '' }
  t.strictSame(withoutCounters((await edit(1, empty)).body), before)
  t.strictSame(withoutCounters((await edit(1, {})).body), before)
  const nulls = Object.fromEntries(Object.keys(same).map((field) => [field, null]))
  t.strictSame(withoutCounters((await edit(1, nulls)).body), before)
  t.strictSame(await changes(1), [])
})

t.test('pulls.edit.6: the base branch can be changed, and the changes are computed again', async (t) => {
  const { edit, work, changes, openPull } = await repository(t, 'base', { writers: ['carol'] })
  await work.git('checkout', '-q', '-b', 'release')
  const release = await work.commit('On release', { 'r.txt': 'r\n' })
  await work.git('checkout', '-q', '-b', 'topic')
  await work.commit('On topic', { 't.txt': 't\n' })
  await work.git('checkout', '-q', '-b', 'clash', 'main')
  await work.commit('Clash', { 't.txt': 'clash\n' })
  await work.git('push', '-q', 'origin', 'release', 'topic', 'clash')
  t.equal((await openPull('topic')).changed_files, 2)
  t.match(await edit(1, { base: 'release' }, 'carol'), {
    status: 201,
    body: { base: { ref: 'release', sha: release }, merge_base: release, changed_files: 1, mergeable: true },
  })
  t.match((await edit(1, { base: 'clash' })).body, {
    base: { ref: 'clash' },
    mergeable: false,
    changed_files: 2,
  })
  t.equal((await changes(1)).length, 2)
  const commits = await call('alice', 'GET', 'repos/alice/base/pulls/1/commits')
  t.equal(commits.body.length, 2)
})

t.test(
  'pulls.edit.6: 404 without the branch, 409 for a duplicate or when merged, 422 when closed or the head itself',
  async (t) => {
    const { edit, open, branches, merge, changes, get, close } = await repository(t, 'rule6')
    await branches('topic', 'next', 'other')
    await open('topic')
    await open('topic', { base: 'next' })
    for (const base of ['nowhere', '../x', 'refs/heads/next', '-d', '\u0000']) {
      t.equal((await edit(1, { base, title: 'New' })).status, 404, base)
    }
    const twin = await edit(1, { base: 'next', title: 'New' })
    t.equal(twin.status, 409)
    t.match(twin.body.message, /#2\b/)
    t.equal((await edit(1, { base: 'topic', title: 'New' })).status, 422, 'the head itself')
    t.strictSame(await changes(1), [])
    await close(1)
    t.equal((await edit(1, { base: 'other', title: 'New' })).status, 422)
    t.equal(await open('topic', { base: 'other' }), 3, 'what was refused holds no claim')
    t.equal((await merge(3)).status, 200)
    for (const base of ['next', 'nowhere']) {
      t.match(
        await edit(3, { base }),
        { status: 409, body: { message: /merged already/ } },
        `${base}: merged`,
      )
    }
    t.match(await edit(3, { base: 'other' }), { status: 201, body: { base: { ref: 'other' } } }, 'no change')
    t.equal((await get(1)).title, 'From topic')
  },
)

t.test('pulls.edit.6: the old head and base are free for other pulls, the new ones are not', async (t) => {
  const { edit, open, tryOpen, branches, close } = await repository(t, 'claims')
  await branches('topic', 'next')
  await open('topic')
  await edit(1, { base: 'next' })
  t.match(await tryOpen('topic', { base: 'next' }), { status: 409, body: { message: /#1\b/ } })
  t.equal(await open('topic'), 2)
  t.equal((await edit(1, { base: 'main' })).status, 409)
  await close(2)
  t.equal((await edit(1, { base: 'main' })).status, 201)
})

t.test('pulls.edit.6: a claim that a crash left blocks others for at most a minute', async (t) => {
  const { edit, open, tryOpen, branches, repoId } = await repository(t, 'crashed')
  await branches('topic', 'next', 'other')
  await open('topic')
  const { services } = server
  const { events } = services
  const claim = (base: string, index: number) =>
    takeClaim(services, aContext(), {
      key: claimKeys.pull({ repoId, branch: 'topic' }, { repoId, branch: base }),
      holder: pullStream(repoId, index),
      stillHolds: async () => true,
    })
  let now = 0
  /** Makes another server leave all present claims. */
  const passAMinute = async () => {
    const position = await events.lastPosition()
    services.writeState.claimAges = createClaimAges({ node: 'another', position }, () => now)
    now += 60_000
  }
  await claim('next', 1)
  await passAMinute()
  await claim('other', 99)
  t.match(
    await tryOpen('topic', { base: 'other' }),
    { status: 409, body: { message: /#99\b/ } },
    'it may still come',
  )
  t.equal((await tryOpen('topic', { base: 'next' })).status, 201, 'an edit to it that never came')
  t.match(await edit(1, { base: 'next' }), { status: 409, body: { message: /#2\b/ } })
  await branches('fourth')
  await claim('fourth', 98)
  await passAMinute()
  t.equal((await edit(1, { base: 'fourth' })).status, 201, 'one that was never opened')
})

t.test(
  'issues.edit.4: a close that a crash interrupted before its claim ended blocks others for at most a minute',
  async (t) => {
    const { edit, open, tryOpen, branches, get } = await repository(t, 'closed-by-half')
    await branches('topic', 'other')
    for (const head of ['topic', 'other']) await open(head)
    const { services } = server
    const { events } = services
    services.events = {
      ...events,
      async append(stream, made, expected) {
        if (made.some(({ type }) => type === 'ClaimReleased')) throw new StoreUnavailable('died')
        return events.append(stream, made, expected)
      },
    }
    for (const index of [1, 2]) t.equal((await edit(index, { state: 'closed' })).status, 503)
    services.events = events
    let now = 0
    const position = await events.lastPosition()
    services.writeState.claimAges = createClaimAges({ node: 'another', position }, () => now)
    t.equal((await get(1)).state, 'closed')
    t.match(await tryOpen('topic'), { status: 409, message: /#1\b/ }, 'it may be opened again just now')
    t.equal((await edit(2, { state: 'closed' })).status, 201)
    t.equal((await tryOpen('other')).status, 201, 'the same request again has finished it')
    now += 60_000
    t.match(await tryOpen('topic'), { status: 201, body: { number: 4 } })
    t.match(await edit(1, { state: 'open' }), { status: 409, message: /#4\b/ })
  },
)

t.test('pulls.edit.6: bases that are changed at the same time are all different', async (t) => {
  const { edit, open, tryOpen, branches, get } = await repository(t, 'base-race')
  await branches('topic', 'next', 'other')
  await open('topic')
  await open('topic', { base: 'other' })
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, i) => [
      edit(1, { base: i % 2 === 0 ? 'next' : 'main' }),
      edit(2, { base: i % 3 === 0 ? 'next' : 'other' }),
    ]).flat(),
  )
  for (const { status } of answers) t.ok([201, 409].includes(status), `${status}`)
  t.not((await get(1)).base?.ref, (await get(2)).base?.ref)
  // Whatever the outcome, each holds exactly the claim of its head and base.
  const bases = await Promise.all([1, 2].map(async (index) => (await get(index)).base?.ref ?? ''))
  for (const base of ['main', 'next', 'other']) {
    const { status } = await tryOpen('topic', { base })
    t.equal(status, bases.includes(base) ? 409 : 201, base)
  }
})

t.test(
  'pulls.edit.7: only a poster with write access to the head sets allow_maintainer_edit: else 403',
  async (t) => {
    const { edit, open, branches, changes, get, fork, id } = await repository(t, 'rule7', {
      writers: ['carol'],
    })
    await branches('topic')
    await (await fork('bob')).branch('idea', { 'of-bob': 'x\n' })
    await open('bob:idea', {}, 'bob')
    for (const login of ['alice', 'carol', 'admin']) {
      t.equal((await edit(1, { allow_maintainer_edit: true, title: 'New' }, login)).status, 403, login)
    }
    t.strictSame(await changes(1), [])
    t.equal((await edit(1, { allow_maintainer_edit: true }, 'bob')).body.allow_maintainer_edit, true)
    t.equal(
      (await edit(1, { allow_maintainer_edit: null, title: 'New' }, 'bob')).body.allow_maintainer_edit,
      true,
    )
    t.strictSame((await changes(1))[0], { type: 'MaintainerEditChanged', data: { ...id(1), allowed: true } })
    t.equal((await edit(1, { allow_maintainer_edit: false }, 'bob')).body.allow_maintainer_edit, false)

    await open('topic', {}, 'dave')
    const own = await edit(2, { allow_maintainer_edit: true }, 'dave')
    t.equal(own.status, 403, 'a poster who can not push to the head branch')
    t.equal((await get(2)).allow_maintainer_edit, false)
  },
)

t.test('pulls.edit.8: the response is what a following GET gives', async (t) => {
  const { edit, open, branches, get, label, milestone } = await repository(t, 'rule8', { writers: ['carol'] })
  await branches('topic', 'next')
  await open('topic')
  const option = {
    title: 'All',
    body: 'All',
    labels: [await label('a')],
    milestone: await milestone('1'),
    assignees: ['carol', 'alice'],
    due_date: '2027-01-01T00:00:00+01:00',
    base: 'next',
    allow_maintainer_edit: true,
  }
  for (const change of [option, { state: 'closed' }, { state: 'x' }, { labels: [], assignees: [] }]) {
    const { status, body } = await edit(1, change)
    t.equal(status, 201)
    t.strictSame(body, await get(1), JSON.stringify(change))
  }
})

t.test('closing and opening: counters and lists follow', async (t) => {
  const { edit, open, branches, close } = await repository(t, 'counters')
  await branches('a', 'b')
  for (const head of ['a', 'b']) await open(head)
  const seen = async () => {
    const list = async (state: string) => {
      const { body, headers } = await call(null, 'GET', `repos/alice/counters/pulls?state=${state}`)
      return [body.map(({ number }: { number: number }) => number), headers.get('x-total-count')]
    }
    const { open_pr_counter } = (await alice.repos.repoGet('alice', 'counters')).data
    return [open_pr_counter, await list('open'), await list('closed'), await list('all')]
  }
  t.strictSame(await seen(), [2, [[2, 1], '2'], [[], '0'], [[2, 1], '2']])
  const { body } = await edit(1, { state: 'closed' })
  t.match(body, { state: 'closed', merged: false, closed_at: /^20/ })
  t.strictSame(await seen(), [1, [[2], '1'], [[1], '1'], [[2, 1], '2']])
  await close(1)
  t.strictSame(await seen(), [1, [[2], '1'], [[1], '1'], [[2, 1], '2']], 'closed once')
  t.match((await edit(1, { state: 'whatever' })).body, { state: 'open', closed_at: null })
  t.strictSame(await seen(), [2, [[2, 1], '2'], [[], '0'], [[2, 1], '2']])
})

t.test('closing ends a scheduled merge, and records that', async (t) => {
  const { edit, open, branches, changes, merge, call, id, knowsChecks } = await repository(t, 'scheduled', {
    writers: ['carol'],
  })
  await branches('topic')
  await knowsChecks()
  await open('topic')
  const schedule = { merge_when_checks_succeed: true }
  t.equal((await merge(1, schedule)).status, 201)
  t.equal((await edit(1, { state: 'closed' }, 'carol')).status, 201)
  const recorded = (await changes(1)).slice(1)
  t.strictSame(
    recorded.map(({ type }) => type),
    ['StatusChanged', 'MergeScheduleCanceled'],
  )
  t.match(recorded[1]?.data, { ...id(1), by: { login: 'carol' } })
  t.equal((await edit(1, { state: 'open' })).status, 201)
  t.equal((await call('alice', 'DELETE', 'pulls/1/merge')).status, 404)
})

t.test('a closed pull request keeps its head; opened again it takes over the new one', async (t) => {
  const { edit, open, branches, get, work, close, tip } = await repository(t, 'reopened')
  const before = await branches('topic')
  await open('topic')
  await close(1)
  await work.git('checkout', '-q', 'topic')
  const after = await work.commit('More', { more: 'x\n' })
  await work.git('push', '-q', 'origin', 'topic')
  t.equal((await get(1)).head?.sha, before)
  t.match((await edit(1, { state: 'open' })).body, { head: { sha: after }, changed_files: 2 }, 'at once')
  t.equal((await get(1)).head?.sha, after)
  t.equal(await tip('refs/pull/1/head'), after)
})

t.test('edits at the same time are all kept', async (t) => {
  const { edit, open, branches, changes, get } = await repository(t, 'crowd')
  await branches('topic')
  await open('topic')
  const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => edit(1, { title: `Title ${i}` })))
  t.strictSame(new Set(answers.map(({ status }) => status)), new Set([201]))
  const titles = (await changes(1)).map(({ data }) => data)
  t.equal(titles.length, 12)
  t.match(titles.at(-1), { title: (await get(1)).title })
})
