/** Every request with too large data for the log is refused before it has an effect. */
import t from 'tap'
import { append } from '../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import { claimKeys, claimStream, labelStream, numbersStream } from '../../src/events/streams.ts'
import { eventsIn } from '../commands/pull-requests/pull-repository.ts'
import { gitWithInput } from '../git-client.ts'
import { aContext } from '../stores.ts'
import { until } from '../until.ts'
import { EVENT_STORES, startOn } from './server-on-store.ts'

const LARGE = 'x'.repeat(1_100_000)
const CONTROL = '\u0001'.repeat(200_000)
/** The largest text that is allowed, of characters that take the most bytes: six each. */
const LARGEST = '\u0001'.repeat(65_536)
const WIDE = '標'

for (const store of EVENT_STORES) {
  t.test(`on ${store}`, async (t) => {
    const { server, repository, call } = await startOn(t, store)
    const { services } = server

    t.test('the largest allowed text is recorded everywhere', async (t) => {
      const own = await repository(t, 'largest')
      const head = await own.branch('topic', { 'a.txt': 'a\n' })
      const discussion = { title: WIDE.repeat(255), body: LARGEST }
      t.match(await own.call('alice', 'POST', 'issues', discussion), { status: 201, body: discussion })
      const opened = await own.tryOpen('topic', discussion)
      t.match(opened, { status: 201, body: discussion })
      const { number } = opened.body
      const comment = await own.call('alice', 'POST', `issues/${number}/comments`, { body: LARGEST })
      t.match(comment, { status: 201, body: { body: LARGEST } })
      const edited = await own.edit(number, { title: 'U'.repeat(255), body: LARGEST.slice(1) })
      t.match(edited, { status: 201, body: { body: LARGEST.slice(1) } })
      const merged = await own.merge(number, {
        MergeTitleField: WIDE.repeat(4000),
        MergeMessageField: LARGEST,
      })
      t.equal(merged.status, 200, merged.text)
      await own.work.git('fetch', '-q')
      t.equal(await own.work.git('rev-parse', 'origin/main^2'), head)
      const settings = { title: 'M', description: LARGEST }
      t.equal((await own.call('alice', 'POST', 'milestones', settings)).status, 201)
    })

    t.test(
      'upgrade plans, their modules and states: the largest are recorded, larger ones are 422',
      async (t) => {
        const put = (path: string, option: object) => call('admin', 'PUT', `admin/upgrade/${path}`, option)
        const plan = { name: 'v2', height: '100', info: '\u0001'.repeat(100_000) }
        t.equal((await put('plan', plan)).status, 200)
        t.match(await put('plan', { ...plan, info: LARGE }), { status: 422, message: /^info: / })
        const modules = (length: number, letter: string) => ({
          module_versions: Array.from({ length }, (_, i) => ({
            name: `${letter.repeat(900)}${i}`,
            version: '1',
          })),
        })
        const tooLarge = { status: 422, message: /^module_versions: / }
        t.match(await put('module_versions', modules(400, '\u0001')), tooLarge, 'control characters')
        t.match(await put('module_versions', modules(500, 'x')), tooLarge)
        t.equal((await put('module_versions', modules(400, 'x'))).status, 200)
        const state = (length: number) => ({ upgraded_consensus_state: 'A'.repeat(length) })
        t.equal((await put('consensus_states/5', state(1_000_000))).status, 200)
        t.match(await put('consensus_states/6', state(1_000_004)), { status: 422 })
      },
    )

    // Refusals happen before a write to any store.
    if (store !== 'EventStoreDB') return

    t.test('a body of 1.1 MB and 200 KB of control characters: 422 with field and limit', async (t) => {
      const own = await repository(t, 'texts')
      await own.branch('topic', { 'a.txt': 'a\n' })
      await own.open('topic')
      const created = await own.call('alice', 'POST', 'issues', { title: 'Small', body: 'small' })
      const { number } = created.body
      const { body: comment } = await own.call('alice', 'POST', `issues/${number}/comments`, {
        body: 'small',
      })
      const milestone = await own.milestone('M')
      const numbers = async () => (await eventsIn(server, numbersStream(own.repoId))).length
      const before = { numbers: await numbers(), last: await services.events.lastPosition() }
      const requests: [string, string, string, object][] = [
        ['POST', 'issues', 'body', { title: 'T' }],
        ['PATCH', `issues/${number}`, 'body', {}],
        ['PATCH', 'issues/1', 'body', {}],
        ['POST', `issues/${number}/comments`, 'body', {}],
        ['PATCH', `issues/comments/${comment.id}`, 'body', {}],
        ['POST', 'pulls', 'body', { title: 'T', head: 'topic', base: 'main' }],
        ['PATCH', 'pulls/1', 'body', {}],
        ['POST', 'milestones', 'description', { title: 'N' }],
        ['PATCH', `milestones/${milestone}`, 'description', {}],
        ['POST', 'labels', 'description', { name: 'l', color: '#aabbcc' }],
        ['POST', 'pulls/1/merge', 'MergeMessageField', { Do: 'merge' }],
        ['POST', 'pulls/1/merge', 'MergeTitleField', { Do: 'merge' }],
        ['POST', 'pulls/1/merge', 'MergeMessageField', { Do: 'merge', merge_when_checks_succeed: true }],
        ['POST', `statuses/${await own.tip('topic')}`, 'description', { state: 'success' }],
        ['POST', `statuses/${await own.tip('topic')}`, 'target_url', { state: 'success' }],
        ['POST', `statuses/${await own.tip('topic')}`, 'context', { state: 'success' }],
      ]
      for (const [method, path, field, option] of requests) {
        for (const text of [LARGE, CONTROL]) {
          const answer = await own.call('alice', method, path, {
            ...option,
            [field]: text,
          })
          const limit = new RegExp(`^${field}: must NOT have more than \\d+ characters`)
          t.match(answer, { status: 422, message: limit }, `${method} ${path} ${field}`)
        }
      }
      const described = await call('alice', 'PATCH', 'repos/alice/texts', { description: LARGE })
      t.match(described, { status: 422, message: /^description: / })
      t.equal(await numbers(), before.numbers, 'no number was taken')
      t.equal(await services.events.lastPosition(), before.last, 'nothing was recorded')
    })

    t.test('700 labels of 255 wide characters: 422 with field and limit, before a claim', async (t) => {
      const own = await repository(t, 'labels')
      await own.branch('topic', { 'a.txt': 'a\n' })
      const context = aContext()
      const ids = Array.from({ length: 700 }, (_, i) => 1_000_000 + i)
      const scope = { kind: 'repository', repoId: own.repoId } as const
      const create = (id: number) => {
        const name = `${WIDE.repeat(247)} ${id}`
        const look = { color: 'aabbcc', description: '', exclusive: false, archived: false }
        const created: DomainEvent = { type: 'LabelCreated', data: { id, scope, name, ...look } }
        return append(services, context, labelStream(id), 'create', [created], 'no-stream')
      }
      for (let i = 0; i < ids.length; i += 20) await Promise.all(ids.slice(i, i + 20).map(create))
      await until('the labels are there', () => services.projector.waitFor(context.written, 5000))
      const tooLarge = {
        status: 422,
        message: /^labels: its entries have \d+ bytes together, but may have at most 49152/,
      }
      t.match(await own.call('alice', 'POST', 'issues', { title: 'T', labels: ids }), tooLarge)
      t.match(await own.tryOpen('topic', { labels: ids }), tooLarge)
      t.equal((await own.tryOpen('topic', { labels: ids.slice(0, 50) })).status, 201, 'at once')
      t.match(await own.edit(1, { labels: ids }), tooLarge)
      for (const method of ['POST', 'PUT']) {
        t.match(await own.call('alice', method, 'issues/1/labels', { labels: ids }), tooLarge, method)
      }
      const more = await own.call('alice', 'POST', 'issues/1/labels', { labels: ids.slice(50, 100) })
      t.match(more, tooLarge, 'together with those that it has')
      t.equal((await own.get(1)).labels?.length, 50)
    })

    t.test(
      "a pull request's body: no ref and no claim is left, and a smaller one succeeds at once",
      async (t) => {
        const own = await repository(t, 'stray')
        const head = await own.branch('topic', { 'a.txt': 'a\n' })
        const refused = await own.tryOpen('topic', { body: LARGE })
        t.match(refused, { status: 422, message: /^body: / })
        t.equal(await own.tip('refs/pull/1/head'), undefined)
        const key = claimKeys.pull(
          { repoId: own.repoId, branch: 'topic' },
          { repoId: own.repoId, branch: 'main' },
        )
        t.strictSame(await eventsIn(server, claimStream(key)), [])
        t.match(await own.tryOpen('topic', { body: 'smaller' }), { status: 201, body: { number: 1 } })
        t.equal(await own.tip('refs/pull/1/head'), head)
      },
    )

    t.test('many co-authors in a squash: the newest are named, up to the limit', async (t) => {
      const own = await repository(t, 'co-authors')
      const nameOf = (i: number) => `${WIDE.repeat(300)} ${i}`
      const commits = Array.from(
        { length: 1000 },
        (_, i) => `commit refs/heads/topic
author ${nameOf(i)} <a${i}@example.org> ${1_700_000_000 + i} +0000
committer C <c@example.org> ${1_700_000_000 + i} +0000
data 2\nx
${i === 0 ? 'from refs/heads/main^0\n' : ''}M 100644 inline f\ndata ${`${i}`.length}\n${i}\n`,
      )
      await gitWithInput(own.work.dir, ['fast-import', '--quiet'], commits.join(''))
      await own.push('topic')
      const index = await own.open('topic')
      t.match(await own.merge(index, { Do: 'squash' }), { status: 200 })
      await own.work.git('fetch', '-q')
      const message = await own.work.git('log', '-1', '--format=%B', 'origin/main')
      t.match(message, `Co-authored-by: ${nameOf(999)} <a999@example.org>`, 'the newest')
      t.notMatch(message, '<a0@example.org>', 'not the oldest')
      t.ok(Buffer.byteLength(message) < 100_000)
    })
  })
}

