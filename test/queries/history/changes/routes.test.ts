import t from 'tap'
import { startTestServer } from '../../../start-server.ts'

const server = await startTestServer(t)
const alice = await server.as('alice')
await server.as('bob')

interface Answer {
  from: { position: number; at: string } | null
  to: { position: number; at: string }
  changes: {
    kind: string
    id: string
    change: string
    fields: { field: string; before: unknown; after: unknown }[]
    events: { type: string; actor: string | null; revision: number; stream: string }[]
    event_count: number
  }[]
  message?: string
}

async function changes(path: string, query: string, login: string | null = 'alice') {
  const answer = await server.fetch(login, `/api/v1/repos/alice/${path}/changes?${query}`)
  const body: Answer = JSON.parse(await answer.text())
  return { status: answer.status, total: answer.headers.get('x-total-count'), body }
}

const now = async () => `@${await server.services.events.lastPosition()}`
const kindsOf = ({ changes }: Answer) => changes.map(({ kind, id, change }) => `${kind} ${id} ${change}`)

t.test(
  'changes: what happened between two moments, per resource, with the events that caused it',
  async (t) => {
    await alice.user.createCurrentUserRepo({ name: 'r', auto_init: true, default_branch: 'main' })
    const { data: bug } = await alice.repos.issueCreateLabel('alice', 'r', { name: 'bug', color: '#ff0000' })
    await alice.repos.issueCreateIssue('alice', 'r', { title: 'Old' })
    const from = await now()
    await alice.repos.issueEditIssue('alice', 'r', 1, { title: 'New', state: 'closed' })
    await alice.repos.issueAddLabel('alice', 'r', 1, { labels: [bug.id] })
    await alice.repos.issueCreateIssue('alice', 'r', { title: 'Second' })
    await alice.repos.issueEditLabel('alice', 'r', bug.id ?? 0, { color: '#00ff00' })
    await alice.repos.repoEdit('alice', 'r', { description: 'Words' })
    await alice.repos.repoCreateFile('alice', 'r', 'a.txt', { content: 'YQ==', new_branch: 'topic' })
    await alice.repos.repoCreatePullRequest('alice', 'r', { title: 'Pull', head: 'topic', base: 'main' })
    const { status, body, total } = await changes('r', `from=${from}`)
    t.equal(status, 200)
    t.equal(total, '6')
    t.same(kindsOf(body), [
      `repository ${(await alice.repos.repoGet('alice', 'r')).data.id} changed`,
      `label ${bug.id} changed`,
      'branch topic created',
      'pull_request 3 created',
      'issue 1 changed',
      'issue 2 created',
    ])
    const [repository, label, branch, pull, issue] = body.changes
    t.same(repository?.fields, [{ field: 'description', before: '', after: 'Words' }])
    t.same(label?.fields, [{ field: 'color', before: 'ff0000', after: '00ff00' }])
    t.match(branch?.fields, [{ field: 'name' }, { field: 'sha', before: null }, { field: 'message' }])
    t.match(pull?.fields.find(({ field }) => field === 'head')?.after, { ref: 'topic', repo: 'alice/r' })
    const changed = issue?.fields.map(({ field, before, after }) => [field, before, after])
    t.match(
      changed?.filter(([field]) => field !== 'closed_at'),
      [
        ['title', 'Old', 'New'],
        ['labels', [], ['bug']],
        ['state', 'open', 'closed'],
      ],
    )
    t.same(
      issue?.events.map(({ type, actor }) => [type, actor]),
      ['TitleChanged', 'StatusChanged', 'LabelsChanged'].map((type) => [type, 'alice']),
    )
  },
)

t.test('changes: who weakened the protection, for admins only', async (t) => {
  await alice.user.createCurrentUserRepo({ name: 'p', auto_init: true, default_branch: 'main' })
  const rule = { rule_name: 'main', required_approvals: 2 }
  await alice.repos.repoCreateBranchProtection('alice', 'p', rule)
  const from = await now()
  await alice.repos.repoEditBranchProtection('alice', 'p', 'main', { required_approvals: 0 })
  const { body } = await changes('p', `from=${from}&kind=branch_protection`)
  t.same(kindsOf(body), ['branch_protection main changed'])
  t.same(body.changes[0]?.fields, [{ field: 'required_approvals', before: 2, after: 0 }])
  t.match(body.changes[0]?.events, [{ type: 'BranchProtectionSet', actor: 'alice' }])
  t.same((await changes('p', `from=${from}`, 'bob')).body.changes, [])
  await alice.repos.repoDeleteBranchProtection('alice', 'p', 'main')
  t.same(kindsOf((await changes('p', `from=${from}`)).body), ['branch_protection main deleted'])
})

t.test(
  'changes: both moments are free, pages are pages, and a moment before the repository has nothing',
  async (t) => {
    await alice.user.createCurrentUserRepo({ name: 'm' })
    const start = await now()
    for (const title of ['a', 'b', 'c']) await alice.repos.issueCreateIssue('alice', 'm', { title })
    const middle = await now()
    await alice.repos.issueEditIssue('alice', 'm', 1, { title: 'z' })
    const between = await changes('m', `from=${start}&to=${middle}`)
    t.same(kindsOf(between.body), ['issue 1 created', 'issue 2 created', 'issue 3 created'])
    t.ok(between.body.changes[0]?.fields.some(({ field, after }) => field === 'title' && after === 'a'))
    const second = await changes('m', `from=${start}&to=${middle}&limit=1&page=2`)
    t.same([kindsOf(second.body), second.total], [['issue 2 created'], '3'])
    const all = await changes('m', 'from=2000-01-01')
    t.equal(all.body.from, null)
    t.match(kindsOf(all.body)[0], /^repository \d+ created$/)
    t.same((await changes('m', `from=${await now()}`)).body.changes, [])
  },
)

t.test('changes: what cannot be compared is refused with the field and the reason', async (t) => {
  await alice.user.createCurrentUserRepo({ name: 'bad', private: true })
  const refused = async (query: string, login: string | null = 'alice') => {
    const { status, body } = await changes('bad', query, login)
    return [status, body.message]
  }
  t.same(await refused(''), [422, 'from: is missing'])
  t.match(await refused('from=yesterday'), [422, /^from: must be a date/])
  t.match(await refused('from=@1&to=x'), [422, /^to: must be a date/])
  t.match(await refused('from=@1&kind=wiki'), [422, /^kind: must be among repository, /])
  t.same(await refused('from=@1&to=@1'), [404, 'to: the repository did not exist yet'])
  const [then, later] = [
    await now(),
    (await alice.repos.issueCreateIssue('alice', 'bad', { title: 'x' })) && (await now()),
  ]
  t.same(await refused(`from=${later}&to=${then}`), [422, 'from: must not be later than to'])
  t.match(await refused('from=@1&at=@1'), [422, /^at: this route cannot show the past/])
  t.match(await refused('from=@1', 'bob'), [404])
})
