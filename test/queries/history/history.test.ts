import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { schemaOf } from '../../../src/events/codec.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { discussionStream } from '../../../src/events/streams.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'
import { type HistoryRow, linesOf, pageOf } from '../history-client.ts'

const server = await startTestServer(t)
const { services } = server
const [alice, bob] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])

const typesOf = (rows: readonly HistoryRow[]) => rows.map(({ type }) => type)

async function repository(name: string, options: object = {}) {
  const { data } = await alice.user.createCurrentUserRepo({ name, ...options })
  const repoId = data.id ?? 0
  const path = `/repos/alice/${name}`
  return {
    repoId,
    path,
    open: async (title = 'T') => (await alice.repos.issueCreateIssue('alice', name, { title })).data,
    edit: (index: number, option: object, who = alice) =>
      who.repos.issueEditIssue('alice', name, index, option),
    say: (index: number, body: string, who = alice) =>
      who.repos.issueCreateComment('alice', name, index, { body }),
    page: (query = '', login: string | null = 'alice') => pageOf(server, login, `${path}/${query}`),
    lines: (query = '', login: string | null = 'alice') => linesOf(server, login, `${path}/${query}`),
    status: async (query: string, login: string | null = 'alice', headers = {}) =>
      (await server.fetch(login, `/api/v1${path}/${query}`, { headers })).status,
  }
}

/** Appends directly to the log, without the checks of commands, to be fast. */
async function append(stream: string, events: readonly DomainEvent[], login = 'alice') {
  const { position } = await services.events.append(
    stream,
    events.map(({ type, data }) => ({
      id: randomUUID(),
      type,
      data,
      metadata: {
        actor: { id: 1, login },
        at: new Date().toISOString(),
        correlationId: 'c',
        causationId: 'c',
        schema: schemaOf(type),
      },
    })),
    'any',
  )
  await services.projector.waitFor(position, 60_000)
}

t.test("an issue's history has its recorded events, oldest first, as they were recorded", async (t) => {
  const { repoId, open, edit, say, page, lines } = await repository('issue')
  const { number: index = 0 } = await open('Old')
  await edit(index, { title: 'New' })
  await say(index, 'Hello', bob)
  const { rows, total, link } = await page(`issues/${index}/history`)
  t.same(typesOf(rows), ['IssueOpened', 'TitleChanged', 'CommentAdded'])
  t.equal(total, 3)
  t.match(link, /page=1&limit=30>; rel="first", .*page=1&limit=30>; rel="last"$/)
  const recorded = []
  const stream = discussionStream({ repoId, index, isPull: false })
  for await (const event of services.events.readStream(stream)) recorded.push(event)
  t.strictSame(
    rows,
    recorded.map(({ revision, position, id, type, data, metadata }) => ({
      revision,
      position,
      id,
      type,
      at: metadata.at,
      actor: metadata.actor,
      stream,
      data,
      correlation_id: metadata.correlationId,
      causation_id: metadata.causationId,
      hash: metadata.hash ?? 'none',
      previous_hash: metadata.previous ?? null,
    })),
  )
  t.match(rows[1], { revision: 1, actor: { login: 'alice' }, data: { oldTitle: 'Old', title: 'New' } })
  t.strictSame(await lines(`issues/${index}/history`), rows, 'the lines are the same events')
})

