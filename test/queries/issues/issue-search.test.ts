import t from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import type { LabelScope } from '../../../src/events/catalog/labels.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { issueStream, labelStream, repositoryStream } from '../../../src/events/streams.ts'
import { startIssues } from '../../commands/issues/setup.ts'
import { aContext, writerOf } from '../../stores.ts'

const { server, alice, call, repository } = await startIssues(t)
const { events, projector } = server.services

/** mulberry32: random numbers that are the same in each run. */
function random(seed: number) {
  let state = seed
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (count: number) => Math.floor(next() * count)
  const chance = (share: number) => next() < share
  const pick = <T>(values: readonly T[]): T => {
    const value = values[below(values.length)]
    if (value === undefined) throw new Error('nothing to pick from')
    return value
  }
  return {
    below,
    chance,
    pick,
    some: <T>(values: readonly T[], most: number) =>
      Array.from({ length: below(most + 1) }, () => pick(values)),
  }
}

interface Repository {
  id: number
  owner: string
  private: boolean
  readers: Set<string>
}
interface Label {
  id: number
  name: string
  repoId: number | null
  owner: string | null
}
interface Issue {
  id: number
  repoId: number
  index: number
  closed: boolean
  labels: number[]
  texts: string[]
  poster: string
  assignee: string | null
  updatedAt: string
}
/** A simple model of the data. A search scans all of it. */
interface Model {
  repositories: Map<number, Repository>
  labels: Map<number, Label>
  issues: Issue[]
}
interface Query {
  state?: 'open' | 'closed' | 'all'
  labels?: string
  q?: string
  created?: boolean
  assigned?: boolean
  owner?: string
  since?: string
  before?: string
  priority_repo_id?: number
}

type Test = Pick<typeof t, 'same' | 'pass'>

const MEMBERS: Record<string, string[]> = { crew: ['alice', 'dave'] }

const reads = (login: string, { owner, private: hidden, readers }: Repository) =>
  !hidden ||
  login === 'admin' ||
  login === owner ||
  readers.has(login) ||
  (MEMBERS[owner] ?? []).includes(login)

function hasWords({ texts }: Issue, q: string): boolean {
  const words = texts
    .join(' ')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
  const asked = q.toLowerCase().split(/[^a-z0-9]+/)
  return asked.every((beginning) => words.some((word) => word.startsWith(beginning)))
}

/** Ids of the issues that a search should find, in order. */
function expected({ repositories, labels, issues }: Model, login: string, query: Query): number[] {
  const readable = [...repositories.values()].filter((repository) => reads(login, repository))
  const seen = (label: Label) =>
    readable.some(({ id, owner }) => (label.repoId === null ? owner === label.owner : id === label.repoId))
  const names = (query.labels ?? '').split(',')
  const wanted = [...labels.values()].filter((label) => names.includes(label.name) && seen(label))
  const searched = new Set(
    readable.filter(({ owner }) => !query.owner || owner === query.owner).map(({ id }) => id),
  )
  const found = issues.filter(
    (issue) =>
      searched.has(issue.repoId) &&
      (query.state === 'all' || issue.closed === (query.state === 'closed')) &&
      (wanted.length === 0 || wanted.some(({ id }) => issue.labels.includes(id))) &&
      (!query.created || issue.poster === login) &&
      (!query.assigned || issue.assignee === login) &&
      (!query.since || issue.updatedAt >= query.since) &&
      (!query.before || issue.updatedAt <= query.before) &&
      hasWords(issue, query.q ?? ''),
  )
  const isFirst = ({ repoId }: Issue) => (repoId === query.priority_repo_id ? 0 : 1)
  return found.sort((a, b) => isFirst(a) - isFirst(b) || b.id - a.id).map(({ id }) => id)
}

const clients = new Map(
  await Promise.all(
    ['admin', 'alice', 'bob', 'carol', 'dave'].map(async (login) => [login, await server.as(login)] as const),
  ),
)
const logins = [...clients.keys()]

/** Ids on one page, and the server's total for all pages. */
async function search(login: string, query: Query & { page?: number; limit?: number }) {
  const client = clients.get(login)
  if (client === undefined) throw new Error(login)
  const { data, headers } = await client.repos.issueSearchIssues(query)
  return { ids: data.map(({ id }) => id ?? 0), total: Number(headers.get('x-total-count')) }
}