t.test('texts of 70,000 characters; by default 131,072, with a limit by bytes', async (t) => {
  const { server, repository } = await startOn(t, 'the embedded store')
  const { call } = await repository(t, 'long')
  const open = (body: string) => call('alice', 'POST', 'issues', { title: 'Dashboard', body })
  for (const body of ['x'.repeat(70_000), 'x'.repeat(131_072), WIDE.repeat(131_072), '😀'.repeat(98_304)]) {
    t.match(await open(body), { status: 201, body: { body } })
  }
  const before = await server.services.events.lastPosition()
  t.match(await open('x'.repeat(131_073)), {
    status: 422,
    errors: ['body: must NOT have more than 131072 characters'],
  })
  for (const body of ['😀'.repeat(98_305), '\u0001'.repeat(65_537)]) {
    t.match(await open(body), { status: 422, errors: ['body: must NOT have more than 393216 bytes'] })
  }
  t.equal(await server.services.events.lastPosition(), before, 'nothing was recorded')
})

t.test('MAX_TEXT_CHARACTERS: the maximum characters of a text', async (t) => {
  const { server, repository } = await startOn(t, 'the embedded store', { MAX_TEXT_CHARACTERS: '3' })
  const { call } = await repository(t, 'short')
  const open = (body: string) => call('alice', 'POST', 'issues', { title: 'A longer title', body })
  t.equal((await open('😀😀😀')).status, 201)
  t.match(await open('four'), { status: 422, message: 'body: must NOT have more than 3 characters' })
  const documentation = await (await server.fetch(null, '/api/openapi.json')).text()
  t.match(documentation, /"maxLength":3[,}]/, 'the documentation says so')
})
