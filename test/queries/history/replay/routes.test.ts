import t from 'tap'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import { issueStream, pullStream } from '../../../../src/events/streams.ts'
import { startPulls } from '../../../commands/pull-requests/pull-repository.ts'
import { appendMany } from '../../../stores.ts'
import { until } from '../../../until.ts'
import { recordAnswersOf, withoutCounters } from './recorded-answers.ts'

const { server, call, repository } = await startPulls(t)

type Life = ReturnType<typeof recordAnswersOf>

/** A request that must succeed. */
async function must(login: string, method: string, path: string, option?: object) {
  const answer = await call(login, method, path, option)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
  return answer.body
}

/** Resolves when the disk usage of these repositories is stable. */
const areMeasured = (...repoIds: number[]) =>
  until('they are measured', async () => {
    const usages = await Promise.all(repoIds.map((id) => server.services.diskUsage.get(id)))
    return usages.every((usage) => usage?.pending === false)
  })

/** Replays every moment, by revision and by time, and compares it with the recorded answer of GET. */
async function replaysAll(test: Pick<typeof t, 'strictSame' | 'equal' | 'ok'>, { moments, ask }: Life) {
  for (const { step, revision, at, changed, answers } of moments) {
    for (const { kind, body } of answers) {
      const byTime = await ask(kind, `/replay?at=${at}`)
      test.strictSame(withoutCounters(byTime.body), withoutCounters(body), `${kind} at the time of: ${step}`)
      test.equal(byTime.headers.get('mergelog-revision'), `${revision}`, step)
      // Renaming a label makes no revision of the issues that have it.
      if (!changed) continue
      const { status, body: replayed, headers } = await ask(kind, `/replay?revision=${revision}`)
      test.equal(status, 200)
      test.strictSame(withoutCounters(replayed), withoutCounters(body), `${kind} at the revision of: ${step}`)
      test.equal(headers.get('mergelog-revision'), `${revision}`)
      test.ok((headers.get('mergelog-at') ?? '~') <= at, 'the event is of that time or before')
    }
  }
}