/** Compares three pages with the model, one of them after the last page. */
async function compare(test: Test, model: Model, login: string, query: Query, limit: number, page: number) {
  const all = expected(model, login, query)
  const last = Math.max(1, Math.ceil(all.length / limit))
  for (const number of new Set([1, Math.min(page, last), last, last + 1])) {
    const { ids, total } = await search(login, { ...query, limit, page: number })
    const wanted = all.slice((number - 1) * limit, number * limit)
    const right =
      total === all.length && ids.length === wanted.length && ids.every((id, i) => id === wanted[i])
    if (right) continue
    test.same(
      { ids, total },
      { ids: wanted, total: all.length },
      `${login} ${JSON.stringify(query)} page ${number} of ${limit}`,
    )
    return
  }
  test.pass(`${login}: ${all.length} for ${JSON.stringify(query)}`)
}

/** Writes events in their order, many in one append. */
async function write(stories: readonly { stream: string; events: DomainEvent[]; at?: string }[]) {
  const context = aContext()
  for (let i = 0; i < stories.length; i += 200) {
    await Promise.all(
      stories.slice(i, i + 200).map(async ({ stream, events: written, at = context.at }) => {
        const own = { ...context, at }
        await append(writerOf(events), own, stream, 'seed', written, 'any')
        context.written = Math.max(context.written, own.written)
      }),
    )
  }
  t.ok(await projector.waitFor(context.written, 60_000), 'the projections have all events')
}

const idsOf = new Map<string, number>()
for (const login of logins) {
  idsOf.set(login, (await clients.get(login)?.user.userGetCurrent())?.data.id ?? 0)
}
await alice.orgs.orgCreate({ username: 'crew' })
await call('alice', 'PUT', 'orgs/crew/members/dave', { permission: 'read' })
idsOf.set('crew', (await alice.orgs.orgGet('crew')).data.id ?? 0)
const ref = (login: string) => ({ id: idsOf.get(login) ?? 0, login })

const REPOSITORIES = 100
const ISSUES = 1200
const FIRST_ID = 100_000
const WORDS = [
  'merge',
  'merged',
  'rebase',
  'base',
  'branch',
  'review',
  'reviewer',
  'fast',
  'slow',
  'crash',
  'x1',
  'x12',
]
const NAMES = ['bug', 'idea', 'docs', 'secret']

