import t from 'tap'
import { workTree } from '../../git-client.ts'
import { startPulls } from './pull-repository.ts'

const { server, alice, call, repository } = await startPulls(t)

const statusesOf = (answers: { status: number }[]) => answers.map(({ status }) => status).sort()
const named = (people: { login?: string }[] | undefined | null) => people?.map(({ login }) => login)

t.test('pulls.create.1: head equal to base gives 422', async (t) => {
  const { tryOpen } = await repository(t, 'rule1')
  for (const head of ['main', 'alice:main', 'ALICE:main']) t.equal((await tryOpen(head)).status, 422, head)
})

t.test(
  'pulls.create.2: a head is <branch> or <user>:<branch>, other numbers of parts give 404',
  async (t) => {
    const { tryOpen, branches } = await repository(t, 'rule2')
    await branches('topic')
    for (const head of ['a:b:c', 'alice:topic:', ':topic', 'alice:', ':', '::']) {
      t.equal((await tryOpen(head)).status, 404, head)
    }
    t.equal((await tryOpen('Alice:topic')).status, 201)
  },
)

t.test(
  'pulls.create.2: head is "bob/p1:branch" and refs/heads/… as well; an empty head or base is 422',
  async (t) => {
    const { tryOpen, branches, fork, repoId, open } = await repository(t, 'full-names')
    await branches('topic', 'other', 'third')
    const own = await fork('bob', 'p1')
    await own.branches('branch', 'next')
    t.match(await tryOpen('bob/p1:branch', {}, 'bob'), {
      status: 201,
      body: { head: { ref: 'branch', repo_id: own.repoId, repo: { full_name: 'bob/p1' } } },
    })
    t.match(await tryOpen('BOB/P1:refs/heads/next', {}, 'bob'), {
      status: 201,
      body: { head: { ref: 'next' } },
    })
    t.match(await tryOpen('alice/full-names:topic'), {
      status: 201,
      body: { head: { ref: 'topic', repo_id: repoId } },
    })
    const full = await tryOpen('refs/heads/other', { base: 'refs/heads/main' })
    t.match(full, { status: 201, body: { head: { ref: 'other' }, base: { ref: 'main' } } })
    t.equal((await tryOpen('other')).status, 409, 'a full name is not another branch')
    t.equal((await tryOpen('main', { base: 'refs/heads/main' })).status, 422, 'pulls.create.1')

    const another = await repository(t, 'no-fork')
    await another.branches('topic')
    for (const head of [
      'alice/no-fork:topic',
      'bob/nothing:branch',
      'nobody/p1:branch',
      'bob/p1/x:branch',
      '/:x',
    ]) {
      t.match(await tryOpen(head), { status: 404, message: /^head: / }, head)
    }
    await call('bob', 'PATCH', 'repos/bob/p1', { private: true })
    const secret = await tryOpen('bob/p1:next', {}, 'alice')
    const nothing = await tryOpen('bob/nothing:next', {}, 'alice')
    t.strictSame([secret.status, nothing.status], [404, 404])
    t.equal(secret.message.replace('p1', 'nothing'), nothing.message, 'a private fork is not told from none')
    t.match(await tryOpen('', {}), { status: 422, message: /^head: / })
    t.match(await tryOpen('third', { base: '' }), { status: 422, message: /^base: / })
    t.equal(await open('third'), 5, 'what was refused took no number')
  },
)

t.test('pulls.create.2: <user>:<branch> is a branch of the fork that the user has', async (t) => {
  const { work, repoId, openPull, fork, tip } = await repository(t, 'forked')
  const own = await fork('bob', 'of-another-name')
  const sha = await own.branch('idea', { 'of-bob': 'x\n' })
  const pull = await openPull('bob:idea', {}, 'bob')
  t.match(pull, {
    user: { login: 'bob' },
    head: { ref: 'idea', sha, repo_id: own.repoId, repo: { full_name: 'bob/of-another-name' } },
    base: { ref: 'main', repo_id: repoId },
    changed_files: 1,
    mergeable: true,
    merge_base: await work.git('rev-parse', 'main'),
  })
  t.equal(await tip('refs/pull/1/head'), sha)
})