t.test(
  'replay: gives a pull request at every revision, and at every time, as GET answered it then',
  async (t) => {
    const app = await repository(t, 'app', { writers: ['carol'] })
    let path = 'alice/app'
    const at = (rest: string) => `repos/${path}/${rest}`
    await app.branch('release', { r: 'r' })
    const bobs = await app.fork('bob')
    await bobs.branch('topic', { a: 'a\n' }, 'origin/main')
    const bug = await app.label('bug')
    const gone = await app.label('gone')
    const milestone = await app.milestone('1.0')
    const index = await app.open('bob:topic', { labels: [bug], assignees: ['carol'] }, 'bob')

    const life = recordAnswersOf(server, {
      stream: pullStream(app.repoId, index),
      index,
      kinds: ['pulls', 'issues'],
      path: () => path,
    })
    const { step } = life
    const edit = (option: object) => must('alice', 'PATCH', at(`pulls/${index}`), option)
    await step('opened')
    await step('title', () => edit({ title: 'WIP: a title' }))
    await step('title and body', () => edit({ title: 'A title', body: 'Words' }))
    await step('labels', () => edit({ labels: [bug, gone] }))
    await step('milestone', () => edit({ milestone }))
    await step('assignees', () => edit({ assignees: ['alice', 'carol'] }))
    await step('deadline', () => edit({ due_date: '2026-03-04T05:06:07Z' }))
    await step('comment', () => must('carol', 'POST', at(`issues/${index}/comments`), { body: 'Hm' }))
    let comment = 0
    await step('another', async () => {
      comment = (await must('bob', 'POST', at(`issues/${index}/comments`), { body: 'Oh' })).id
    })
    await step('comment edited', () => must('bob', 'PATCH', at(`issues/comments/${comment}`), { body: 'Ah' }))
    await step('comment deleted', () => must('bob', 'DELETE', at(`issues/comments/${comment}`)))
    await step('pushed', async () => {
      await bobs.commit('More', { b: 'b\nb\n' })
      await bobs.push('topic')
    })
    await step('base pushed', () => app.branch('main', { c: 'c' }, 'origin/main'))
    await step('label renamed', () => must('alice', 'PATCH', at(`labels/${bug}`), { name: 'defect' }))
    await step('label gone', () => must('alice', 'DELETE', at(`labels/${gone}`)))
    await step('milestone closed', () =>
      must('alice', 'PATCH', at(`milestones/${milestone}`), { state: 'closed', title: '1.0.0' }),
    )
    await step('closed', () => edit({ state: 'closed' }))
    await step('description', () => must('alice', 'PATCH', 'repos/alice/app', { description: 'An app' }))
    await step('reopened', () => edit({ state: 'open' }))
    await step('maintainer edits', () =>
      must('bob', 'PATCH', at(`pulls/${index}`), { allow_maintainer_edit: true }),
    )
    await step('retargeted', () => edit({ base: 'release' }))
    await step('fork renamed', () => must('bob', 'PATCH', 'repos/bob/app', { name: 'app-of-bob' }))
    await step('base renamed', async () => {
      await must('alice', 'PATCH', 'repos/alice/app', { name: 'application', allow_rebase: false })
      path = 'alice/application'
    })
    await step('no deadline, no milestone', () => edit({ unset_due_date: true, milestone: 0 }))
    const { head } = await must('alice', 'GET', at(`pulls/${index}`))
    await step('scheduled', async () => {
      await must('alice', 'POST', at(`statuses/${head.sha}`), { state: 'pending', context: 'ci' })
      await must('alice', 'POST', at(`pulls/${index}/merge`), {
        Do: 'merge',
        merge_when_checks_succeed: true,
      })
    })
    await step('canceled', () => must('alice', 'DELETE', at(`pulls/${index}/merge`)))
    await step('merged', async () => {
      await must('alice', 'POST', at(`statuses/${head.sha}`), { state: 'success', context: 'ci' })
      await must('alice', 'POST', at(`pulls/${index}/merge`), { Do: 'merge' })
    })
    await step('comment after all', () =>
      must('carol', 'POST', at(`issues/${index}/comments`), { body: '!' }),
    )
    await step('milestone gone', () => must('alice', 'DELETE', at(`milestones/${milestone}`)))
    await step('secret', async () => {
      const fork = 'repos/bob/app-of-bob'
      await must('bob', 'PUT', `${fork}/collaborators/alice`, { permission: 'read' })
      await must('alice', 'PATCH', at('').slice(0, -1), { private: true })
      await until('its fork is secret, too', async () => (await must('bob', 'GET', fork)).private === true)
    })

    const last = life.moments.at(-1)?.revision ?? 0
    t.ok(new Set(life.moments.map(({ revision }) => revision)).size > 18, 'a long life')
    await replaysAll(t, life)

    for (const kind of ['pulls', 'issues']) {
      for (let revision = 0; revision <= last; revision++) {
        const { status, headers } = await life.ask(kind, `/replay?revision=${revision}`)
        t.equal(status, 200, `${kind} ${revision}`)
        t.equal(headers.get('mergelog-revision'), `${revision}`)
      }
      await areMeasured(app.repoId, bobs.repoId)
      const now = await life.ask(kind)
      const replayed = await life.ask(kind, `/replay?at=${new Date().toISOString()}`)
      t.strictSame(replayed.body, now.body, 'the last moment is equal to the present answer, with counters')
      t.equal(replayed.headers.get('mergelog-revision'), `${last}`)
      const { status } = await life.ask(kind, '/replay?revision=0', 'dave')
      t.equal(status, 404, 'the present rights apply')
    }

    await t.test('replay: the head repository is shown to its current readers', async (t) => {
      const headOf = async (query: string) => (await life.ask('pulls', query)).body
      t.match(await headOf('/replay?revision=0'), { head: { repo: { full_name: 'bob/app' } } })
      await must('bob', 'DELETE', 'repos/bob/app-of-bob/collaborators/alice')
      t.match(await headOf('/replay?revision=0'), { head: { repo: null, repo_id: -1 } })
      t.match(await headOf(''), { head: { repo: null, repo_id: -1 } })
      await must('bob', 'DELETE', 'repos/bob/app-of-bob')
      t.match(await headOf('/replay?revision=0'), { head: { repo: null } })
    })
  },
)