/** Repositories, labels and issues of all kinds. Most users see few of them, and very few see the newest issues. */
async function seed({ below, chance, pick, some }: ReturnType<typeof random>): Promise<Model> {
  const model: Model = { repositories: new Map(), labels: new Map(), issues: [] }
  const stories: Parameters<typeof write>[0][number][] = []
  const addLabel = (id: number, name: string, scope: LabelScope, owner: string | null) => {
    const data = { id, scope, name, color: 'ffffff', description: '', exclusive: false, archived: false }
    stories.push({ stream: labelStream(id), events: [{ type: 'LabelCreated', data }] })
    model.labels.set(id, { id, name, repoId: scope.kind === 'repository' ? scope.repoId : null, owner })
  }
  addLabel(FIRST_ID, 'bug', { kind: 'organization', organizationId: ref('crew').id }, 'crew')
  for (let i = 0; i < REPOSITORIES; i++) {
    const id = FIRST_ID + i
    const owner = pick(['alice', 'bob', 'carol', 'crew'])
    const hidden = i >= REPOSITORIES / 2 || chance(0.5)
    const readers = new Set(i % 10 === 0 ? some(['alice', 'bob', 'carol'], 2) : [])
    model.repositories.set(id, { id, owner, private: hidden, readers })
    const kind = owner === 'crew' ? 'organization' : 'user'
    const settings = { name: `r${i}`, description: '', website: '', private: hidden, defaultBranch: 'main' }
    stories.push({
      stream: repositoryStream(id),
      events: [
        { type: 'RepositoryCreated', data: { repoId: id, owner: { ...ref(owner), kind }, ...settings } },
        ...[...readers].map(
          (login): DomainEvent => ({
            type: 'CollaboratorSet',
            data: { repoId: id, user: ref(login), permission: 'read' },
          }),
        ),
      ],
    })
    // Only private repositories have labels with the name "secret".
    for (const [n, name] of NAMES.entries()) {
      if (name === 'secret' ? i === REPOSITORIES - 1 : chance(0.4)) {
        addLabel(FIRST_ID + 10 * (i + 1) + n, name, { kind: 'repository', repoId: id }, null)
      }
    }
  }
  const repositories = [...model.repositories.values()]
  const numbers = new Map<number, number>()
  for (let i = 0; i < ISSUES; i++) {
    const old = i < 160
    const { id: repoId, owner } = old ? pick(repositories) : pick(repositories.slice(REPOSITORIES / 2))
    const index = (numbers.get(repoId) ?? 0) + 1
    numbers.set(repoId, index)
    const id = FIRST_ID + i
    const fitting = [...model.labels.values()].filter(
      (label) => label.repoId === repoId || label.owner === owner,
    )
    const labels = fitting.length === 0 ? [] : [...new Set(some(fitting, 2))]
    // Users without write access are not assigned.
    const writers = [MEMBERS[owner] === undefined ? owner : 'alice', 'admin']
    const [poster, assignee] = [pick(logins), chance(0.3) ? pick(writers) : null]
    const text = () => some(WORDS, 4).join(' ')
    const [title, body, said, resaid] = [text(), text(), text(), text()]
    const closed = chance(0.3)
    const updatedAt = new Date(Date.UTC(2026, 0, 1) + 60_000 * below(100_000)).toISOString()
    const texts = [title, body]
    const place = { repoId, index }
    const written: DomainEvent[] = [
      {
        type: 'IssueOpened',
        data: {
          ...place,
          id,
          poster: ref(poster),
          title,
          body,
          labels: labels.map(({ id, name }) => ({ id, name })),
          milestone: null,
          assignees: assignee === null ? [] : [ref(assignee)],
          deadline: null,
        },
      },
    ]
    const comment = { ...place, commentId: id }
    if (chance(0.3)) {
      written.push({ type: 'CommentAdded', data: { ...comment, author: ref(poster), body: said } })
      const fate = below(3)
      if (fate === 0) texts.push(said)
      if (fate === 1) texts.push(resaid)
      if (fate === 1) written.push({ type: 'CommentEdited', data: { ...comment, body: resaid } })
      if (fate === 2) written.push({ type: 'CommentDeleted', data: comment })
    }
    if (closed) {
      const status = { closed, comment: { id, kind: 'close' }, milestone: null } as const
      written.push({ type: 'StatusChanged', data: { ...place, ...status } })
    }
    stories.push({ stream: issueStream(repoId, index), events: written, at: updatedAt })
    model.issues.push({
      id,
      ...place,
      closed,
      labels: labels.map(({ id }) => id),
      texts,
      poster,
      assignee,
      updatedAt,
    })
  }
  await write(stories)
  return model
}

const dice = random(20260102)
const model = await seed(dice)

function anyQuery(): Query {
  const { below, chance, pick, some } = dice
  const query: Query = {}
  if (chance(0.6)) query.state = pick(['all', 'closed', 'open'] as const)
  if (chance(0.4)) query.labels = [...some(NAMES, 2), ...(chance(0.3) ? ['unknown'] : [])].join(',')
  if (chance(0.4))
    query.q = some(WORDS, 2)
      .map((word) => word.slice(0, 2 + below(4)).toUpperCase())
      .join(' ')
  if (chance(0.1)) query.created = true
  if (chance(0.1)) query.assigned = true
  if (chance(0.1)) query.owner = pick(['alice', 'crew'])
  if (chance(0.1)) query.since = new Date(Date.UTC(2026, 0, below(70))).toISOString()
  if (chance(0.1)) query.before = new Date(Date.UTC(2026, 0, below(70))).toISOString()
  if (chance(0.4)) query.priority_repo_id = FIRST_ID + below(REPOSITORIES + 5)
  return query
}

async function compareAny(test: Test, times: number) {
  for (let i = 0; i < times; i++) {
    const limit = dice.pick([1, 3, 7, 30, 50])
    await compare(test, model, dice.pick(logins), anyQuery(), limit, 1 + dice.below(20))
  }
}

t.test('search.4: a search covers all repositories that the requester can read, and no others', async (t) => {
  for (const login of logins) {
    for (const state of ['open', 'closed', 'all'] as const) await compare(t, model, login, { state }, 50, 2)
  }
  const totals = new Set(logins.map((login) => expected(model, login, { state: 'all' }).length))
  t.equal(totals.size, logins.length, 'each user sees another number of issues')
  t.ok(expected(model, 'carol', { state: 'all' }).length > 0)
})