t.test("a pull request's history answers under its own path and under the issue's", async (t) => {
  const { page, path, open, status } = await repository('pulled', { auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/pulled'))
  await work.git('checkout', '-q', '-b', 'topic')
  await work.commit('Add a file', { 'a.txt': 'x\n' })
  await work.git('push', '-q', 'origin', 'topic')
  const pull = { head: 'topic', base: 'main', title: 'Pull' }
  const { number = 0 } = (await alice.repos.repoCreatePullRequest('alice', 'pulled', pull)).data
  await alice.repos.repoMergePullRequest('alice', 'pulled', number, { Do: 'merge' })
  const { rows } = await page(`pulls/${number}/history?limit=50`)
  t.equal(rows[0]?.type, 'PullRequestOpened')
  t.ok(typesOf(rows).includes('MergeStarted') && typesOf(rows).includes('PullRequestMerged'))
  t.strictSame((await page(`issues/${number}/history?limit=50`)).rows, rows)
  const issue = await open()
  t.equal(await status(`pulls/${issue.number}/history`), 404, 'an issue is not a pull request')
  for (const index of ['99', '0', 'x', '9223372036854775808']) {
    t.equal(await status(`pulls/${index}/history`), 404)
    t.equal(await status(`issues/${index}/history`), 404)
  }
  const all = (await pageOf(server, 'alice', `${path}/history?limit=50`)).rows
  t.match(all.find(({ type }) => type === 'RefsUpdated')?.data, { cause: 'auto-init' })
  t.ok(
    all.some(({ type, data }) => type === 'RefsUpdated' && data.cause === 'push'),
    'pushes are in the history of the repository',
  )
})

t.test('pages, filters and totals of the history of an issue', async (t) => {
  const { open, edit, say, page, status } = await repository('filtered')
  const { number: index = 0 } = await open()
  await edit(index, { title: 'A' })
  await say(index, 'one', bob)
  await say(index, 'two')
  await edit(index, { title: 'B' })
  const all = (await page(`issues/${index}/history`)).rows
  t.equal(all.length, 5)
  const asked = async (query: string) => {
    const { rows, total, link } = await page(`issues/${index}/history?${query}`)
    return { found: rows.map(({ revision }) => revision), total, next: link?.includes('rel="next"') ?? false }
  }
  t.same(await asked('limit=2'), { found: [0, 1], total: 5, next: true })
  t.same(await asked('limit=2&page=3'), { found: [4], total: 5, next: false })
  t.same(await asked('limit=2&page=9'), { found: [], total: 5, next: false })
  t.same(await asked('type=TitleChanged'), { found: [1, 4], total: 2, next: false })
  t.same(await asked('type=TitleChanged,CommentAdded&limit=3'), { found: [1, 2, 3], total: 4, next: true })
  t.same(await asked('type=TitleChanged&limit=1&page=2'), { found: [4], total: 2, next: false })
  t.same(await asked('actor=BOB'), { found: [2], total: 1, next: false })
  t.same(await asked('actor=nobody'), { found: [], total: 0, next: false })
  t.same(await asked('type=TitleChanged&actor=bob'), { found: [], total: 0, next: false })
  t.same((await asked(`since=${all[4]?.at}`)).found.at(-1), 4)
  t.same((await asked(`before=${all[0]?.at}`)).found[0], 0)
  t.same((await asked('since=2999-01-01T00:00:00Z')).total, 0)
  t.equal(await status(`issues/${index}/history?since=never`), 422)
})

t.test('since and before of a history are exact, also before 1970', async (t) => {
  const { open, page, lines, status } = await repository('dated')
  const { number: index = 0 } = await open()
  for (const [path, all] of [
    ['history', 2],
    [`issues/${index}/history`, 1],
  ] as const) {
    for (const early of ['1969-12-31T23:59:59Z', '1970-01-01T00:00:00Z', '0001-01-01T00:00:00Z']) {
      t.match(await page(`${path}?before=${early}`), { rows: [], total: 0 }, `${path} before ${early}`)
      t.same(await lines(`${path}?before=${early}`), [])
      t.match(await page(`${path}?since=${early}`), { total: all }, `${path} since ${early}`)
    }
    t.match(await page(`${path}?before=9999-12-31T23:59:59-12:00`), { total: all })
    for (const bad of ['never', '1969-02-30T00:00:00Z', '1969', '-1']) {
      for (const field of ['since', 'before']) t.equal(await status(`${path}?${field}=${bad}`), 422, bad)
    }
  }
  const issues = await server.fetch('alice', '/api/v1/repos/alice/dated/issues?before=1969-12-31T23:59:59Z')
  t.match(await issues.json(), { length: 1 }, 'lists of issues have them as Gitea does: none')
})

t.test('an unknown type of event gives 422 with its name', async (t) => {
  const { path } = await repository('unknown')
  for (const type of ['Nonsense', 'NumberTaken', '__proto__', 'toString']) {
    const answer = await server.fetch('alice', `/api/v1${path}/history?type=RepositoryCreated,${type}`)
    t.equal(answer.status, 422)
    t.match(await answer.json(), { errors: [new RegExp(`^type: ${type} `)] })
  }
})

t.test('the history of a repository has all its events, filtered by type, actor and time', async (t) => {
  const { open, edit, say, page, lines, repoId } = await repository('whole', { auto_init: true })
  const { number: index = 0 } = await open()
  await alice.repos.issueCreateLabel('alice', 'whole', { name: 'bug', color: '#aabbcc' })
  await say(index, 'Hi', bob)
  await edit(index, { state: 'closed' })
  const { number: other = 0 } = await open()
  await say(other, 'There', bob)
  const { rows, total } = await page('history')
  t.same(typesOf(rows), [
    'RepositoryCreated',
    'RefsUpdated',
    'IssueOpened',
    'LabelCreated',
    'CommentAdded',
    'StatusChanged',
    'IssueOpened',
    'CommentAdded',
  ])
  t.equal(total, 8)
  t.strictSame(await lines('history'), rows)
  const positions = rows.map(({ position }) => position)
  t.strictSame(
    positions,
    [...positions].sort((a, b) => a - b),
  )
  t.ok(rows.every(({ data }) => data.repoId === repoId || data.scope !== undefined))
  const asked = async (query: string) => {
    const found = await page(`history?${query}`)
    const whole = await lines(`history?${query}`)
    t.equal(whole.length, found.total, query)
    t.strictSame(whole.slice(0, found.rows.length), found.rows, query)
    return { found: found.rows.map(({ position }) => positions.indexOf(position)), total: found.total }
  }
  t.same(await asked('limit=3'), { found: [0, 1, 2], total: 8 })
  t.same(await asked('type=IssueOpened'), { found: [2, 6], total: 2 })
  t.same(await asked('type=IssueOpened,LabelCreated'), { found: [2, 3, 6], total: 3 })
  t.same(await asked('actor=Bob'), { found: [4, 7], total: 2 })
  t.same(await asked('actor=bob&type=CommentAdded&limit=1'), { found: [4], total: 2 })
  t.same(await asked('actor=bob&type=IssueOpened'), { found: [], total: 0 })
  t.equal((await asked(`since=${rows[7]?.at}`)).found.at(-1), 7)
  t.equal((await asked(`before=${rows[0]?.at}`)).found[0], 0)
  const second = await page('history?limit=3&page=3')
  t.same(
    second.rows.map(({ position }) => positions.indexOf(position)),
    [6, 7],
  )
  t.same(await page('history?page=100').then(({ rows, total }) => ({ rows, total })), { rows: [], total: 8 })
})

t.test(
  'only admins of a repository see the events about access and about the protection of branches',
  async (t) => {
    const { open, page, lines } = await repository('guarded')
    const give = (login: string, permission: 'read' | 'write') =>
      alice.repos.repoAddCollaborator('alice', 'guarded', login, { permission })
    await give('bob', 'write')
    await open('1')
    await give('carol', 'read')
    await alice.repos.repoCreateBranchProtection('alice', 'guarded', { rule_name: 'main' })
    await open('2')
    await open('3')
    const all = (await page('history')).rows
    t.same(typesOf(all), [
      'RepositoryCreated',
      'CollaboratorSet',
      'IssueOpened',
      'CollaboratorSet',
      'BranchProtectionSet',
      'IssueOpened',
      'IssueOpened',
    ])
    const open3 = ['RepositoryCreated', 'IssueOpened', 'IssueOpened', 'IssueOpened']
    for (const login of ['bob', null]) {
      const { rows, total } = await page('history', login)
      t.same(typesOf(rows), open3)
      t.equal(total, 4)
      t.same(typesOf(await lines('history', login)), open3)
      const paged = []
      for (const number of [1, 2, 3, 4, 5]) {
        const part = await page(`history?limit=1&page=${number}`, login)
        t.equal(part.total, 4)
        paged.push(...part.rows)
      }
      t.strictSame(paged, rows, 'pages neither skip nor repeat events between hidden ones')
      t.strictSame((await page('history?limit=3&page=1', login)).rows, rows.slice(0, 3))
      t.match(await page('history?type=CollaboratorSet', login), { rows: [], total: 0 })
      t.match(await page('history?type=CollaboratorSet,IssueOpened', login), { total: 3 })
      t.match(await page('history?actor=alice&limit=2', login), { total: 4, rows: { length: 2 } })
      t.same(await lines('history?type=CollaboratorSet', login), [])
    }
    t.match(await page('history?type=CollaboratorSet'), { total: 2 })
  },
)

t.test('a user who may not read a repository gets 404 for its histories, in every form', async (t) => {
  const { open, status } = await repository('secret', { private: true })
  const { number } = await open()
  for (const accept of ['application/json', 'application/x-ndjson', 'text/event-stream']) {
    for (const login of ['bob', null]) {
      for (const path of ['history', `issues/${number}/history`, `pulls/${number}/history`]) {
        t.equal(await status(path, login, { accept }), 404, `${path} as ${login}: ${accept}`)
      }
    }
  }
})

t.test('the history of the server is for site admins', async (t) => {
  const path = '/api/v1/admin/history'
  for (const accept of ['application/json', 'application/x-ndjson', 'text/event-stream']) {
    t.equal((await server.fetch(null, path, { headers: { accept } })).status, 401)
    t.equal((await server.fetch('alice', path, { headers: { accept } })).status, 403)
  }
  const all = await linesOf(server, 'admin', '/admin/history')
  const types = new Set(typesOf(all))
  t.ok(types.has('UserCreated') && types.has('TokenCreated') && types.has('IssueOpened'))
  t.notOk(types.has('NumberTaken') || types.has('ClaimTaken'))
  const first = await pageOf(server, 'admin', '/admin/history?limit=50')
  t.strictSame(first.rows, all.slice(0, 50))
  t.equal(first.total, all.length)
  const byActor = all.filter(({ actor }) => actor?.login === 'bob')
  t.ok(byActor.length > 0)
  t.match(await pageOf(server, 'admin', '/admin/history?actor=bob&limit=50'), {
    total: byActor.length,
    rows: byActor.slice(0, 50),
  })
  const comments = byActor.filter(({ type }) => type === 'CommentAdded')
  t.match(await pageOf(server, 'admin', '/admin/history?actor=bob&type=CommentAdded&limit=50'), {
    total: comments.length,
    rows: comments,
  })
  t.match(await pageOf(server, 'admin', '/admin/history?type=UserCreated'), {
    total: all.filter(({ type }) => type === 'UserCreated').length,
  })
  const token = await server.fetch('admin', '/api/v1/users/admin/tokens', {
    method: 'POST',
    body: JSON.stringify({ name: 'narrow', scopes: ['read:repository'] }),
  })
  const { sha1 } = JSON.parse(await token.text())
  const headers = { authorization: `token ${sha1}` }
  t.equal((await server.fetch(null, path, { headers })).status, 403, 'the token needs the scope')
})

t.test('Accept chooses the form, and Vary names it for caches', async (t) => {
  const { path } = await repository('formed')
  const form = async (accept: string, method = 'GET') => {
    const abort = new AbortController()
    const answer = await server.fetch('alice', `/api/v1${path}/history`, {
      method,
      headers: { accept },
      signal: abort.signal,
    })
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('vary'), 'Accept')
    const text = method === 'HEAD' ? await answer.text() : ''
    t.equal(text, '')
    abort.abort()
    return answer.headers.get('content-type')?.split(';')[0]
  }
  for (const method of ['GET', 'HEAD']) {
    t.equal(await form('*/*', method), 'application/json')
    t.equal(await form('text/html', method), 'application/json')
    t.equal(await form('application/x-ndjson', method), 'application/x-ndjson')
    t.equal(await form('text/event-stream', method), 'text/event-stream')
    t.equal(await form('application/x-ndjson;q=0.5, application/json', method), 'application/json')
    t.equal(await form('application/json;q=0.2, APPLICATION/X-NDJSON; q=0.9', method), 'application/x-ndjson')
    t.equal(await form('text/*', method), 'application/json', 'the endless stream must be named')
    t.equal(await form('text/event-stream;q=0.5, */*', method), 'application/json')
  }
})

t.test('a history of thousands of events is paged from anywhere, filtered, and streamed whole', async (t) => {
  const { repoId, open, page, lines } = await repository('epic')
  const { number: index = 0 } = await open()
  const stream = discussionStream({ repoId, index, isPull: false })
  const titles = Array.from(
    { length: 3000 },
    (_, i): DomainEvent => ({
      type: 'TitleChanged',
      data: { repoId, index, oldTitle: `${i}`, title: `${i + 1}` },
    }),
  )
  await append(stream, titles, 'alice')
  await append(stream, [{ type: 'BodyChanged', data: { repoId, index, body: 'x' } }], 'bob')
  const last = await page(`issues/${index}/history?limit=50&page=61`)
  t.match(last, { total: 3002, rows: [{ revision: 3000 }, { revision: 3001, type: 'BodyChanged' }] })
  t.match(await page(`issues/${index}/history?actor=bob`), { total: 1, rows: [{ revision: 3001 }] })
  t.match(await page(`issues/${index}/history?type=TitleChanged&limit=1&page=3000`), {
    total: 3000,
    rows: [{ revision: 3000 }],
  })
  t.match(await page('history?actor=bob&type=BodyChanged'), { total: 1, rows: [{ revision: 3001 }] })
  t.match(await page('history?since=2999-01-01T00:00:00Z'), { total: 0, rows: [] })
  const all = await lines(`issues/${index}/history`)
  t.strictSame(
    all.map(({ revision }) => revision),
    Array.from({ length: 3002 }, (_, i) => i),
  )
  t.strictSame((await lines('history')).slice(1), all)
})

/** Makes a private repository with an issue whose history has 15 MB: more than fits between the server and a client. */
async function makeLong() {
  const made = await repository('long', { private: true })
  const { number: index = 0 } = await made.open()
  const body = 'x'.repeat(100_000)
  const events = Array.from(
    { length: 75 },
    (): DomainEvent => ({ type: 'BodyChanged', data: { repoId: made.repoId, index, body } }),
  )
  const stream = discussionStream({ repoId: made.repoId, index, isPull: false })
  for (let i = 0; i < 2; i++) await append(stream, events)
  const allow = (login: string, permission: 'read' | 'admin') =>
    alice.repos.repoAddCollaborator('alice', 'long', login, { permission })
  /** Opens a history as lines; the client does not read them yet. */
  async function begin(t: Test, login: string, path: string) {
    const abort = new AbortController()
    t.teardown(() => abort.abort())
    const answer = await server.fetch(login, `/api/v1${made.path}/${path}`, {
      headers: { accept: 'application/x-ndjson' },
      signal: abort.signal,
    })
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = (await reader?.read())?.value ?? ''
    /** Reads the rest. Resolves to whether the answer was complete. */
    async function rest(): Promise<{ whole: boolean; text: string }> {
      try {
        for (;;) {
          const part = await reader?.read()
          if (part?.value === undefined) return { whole: true, text }
          text += part.value
        }
      } catch {
        return { whole: false, text }
      }
    }
    return { status: answer.status, rest, leave: () => abort.abort() }
  }
  return { ...made, index, allow, begin }
}

/** The events of lines, without their bodies. */
const eventsIn = (text: string): HistoryRow[] =>
  text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))