t.test('replay: a repository has its current numbers of stars and watchers', async (t) => {
  const starred = await repository(t, 'starred')
  await starred.branch('topic', { a: 'a\n' })
  const index = await starred.open('topic', { title: 'A' })
  const thing = { stream: pullStream(starred.repoId, index), index, kinds: [], path: () => 'alice/starred' }
  const { ask } = recordAnswersOf(server, thing)
  await must('bob', 'PUT', 'user/starred/alice/starred')
  await must('carol', 'PUT', 'repos/alice/starred/subscription')
  const repo = { stars_count: 1, watchers_count: 1 }
  t.match((await ask('pulls')).body, { base: { repo } })
  t.match((await ask('pulls', '/replay?revision=0')).body, { base: { repo }, head: { repo } })
})

t.test('replay: gives an issue at every revision and every time as GET answered then', async (t) => {
  const tracker = await repository(t, 'tracker', { writers: ['carol'] })
  let path = 'alice/tracker'
  const at = (rest: string) => `repos/${path}/${rest}`
  const [easy, hard] = [await tracker.label('easy'), await tracker.label('hard')]
  const [first, second] = [await tracker.milestone('first'), await tracker.milestone('second')]
  const opened = { title: 'Broken', body: 'It is', labels: [easy], milestone: first, assignees: ['carol'] }
  await must('alice', 'POST', at('issues'), { title: 'Before' })
  const { number: index } = await must('bob', 'POST', at('issues'), { title: 'Broken', body: 'It is' })
  const life = recordAnswersOf(server, {
    stream: issueStream(tracker.repoId, index),
    index,
    kinds: ['issues'],
    path: () => path,
  })
  const { step } = life
  const edit = (option: object) => must('alice', 'PATCH', at(`issues/${index}`), option)
  await step('opened')
  await step('milestone', () => edit({ milestone: opened.milestone }))
  await step('assigned', () => edit({ assignees: opened.assignees }))
  await step('labels', () => must('alice', 'PUT', at(`issues/${index}/labels`), { labels: [easy, hard] }))
  await step('label edited', () => must('alice', 'PATCH', at(`labels/${easy}`), { color: '#123456' }))
  await step('other milestone', () =>
    edit({ milestone: second, title: 'Fixed?', due_date: '2027-01-01T00:00:00Z' }),
  )
  await step('milestone gone', () => must('alice', 'DELETE', at(`milestones/${second}`)))
  await step('depends', () =>
    must('alice', 'POST', at(`issues/${index}/dependencies`), { owner: 'alice', repo: 'tracker', index: 1 }),
  )
  await step('no longer', () =>
    must('alice', 'DELETE', at(`issues/${index}/dependencies`), {
      owner: 'alice',
      repo: 'tracker',
      index: 1,
    }),
  )
  await step('closed', () => edit({ state: 'closed' }))
  await step('repository renamed', async () => {
    await must('alice', 'PATCH', 'repos/alice/tracker', { name: 'issues' })
    path = 'alice/issues'
  })
  await step('reopened', () => edit({ state: 'open' }))
  await step('label gone', () => must('alice', 'DELETE', at(`labels/${hard}`)))
  await replaysAll(t, life)
  const now = await life.ask('issues')
  const last = await life.ask('issues', `/replay?at=9999-12-31T23:59:59-12:00`)
  t.strictSame(last.body, now.body, 'a time far in the future')
})