t.test(
  'search.1, search.2, search.3, search.4, search.5: random searches find the same issues as the model',
  async (t) => {
    await compareAny(t, 60)
  },
)

t.test('search.4: issues of the repository named by priority_repo_id come first, across pages', async (t) => {
  const mine = [...model.repositories.values()].filter(
    (repository) => reads('bob', repository) && model.issues.some(({ repoId }) => repoId === repository.id),
  )
  for (const { id } of mine.slice(0, 5)) {
    for (const limit of [1, 2, 5])
      await compare(t, model, 'bob', { state: 'all', priority_repo_id: id }, limit, 2)
  }
  const hidden = [...model.repositories.values()].find((repository) => !reads('bob', repository))
  t.same(
    (await search('bob', { state: 'all', priority_repo_id: hidden?.id ?? 0 })).ids,
    (await search('bob', { state: 'all' })).ids,
    'a repository that the requester cannot read is ignored',
  )
  for (const odd of ['x', '-1', '0', '9223372036854775807', '']) {
    const { status, body } = await call('bob', 'GET', `repos/issues/search?state=all&priority_repo_id=${odd}`)
    t.same([status, body.length], [200, 30], odd)
  }
})

t.test('search.4: a search needs a signed-in user', async (t) => {
  t.equal((await call(null, 'GET', 'repos/issues/search')).status, 401)
  t.equal((await call(null, 'GET', 'repos/issues/search?q=merge')).status, 401)
})

t.test('search.3: labels that the requester cannot see count as unknown', async (t) => {
  const last = model.repositories.get(FIRST_ID + REPOSITORIES - 1)
  const blind = logins.find((login) => last !== undefined && !reads(login, last)) ?? ''
  t.same(await search(blind, { labels: 'secret' }), await search(blind, { labels: 'unknown' }))
  await compare(t, model, 'admin', { labels: 'secret', state: 'all' }, 50, 1)
  t.not((await search('admin', { labels: 'secret' })).total, (await search('admin', {})).total)
})

t.test('search.4: deleted issues and unreadable ones are neither found nor counted', async (t) => {
  const issuesIn = (id: number) => model.issues.filter(({ repoId }) => repoId === id).length
  const all = [...model.repositories.values()].filter(({ id }) => issuesIn(id) > 0)
  const shared = all.find(({ private: hidden, readers }) => hidden && readers.size > 0)
  const open = all.find(({ private: hidden }) => !hidden)
  const doomed = all.find(
    (repository) => repository !== open && reads('alice', repository) && repository.owner === 'alice',
  )
  if (shared === undefined || open === undefined || doomed === undefined) throw new Error('unlucky seed')
  const [reader = ''] = shared.readers
  await write([
    {
      stream: repositoryStream(shared.id),
      events: [{ type: 'CollaboratorRemoved', data: { repoId: shared.id, user: ref(reader) } }],
    },
    {
      stream: repositoryStream(open.id),
      events: [{ type: 'RepositoryEdited', data: { repoId: open.id, changes: { private: true } } }],
    },
    {
      stream: repositoryStream(doomed.id),
      events: [{ type: 'RepositoryDeleted', data: { repoId: doomed.id, owner: ref('alice'), name: 'x' } }],
    },
  ])
  shared.readers.delete(reader)
  open.private = true
  model.repositories.delete(doomed.id)
  for (const login of logins) {
    await compare(t, model, login, { state: 'all' }, 50, 3)
    await compare(t, model, login, { state: 'all', priority_repo_id: shared.id }, 50, 1)
    await compare(t, model, login, { state: 'all', q: 'me' }, 30, 2)
  }
  await compareAny(t, 30)
})

t.test('search.3: a renamed label is found by its new name, a deleted one not at all', async (t) => {
  const [first, second] = [...model.labels.values()].filter(
    ({ id, repoId }) =>
      repoId !== null &&
      model.repositories.has(repoId) &&
      model.issues.some(({ labels }) => labels.includes(id)),
  )
  if (!first?.repoId || !second?.repoId) throw new Error('unlucky seed')
  const scopeOf = (repoId: number): LabelScope => ({ kind: 'repository', repoId })
  await write([
    {
      stream: labelStream(first.id),
      events: [
        {
          type: 'LabelEdited',
          data: { id: first.id, scope: scopeOf(first.repoId), changes: { name: 'renamed' } },
        },
      ],
    },
    {
      stream: labelStream(second.id),
      events: [
        { type: 'LabelDeleted', data: { id: second.id, scope: scopeOf(second.repoId), name: second.name } },
      ],
    },
  ])
  model.labels.set(first.id, { ...first, name: 'renamed' })
  model.labels.delete(second.id)
  for (const labels of ['renamed', first.name, second.name, `renamed,${second.name}`]) {
    await compare(t, model, 'admin', { labels, state: 'all' }, 50, 2)
  }
})