t.test('pulls.create.3: an unknown branch or repository gives 404', async (t) => {
  const { tryOpen, branches, milestone } = await repository(t, 'missing')
  await branches('topic')
  t.equal((await tryOpen('nobody:topic')).status, 404, 'an unknown head user')
  t.equal((await tryOpen('bob:topic')).status, 404, 'a user without a fork')
  t.equal((await tryOpen('topic', { base: 'nowhere' })).status, 404, 'no base branch')
  t.equal((await tryOpen('nowhere')).status, 404, 'no head branch')
  for (const odd of [
    '../main',
    'refs/tags/topic',
    'refs/heads/',
    '-x',
    'a b',
    '@{-1}',
    'topic~1',
    'HEAD',
    '\u0000',
  ]) {
    t.equal((await tryOpen(odd)).status, 404, `head ${odd}`)
    t.equal((await tryOpen('topic', { base: odd })).status, 404, `base ${odd}`)
  }
  const elsewhere = await repository(t, 'elsewhere')
  t.equal((await tryOpen('topic', { milestone: await elsewhere.milestone('Other') })).status, 404)
  t.equal((await tryOpen('topic', { milestone: 9_000_000 })).status, 404)
  t.equal((await tryOpen('topic', { milestone: -1 })).status, 404)
  const option = { head: 'topic', base: 'main', title: 'T' }
  t.equal((await call('alice', 'POST', 'repos/alice/nowhere/pulls', option)).status, 404, 'no repository')
  await alice.user.createCurrentUserRepo({ name: 'barren' })
  t.equal((await call('alice', 'POST', 'repos/alice/barren/pulls', option)).status, 404, 'no commits')
  t.equal((await call('alice', 'POST', 'repos/alice/barren/pulls', { ...option, base: 'x' })).status, 404)
  const { body } = await tryOpen('topic', { milestone: await milestone('Own') })
  t.equal(body.number, 1, 'what was refused took no number')
  t.equal(body.milestone.title, 'Own')
})

t.test('pulls.create.3: base: branch master not found; the default branch is main', async (t) => {
  const { tryOpen, open, branches, edit } = await repository(t, 'base-missing')
  await branches('topic')
  const message = 'base: branch master not found; the default branch is main'
  t.match(await tryOpen('topic', { base: 'master' }), { status: 404, message })
  t.match(await tryOpen('gone'), { status: 404, message: 'head: branch gone not found' })
  await open('topic')
  t.match(await edit(1, { base: 'master' }), { status: 404, message }, 'also for another base')
})

t.test('pulls.create.3: a repository that the requester may not read gives 404', async (t) => {
  const { tryOpen, branches } = await repository(t, 'secret', { private: true })
  await branches('topic')
  t.equal((await tryOpen('topic', {}, 'bob')).status, 404, 'no reader of the base')
  t.equal((await tryOpen('topic', {}, null)).status, 404, 'anonymous')

  const shared = await repository(t, 'shared')
  await shared.branches('topic', 'other')
  await (await shared.fork('dave')).branch('idea', { 'of-dave': 'x\n' })
  await call('dave', 'PATCH', 'repos/dave/shared', { private: true })
  t.equal((await shared.tryOpen('dave:idea', {}, 'bob')).status, 404, 'no reader of the head')
  t.equal((await shared.tryOpen('dave:idea', {}, 'alice')).status, 404, 'not even the owner of the base')
  t.equal((await shared.tryOpen('topic', {}, null)).status, 401, 'a reader must sign in')
  t.equal((await shared.tryOpen('topic', {}, 'bob')).status, 201, 'a reader may')
  const { body } = await shared.tryOpen('dave:idea', {}, 'dave')
  t.equal(body.head.repo.full_name, 'dave/shared')
  const seen = (await call('alice', 'GET', `repos/alice/shared/pulls/${body.number}`)).body
  t.match(seen.head, { ref: 'idea', repo: null, repo_id: -1 }, 'others are not told of the private fork')
})