t.test('replay/diff: names the changed fields, nested ones with dots; arrays are given whole', async (t) => {
  const app = await repository(t, 'diff')
  const bug = await app.label('bug')
  const [first, second] = [await app.milestone('first'), await app.milestone('second')]
  await app.branch('topic', { a: 'a\n' })
  const index = await app.open('topic', { title: 'A' })
  const life = recordAnswersOf(server, {
    stream: pullStream(app.repoId, index),
    index,
    kinds: ['pulls'],
    path: () => 'alice/diff',
  })
  const states: Record<string, number> = {}
  const step = async (name: string, act: () => Promise<unknown> = async () => {}) => {
    await life.step(name, act)
    states[name] = await life.revision()
  }
  await step('opened')
  await step('labelled', () => app.edit(index, { title: 'B', labels: [bug] }))
  await step('milestone', () => app.edit(index, { milestone: first }))
  await step('another', () => app.edit(index, { milestone: second }))
  await step('pushed', async () => {
    await app.commit('More', { b: 'b\n' })
    await app.push('topic')
  })
  const diff = async (from: string, to: string, kind = 'pulls') => {
    const query = `/replay/diff?from=${states[from]}&to=${states[to]}`
    const { status, body } = await life.ask(kind, query)
    t.equal(status, 200)
    if (typeof body !== 'object' || body === null || !('changes' in body)) throw new Error('no diff')
    t.match(body, { from: states[from], to: states[to] })
    if (!Array.isArray(body.changes)) throw new Error('no changes')
    return body.changes.filter(({ field }) => field !== 'updated_at')
  }
  t.match(await diff('opened', 'labelled'), [
    { field: 'title', before: 'A', after: 'B' },
    { field: 'labels', before: [], after: [{ name: 'bug' }] },
  ])
  t.match(await diff('labelled', 'opened'), [
    { field: 'title', before: 'B', after: 'A' },
    { field: 'labels', before: [{ name: 'bug' }], after: [] },
  ])
  t.match(await diff('labelled', 'milestone'), [
    { field: 'milestone', before: null, after: { title: 'first' } },
  ])
  t.match(await diff('milestone', 'another'), [
    { field: 'milestone', before: { title: 'first' }, after: { title: 'second' } },
  ])
  const pushed = await diff('another', 'pushed')
  t.strictSame(
    pushed.map(({ field }) => field),
    ['additions', 'changed_files', 'head.sha'],
  )
  t.match(pushed[0], { before: 1, after: 2 })
  t.strictSame(await diff('pushed', 'pushed'), [])
  t.match(await diff('opened', 'labelled', 'issues'), [{ field: 'title' }, { field: 'labels' }])
})