t.test('new issues, comments, labels and permissions are effective immediately', async (t) => {
  const { open, issues, label } = await repository('fresh', { private: true })
  const index = await open({ title: 'Unheard-of zebra' })
  const zebras = async (login: string, query: Query = {}) =>
    (await search(login, { q: 'zebra', ...query })).total
  t.same(
    [await zebras('alice'), await zebras('carol'), await zebras('bob'), await zebras('admin')],
    [1, 1, 0, 1],
  )
  await alice.repos.issueCreateComment('alice', 'fresh', index, { body: 'Okapi, too' })
  t.equal(await zebras('carol', { q: 'okapi zeb' }), 1)
  const striped = await label('striped')
  await call('alice', 'POST', `${issues}/${index}/labels`, { labels: [striped] })
  t.equal(await zebras('carol', { labels: 'striped' }), 1)
  t.equal(await zebras('carol', { labels: 'striped', state: 'closed' }), 0)
  await call('alice', 'PATCH', `${issues}/${index}`, { state: 'closed' })
  t.equal(await zebras('carol', { labels: 'striped', state: 'closed' }), 1)
  await alice.repos.repoDeleteCollaborator('alice', 'fresh', 'carol')
  t.equal(await zebras('carol', { state: 'all' }), 0)
  await alice.repos.repoAddCollaborator('alice', 'fresh', 'bob', { permission: 'read' })
  t.equal(await zebras('bob', { state: 'all' }), 1)
  await alice.repos.repoDelete('alice', 'fresh')
  t.same([await zebras('alice', { state: 'all' }), await zebras('admin', { state: 'all' })], [0, 0])
})

t.test('the pages show each issue once, near the newest and far from it', async (t) => {
  const { body, headers } = await call(
    'admin',
    'GET',
    'repos/issues/search?state=all&type=issues&limit=50&page=2',
  )
  t.equal(headers.get('x-total-count'), `${expected(model, 'admin', { state: 'all' }).length}`)
  t.match(headers.get('link'), /page=3.*rel="next"/)
  t.equal(body.length, 50)
  const seen: number[] = []
  for (let page = 1; ; page++) {
    const { ids } = await search('dave', { state: 'all', limit: 50, page })
    if (ids.length === 0) break
    seen.push(...ids)
  }
  t.same(seen, expected(model, 'dave', { state: 'all' }))
})

t.test('a query parameter that Gitea documents is implemented: `team` of the issue search', async (t) => {
  await alice.orgs.orgCreate({ username: 'searchers' })
  for (const name of ['in', 'out']) {
    const { open } = await repository(name, {}, 'searchers')
    await open({ title: `of ${name}` })
  }
  const units = ['repo.code', 'repo.issues', 'repo.pulls']
  const { data: team } = await alice.orgs.orgCreateTeam('searchers', {
    ...{ name: 'Finders', permission: 'read', units },
  })
  await alice.teams.orgAddTeamRepository(team.id ?? 0, 'searchers', 'in')
  await alice.teams.orgAddTeamMember(team.id ?? 0, 'dave')
  const titles = async (login: string, query: string) => {
    const { status, body } = await call(login, 'GET', `repos/issues/search?owner=searchers&${query}`)
    return status === 200 ? body.map(({ title }: { title: string }) => title) : status
  }
  t.same(await titles('dave', 'team=finders'), ['of in'])
  t.same(await titles('alice', 'team=Owners'), ['of out', 'of in'])
  t.same(await titles('alice', 'team='), ['of out', 'of in'])
  t.same(await titles('alice', 'team=others'), [], 'an unknown team has nothing')
  t.same(await titles('bob', 'team=Finders'), [], 'others do not learn of the team')
  const { status, body } = await call('alice', 'GET', 'repos/issues/search?team=Finders')
  t.equal(status, 422)
  t.match(body.message, /^team: requires owner/)
})