t.test('pulls.create.4: an open duplicate gives 409 with its number', async (t) => {
  const { tryOpen, open, branches, merge } = await repository(t, 'rule4')
  await branches('topic', 'other')
  await open('other')
  t.equal(await open('topic'), 2)
  const twin = await tryOpen('alice:topic', { title: 'Twin' })
  t.equal(twin.status, 409)
  t.match(twin.body.message, /#2\b/)
  t.equal((await tryOpen('topic', { base: 'other' })).status, 201, 'another base is not a duplicate')
  t.equal((await merge(2)).status, 200)
  await branches('topic')
  t.equal((await tryOpen('topic')).status, 201, 'a merged one is not a duplicate')
})

t.test(
  'pulls.create.4: a closed pull request does not block its pair of branches; reopening beside an open duplicate gives 409',
  async (t) => {
    const { tryOpen, open, branches, edit, get, call, changes, close } = await repository(t, 'closed-twin')
    await branches('topic', 'next')
    t.equal(await open('topic'), 1)
    await close(1)
    t.equal(await open('topic'), 2, 'another one from the same branch')
    const before = await changes(1)
    for (const path of ['pulls/1', 'issues/1']) {
      const refused = await call('alice', 'PATCH', path, { state: 'open', title: 'Opened' })
      t.match(refused, { status: 409, message: /#2\b/ }, path)
    }
    t.match(await get(1), { state: 'closed', title: 'From topic' })
    t.strictSame(await changes(1), before)
    t.equal(await open('topic', { base: 'next' }), 3)
    t.match(await edit(3, { base: 'main' }), { status: 409, message: /#2\b/ }, 'a change of base onto one')

    t.equal((await call('alice', 'PATCH', 'issues/2', { state: 'closed' })).status, 201)
    t.equal((await call('alice', 'PATCH', 'issues/1', { state: 'open' })).status, 201)
    t.match(await tryOpen('topic'), { status: 409, message: /#1\b/ }, 'it has the pair again')
    t.match(await edit(2, { state: 'open' }), { status: 409, message: /#1\b/ })
    await close(1)
    t.equal((await edit(3, { base: 'main' })).status, 201, 'a closed one does not hold a base')
    t.match(await edit(1, { state: 'open' }), { status: 409, message: /#3\b/ })
    t.equal((await edit(3, { base: 'next' })).status, 201)
    t.equal((await edit(1, { state: 'open' })).status, 201)
  },
)

t.test('pulls.create.4: of a reopening and ten duplicates at the same time, one succeeds', async (t) => {
  const { tryOpen, branches, open, close, edit, call, name } = await repository(t, 'reopened-twin')
  await branches('topic')
  const index = await open('topic')
  for (let round = 0; round < 3; round++) {
    const shown = await call('alice', 'GET', 'pulls?state=open')
    for (const { number } of shown.body) await close(number)
    const answers = await Promise.all([
      edit(index, { state: 'open' }),
      ...Array.from({ length: 10 }, () => tryOpen('topic')),
    ])
    t.strictSame(statusesOf(answers), [201, ...Array(10).fill(409)], name)
  }
})

t.test(
  'pulls.create.4: an open duplicate (409) is found before unknown assignees (422) or milestones (404), in the order of the rules',
  async (t) => {
    const { tryOpen, open, branches } = await repository(t, 'order')
    await branches('topic', 'other')
    await open('topic')
    const unknown = { milestone: 9_000_000, assignees: ['nobody'] }
    t.match(await tryOpen('topic', unknown), { status: 409, message: /#1\b/ })
    t.match(await tryOpen('other', unknown), { status: 404, message: /^milestone/ })
    t.match(await tryOpen('other', { assignees: ['nobody'] }), { status: 422, message: /^assignees/ })
    t.equal((await tryOpen('main', unknown)).status, 422, 'pulls.create.1 comes before pulls.create.3')
    t.match(await tryOpen('nowhere', unknown), { status: 404, message: /nowhere/ })
    t.equal((await tryOpen('other')).body.number, 2, 'what was refused took no number')
  },
)

t.test(
  'pulls.create.4: of 20 duplicates at the same time, one gives 201 and nineteen give 409',
  async (t) => {
    const { tryOpen, branches, fork } = await repository(t, 'twins')
    await branches('topic')
    const own = await fork('bob')
    await own.branch('idea', { 'of-bob': 'x\n' })
    for (const head of ['topic', 'bob:idea']) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => tryOpen(head)))
      t.strictSame(statusesOf(answers), [201, ...Array(19).fill(409)], head)
    }
    const { body } = await call('alice', 'GET', 'repos/alice/twins/pulls?state=all')
    t.strictSame(
      body.map(({ head }: { head: { repo_id: number; ref: string } }) => head.ref),
      ['idea', 'topic'],
    )
    t.equal(body[0].head.repo_id, own.repoId)
  },
)

t.test(
  'issues.create.5: labels are those of the repository and of the organization that owns it',
  async (t) => {
    await alice.orgs.orgCreate({ username: 'crew' })
    await alice.orgs.createOrgRepo('crew', { name: 'app', auto_init: true })
    const work = await workTree(t, server.gitUrl('alice', 'crew/app'))
    await work.git('checkout', '-q', '-b', 'topic')
    await work.commit('A commit', { a: 'a\n' })
    await work.git('push', '-q', 'origin', 'topic')
    const color = '#00aabb'
    const own = (await alice.repos.issueCreateLabel('crew', 'app', { name: 'own', color })).data.id ?? 0
    const shared = (await alice.orgs.orgCreateLabel('crew', { name: 'shared', color })).data.id ?? 0
    const stranger = await (await repository(t, 'rule5')).label('stranger')
    const labels = [shared, stranger, own, 8_000_000, -1, 0, own]
    const option = { head: 'topic', base: 'main', title: 'Labelled', labels }
    const { status, body } = await call('alice', 'POST', 'repos/crew/app/pulls', option)
    t.equal(status, 201)
    t.strictSame(
      body.labels.map(({ name }: { name: string }) => name).sort(),
      ['own', 'shared'],
      'others are left out',
    )
    const listed = async (query: string) =>
      (await call('alice', 'GET', `repos/crew/app/pulls?${query}`)).body.length
    t.equal(await listed(`labels=${own}&labels=${shared}`), 1)
    t.equal(await listed(`labels=${stranger}`), 0)
  },
)

t.test('pulls.create.5: a poster without write access sets labels, milestone and assignees', async (t) => {
  const { fork, label, milestone, openPull } = await repository(t, 'rule5-fork', { writers: ['carol'] })
  await (await fork('bob')).branch('idea', { idea: 'x\n' })
  const [labelId, milestoneId] = [await label('bug'), await milestone('1.0')]
  const fields = { labels: [labelId], milestone: milestoneId, assignees: ['carol'] }
  t.match(await openPull('bob:idea', fields, 'bob'), {
    labels: [{ id: labelId }],
    milestone: { id: milestoneId },
    assignees: [{ login: 'carol' }],
  })
})

t.test('issues.create.3: assignees come from assignee and assignees, each once', async (t) => {
  const { branches, openPull } = await repository(t, 'rule6', { writers: ['carol'] })
  await branches('topic', 'other')
  const pull = await openPull('topic', { assignee: 'Carol', assignees: ['alice', 'CAROL', 'admin'] })
  t.strictSame(named(pull.assignees), ['carol', 'alice', 'admin'])
  t.equal(pull.assignee?.login, 'carol')
  const none = await openPull('other', { assignee: '', assignees: [] })
  t.strictSame([none.assignee, none.assignees], [null, []])
})

t.test('issues.create.3: unknown and unassignable users give 422, those without access 400', async (t) => {
  await alice.orgs.orgCreate({ username: 'guild' })
  const { tryOpen, branches } = await repository(t, 'rule6-refused', { writers: ['carol'] })
  await branches('topic')
  for (const login of ['nobody', 'guild', 'bob', ':']) {
    const { status, body } = await tryOpen('topic', { assignees: ['carol', login] })
    t.equal(status, 422, login)
    t.match(body.message, /^assignees: /)
  }
  t.equal((await tryOpen('topic', { assignee: 'nobody' })).status, 422)
  t.equal((await tryOpen('topic', { assignees: 'carol' })).status, 422, 'no list')
  const hidden = await repository(t, 'rule6-private', { private: true, writers: ['carol'] })
  await hidden.branches('topic')
  t.equal((await hidden.tryOpen('topic', { assignees: ['bob'] })).status, 400)
  t.equal((await hidden.tryOpen('topic', { assignees: ['nobody'] })).status, 422)
  t.strictSame(named((await hidden.openPull('topic', { assignees: ['carol'] })).assignees), ['carol'])
})

t.test('create: reviewers and team_reviewers are asked for reviews, with the first event', async (t) => {
  await alice.orgs.orgCreate({ username: 'makers' })
  await alice.orgs.createOrgRepo('makers', { name: 'app', auto_init: true, private: true })
  const units = ['repo.code', 'repo.issues', 'repo.pulls']
  const team = { name: 'core', permission: 'write', includes_all_repositories: true, units } as const
  const { id = 0 } = (await alice.orgs.orgCreateTeam('makers', team)).data
  for (const login of ['bob', 'carol']) await alice.teams.orgAddTeamMember(id, login)
  const work = await workTree(t, server.gitUrl('alice', 'makers/app'))
  await work.git('checkout', '-q', '-b', 'topic')
  await work.commit('A commit', { a: 'a\n' })
  await work.git('push', '-q', 'origin', 'topic')
  const open = (option: object) =>
    call('alice', 'POST', 'repos/makers/app/pulls', { head: 'topic', base: 'main', title: 'T', ...option })

  const refused: [object, number, RegExp][] = [
    [{ reviewers: ['nobody'] }, 404, /user not found/],
    [{ reviewers: ['alice'] }, 422, /^reviewers: alice /],
    [{ reviewers: ['dave'] }, 422, /^reviewers: dave may not read/],
    [{ team_reviewers: ['unknown'] }, 404, /team not found/],
    [{ reviewers: 'bob' }, 422, /reviewers/],
  ]
  for (const [option, status, message] of refused) {
    t.match(await open(option), { status, message }, JSON.stringify(option))
  }
  const { status, body } = await open({ reviewers: ['Bob', 'bob', ''], team_reviewers: ['core'] })
  t.match([status, body.number], [201, 1], 'what was refused took no number')
  t.strictSame(named(body.requested_reviewers), ['bob'])
  t.match(body.requested_reviewers_teams, [{ name: 'core' }])
  const asked = await call('alice', 'GET', 'repos/makers/app/pulls/1/reviews')
  t.match(asked.body, [
    { state: 'REQUEST_REVIEW', user: { login: 'bob' }, official: true },
    { state: 'REQUEST_REVIEW', team: { name: 'core' } },
  ])
  t.equal((await call('alice', 'PATCH', 'repos/makers/app/pulls/1', { state: 'closed' })).status, 201)
  const none = { reviewers: null, team_reviewers: [] }
  t.match(await open(none), { status: 201, body: { number: 2 } })
})

t.test('pulls.edit.7: a new pull request may set allow_maintainer_edit by the same rule', async (t) => {
  const { tryOpen, branches, fork, changes, id } = await repository(t, 'edits')
  const own = await fork('bob')
  await own.branches('yes', 'no', 'null', 'reader')
  await branches('topic')
  const flag = (allowed: boolean | null) => ({ allow_maintainer_edit: allowed })
  t.match(await tryOpen('bob:yes', flag(true), 'bob'), { status: 201, body: flag(true) })
  t.strictSame(await changes(1), [{ type: 'MaintainerEditChanged', data: { ...id(1), allowed: true } }])
  t.match(await tryOpen('bob:null', flag(null), 'bob'), { status: 201, body: flag(false) })
  await alice.repos.repoEdit('alice', 'edits', { default_allow_maintainer_edit: true })
  t.match(await tryOpen('bob:no', flag(false), 'bob'), { status: 201, body: flag(false) })
  const refused = await tryOpen('bob:reader', flag(true), 'dave')
  t.match(refused, { status: 403, message: /^allow_maintainer_edit: / }, 'a poster who may not push there')
  t.equal((await tryOpen('topic', flag(true), 'dave')).status, 403)
  t.match(await tryOpen('topic', flag(true)), { status: 201, body: { number: 4, ...flag(true) } })
})

t.test(
  'deadline.1: at creation, a deadline is the end of its day in the zone in which it is given',
  async (t) => {
    const { tryOpen, branches } = await repository(t, 'deadlines')
    const given: [object, string | null][] = [
      [{ due_date: '2027-02-28T00:00:00Z' }, '2027-02-28T23:59:59Z'],
      [{ due_date: '2027-02-28T23:30:00-11:00' }, '2027-02-28T23:59:59-11:00'],
      [{ deadline: '2027-02-28t01:02:03.456+05:30' }, '2027-02-28T23:59:59+05:30'],
      [{ due_date: '0001-01-01T00:00:00Z' }, null],
      [{ due_date: '0001-01-01T00:00:00.000+00:00' }, null],
      [{ due_date: null, deadline: null }, null],
      [{}, null],
    ]
    await branches(...given.map((_, i) => `d${i}`))
    for (const [i, [option, stored]] of given.entries()) {
      const { status, body } = await tryOpen(`d${i}`, option)
      t.strictSame([status, body.due_date], [201, stored], JSON.stringify(option))
    }
    await branches('never')
    for (const odd of [
      'tomorrow',
      '2027-02-30T00:00:00Z',
      '2027-02-28',
      '2027-02-28T00:00:00',
      5,
      {},
      '2027',
    ]) {
      t.equal((await tryOpen('never', { due_date: odd })).status, 422, `${odd}`)
      t.equal((await tryOpen('never', { deadline: odd })).status, 422, `${odd}`)
    }
  },
)

t.test('issues.create.7: too many labels or assignees, and blank or long titles, give 422', async (t) => {
  const { tryOpen, branches, work, openPull } = await repository(t, 'bounds')
  await branches('topic')
  const many = Array.from({ length: 2000 }, (_, i) => i + 1)
  t.equal((await tryOpen('topic', { labels: many })).status, 422)
  t.equal((await tryOpen('topic', { assignees: many.map((i) => `user${i}`) })).status, 422)
  for (const title of ['', ' \t\n', '\u0000', null, undefined, 'x'.repeat(256), 5]) {
    t.equal((await tryOpen('topic', { title })).status, 422, `${title}`)
  }
  for (const odd of [{ labels: [1.5] }, { labels: ['1'] }, { milestone: '1' }, { head: null }, { base: 3 }]) {
    t.equal((await tryOpen('topic', odd)).status, 422, JSON.stringify(odd))
  }
  await work.git('checkout', '-q', '--orphan', 'stranger')
  await work.commit('Another first commit', { b: 'b' })
  await work.git('push', '-q', 'origin', 'stranger')
  t.equal((await tryOpen('stranger')).status, 422, 'histories with nothing in common')
  t.equal(
    (await openPull('topic', { title: '  Trimmed \r\nto\u0000one line ' })).title,
    'Trimmed  to one line',
  )
})

t.test('api.fields.2: null is the same as absent, as Go clients send it', async (t) => {
  const { tryOpen, branches } = await repository(t, 'nulls')
  await branches('topic')
  const nothing = {
    body: null,
    labels: null,
    milestone: null,
    assignee: null,
    assignees: null,
    due_date: null,
    deadline: null,
  }
  const { status, body } = await tryOpen('topic', nothing)
  t.equal(status, 201)
  t.match(body, { body: '', labels: [], milestone: null, assignee: null, assignees: [], due_date: null })
})

t.test('create: the event has all fields, and the counters follow', async (t) => {
  const { branches, milestone, label, counts, changes, repoId, work, openPull, eventsOf } = await repository(
    t,
    'events',
    { writers: ['carol'] },
  )
  const sha = await branches('topic')
  const [milestoneId, labelId] = [await milestone('1.0'), await label('bug')]
  const pull = await openPull('topic', {
    title: 'All of it',
    body: 'Why',
    labels: [labelId],
    milestone: milestoneId,
    assignees: ['carol'],
    due_date: '2027-05-06T07:08:09+02:00',
  })
  const main = await work.git('rev-parse', 'main')
  const [opened] = await eventsOf(1)
  t.strictSame(await changes(1), [])
  t.match(opened, {
    type: 'PullRequestOpened',
    data: {
      repoId,
      index: 1,
      id: pull.id,
      poster: { login: 'alice' },
      title: 'All of it',
      body: 'Why',
      head: { repoId, branch: 'topic', sha },
      base: { repoId, branch: 'main', sha: main },
      mergeBase: main,
      diff: { additions: 1, deletions: 0, changedFiles: 1 },
      mergeable: true,
      labels: [{ id: labelId, name: 'bug' }],
      milestone: { id: milestoneId, title: '1.0' },
      assignees: [{ login: 'carol' }],
      deadline: '2027-05-06T23:59:59+02:00',
    },
  })
  t.strictSame(await counts(milestoneId), [1, 0])
  t.equal((await alice.repos.repoGet('alice', 'events')).data.open_pr_counter, 1)
  const { body } = await call('bob', 'GET', 'repos/alice/events/pulls/1')
  t.strictSame({ ...body, base: 0, head: 0 }, { ...pull, base: 0, head: 0 })
})