t.test('replay: a moment out of range gives 404 with the range, an invalid moment 422', async (t) => {
  const app = await repository(t, 'range')
  const { number: index } = await must('alice', 'POST', 'repos/alice/range/issues', { title: 'A' })
  await must('alice', 'PATCH', `repos/alice/range/issues/${index}`, { title: 'B' })
  await app.branch('topic', { a: 'a' })
  const pull = await app.open('topic')
  const last = (await app.eventsOf(pull)).at(-1)
  const first = (await app.eventsOf(pull))[0]

  const things = [`issues/${index}`, `pulls/${pull}`, `issues/${pull}`]
  for (const thing of things) {
    const ask = (query: string) => call('alice', 'GET', `repos/alice/range/${thing}/replay${query}`)
    for (const query of [
      '?revision=-1',
      '?revision=-99999999999999999999999',
      '?revision=100',
      '?revision=99999999999999999999999999',
      '?at=1970-01-01T00:00:00Z',
      '?at=1970-01-01',
      '?at=0001-01-01T00:00:00%2B14:00',
      '?at=2001-02-03T04:05:06.789-12:00',
      '/diff?from=-1&to=0',
      '/diff?from=0&to=100',
      '/diff?from=100&to=0',
    ]) {
      const { status, message, errors } = await ask(query)
      t.equal(status, 404, `${thing} ${query}`)
      // The message also has the range, because many clients show only the message.
      t.match(
        message,
        /^there is nothing at that moment; revision: 0 to \d+; at: from 20\d\d-.*; the last event is of/,
      )
      t.match(errors, [/^revision: 0 to \d+$/, /^at: from 20\d\d-.*Z; the last event is of 20\d\d-.*Z$/])
    }
    for (const [query, field] of [
      ['', 'revision'],
      ['?revision=0&at=2026-01-01T00:00:00Z', 'at'],
      ['?revision=', 'revision'],
      ['?revision=one', 'revision'],
      ['?revision=1.5', 'revision'],
      ['?revision=1e3', 'revision'],
      ['?revision=0x1', 'revision'],
      ['?revision=0&revision=1', 'revision'],
      ['?at=', 'at'],
      ['?at=yesterday', 'at'],
      ['?at=2026-02-30', 'at'],
      ['?at=2026-1-1', 'at'],
      ['?at=2026-02-30T00:00:00Z', 'at'],
      ['?at=2026-01-01T00:00:00', 'at'],
      ['?at=2026-01-01T25:00:00Z', 'at'],
      ['/diff', 'from'],
      ['/diff?from=0', 'to'],
      ['/diff?from=0&to=x', 'to'],
      ['/diff?from=&to=0', 'from'],
    ] as const) {
      const { status, message } = await ask(query)
      t.equal(status, 422, `${thing} ${query}`)
      t.match(message, new RegExp(`^${field}: `), query)
    }
  }
  const range = `revision: 0 to ${last?.revision}`
  const times = `at: from ${first?.metadata.at}; the last event is of ${last?.metadata.at}`
  const today = `${last?.metadata.at}`.slice(0, 10)
  const byDay = await call('alice', 'GET', `repos/alice/range/pulls/${pull}/replay?at=${today}`)
  t.equal(byDay.status, 200, 'a date alone is accepted, and means the end of that day')
  t.equal(byDay.headers.get('mergelog-revision'), `${last?.revision}`)
  const { errors } = await call('alice', 'GET', `repos/alice/range/pulls/${pull}/replay?revision=1000`)
  t.strictSame(errors, [range, times])
  for (const path of [
    `range/pulls/${index}/replay`,
    'range/pulls/99/replay',
    'range/issues/x/replay',
    'nothing/pulls/1/replay',
  ]) {
    t.equal((await call('alice', 'GET', `repos/alice/${path}?revision=0`)).status, 404, path)
    t.equal((await call('alice', 'GET', `repos/alice/${path}/diff?from=0&to=0`)).status, 404, path)
  }
})

t.test('replay: a revision far after the end gives 404, also after a replay of a long history', async (t) => {
  const app = await repository(t, 'long')
  await app.branch('topic', { a: 'a' })
  const pull = await app.open('topic')
  const { number: index } = await must('alice', 'POST', 'repos/alice/long/issues', { title: 'A' })
  for (const [thing, number, stream] of [
    ['issues', index, issueStream(app.repoId, index)],
    ['pulls', pull, pullStream(app.repoId, pull)],
  ] as const) {
    const edits = Array.from({ length: 1100 }, (_, i): DomainEvent => {
      const titles = { oldTitle: `${i - 1}`, title: `${i}` }
      return { type: 'TitleChanged', data: { repoId: app.repoId, index: number, ...titles } }
    })
    await appendMany(server.services.events, stream, edits)
    const ask = (query: string) => call('alice', 'GET', `repos/alice/long/${thing}/${number}/replay${query}`)
    const first = await ask('?revision=1050')
    t.equal(first.status, 200)
    t.equal((await ask('?at=9999-12-31T23:59:59Z')).body.title, '1099')
    for (const far of [Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER, 99999999999999]) {
      for (const query of [
        `?revision=${far}`,
        `/diff?from=0&to=${far}`,
        `/diff?from=${far}&to=0`,
        `/diff?from=${far}&to=${far}`,
      ]) {
        const { status, errors } = await ask(query)
        t.equal(status, 404, `${thing} ${query}`)
        t.match(errors, [/^revision: 0 to 1\d\d\d$/])
      }
    }
    t.strictSame(withoutCounters((await ask('?revision=1050')).body), withoutCounters(first.body))
  }
})