t.test('a long history of a slow client', async (t) => {
  const { index, say, allow, begin, lines } = await makeLong()

  await t.test(
    'is read only as fast as the client takes it, and not after the client has left',
    async (t) => {
      let read = 0
      const readPositions = services.events.readPositions
      t.teardown(() => {
        services.events.readPositions = readPositions
      })
      const { promise: over, resolve: ended } = Promise.withResolvers<void>()
      services.events.readPositions = async function* (positions) {
        try {
          for await (const event of readPositions(positions)) {
            read += 1
            yield event
          }
        } finally {
          ended()
        }
      }
      const { leave } = await begin(t, 'alice', 'history')
      leave()
      await over
      t.ok(read < 140, `${read} of 152 events were read for a client that took a part of them`)
    },
  )

  await t.test('ends with the event that was last when the request came', async (t) => {
    const { rest } = await begin(t, 'alice', `issues/${index}/history`)
    await say(index, 'later')
    const { whole, text } = await rest()
    t.ok(whole)
    const types = typesOf(eventsIn(text))
    t.equal(types.filter((type) => type === 'BodyChanged').length, 150)
    t.notOk(types.includes('CommentAdded'))
  })

  await t.test('leaves out events that became hidden in the meantime', async (t) => {
    await allow('carol', 'admin')
    await allow('bob', 'read')
    const shown = typesOf(await lines('history?type=CollaboratorSet', 'carol'))
    t.ok(shown.includes('CollaboratorSet'), 'an admin sees access changes')
    const { rest } = await begin(t, 'carol', 'history')
    await allow('carol', 'read')
    const told = eventsIn((await rest()).text)
    t.equal(told.filter(({ type }) => type === 'BodyChanged').length, 150)
    t.notOk(typesOf(told).includes('CollaboratorSet'))
  })

  await t.test('breaks off when the requester loses read access', async (t) => {
    const paths = ['history', `issues/${index}/history`]
    const answers = await Promise.all(paths.map((path) => begin(t, 'carol', path)))
    await alice.repos.repoDeleteCollaborator('alice', 'long', 'carol')
    await say(index, 'a secret')
    for (const { status, rest } of answers) {
      t.equal(status, 200)
      const { whole, text } = await rest()
      t.notOk(whole, 'the client can see that the answer is incomplete')
      t.ok(text.split('\n').length < 140, `${text.split('\n').length} of more than 150 lines`)
      t.notMatch(text.slice(-1000), /a secret/)
    }
  })
})
