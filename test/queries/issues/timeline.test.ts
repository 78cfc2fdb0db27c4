import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { discussionStream } from '../../../src/events/streams.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

const server = await startTestServer(t)
const { services } = server
const [alice, bob] = await Promise.all([server.as('alice'), server.as('bob')])

async function repository(name: string, options: object = {}) {
  const { data } = await alice.user.createCurrentUserRepo({ name, ...options })
  await alice.repos.repoAddCollaborator('alice', name, 'bob', { permission: 'write' })
  const repoId = data.id ?? 0
  return {
    repoId,
    timeline: async (index: number, query: object = {}, who = alice) =>
      (await who.repos.issueGetCommentsAndTimeline('alice', name, index, query)).data,
    edit: (index: number, option: object) => alice.repos.issueEditIssue('alice', name, index, option),
    say: async (index: number, body: string, who = alice) =>
      (await who.repos.issueCreateComment('alice', name, index, { body })).data,
    open: async (option: object = {}) =>
      (await alice.repos.issueCreateIssue('alice', name, { title: 'T', ...option })).data,
    label: async (label: string) =>
      (await alice.repos.issueCreateLabel('alice', name, { name: label, color: '#aabbcc' })).data,
    milestone: async (title: string) =>
      (await alice.repos.issueCreateMilestone('alice', name, { title })).data,
    get: (login: string | null, path: string) =>
      server.fetch(login, `/api/v1/repos/alice/${name}/issues/${path}`),
    /** Gitea's client sends this body without its type. */
    async depend(method: 'POST' | 'DELETE', index: number, dependency: object) {
      const path = `/api/v1/repos/alice/${name}/issues/${index}/dependencies`
      const { ok, status } = await server.fetch('alice', path, { method, body: JSON.stringify(dependency) })
      if (!ok) throw new Error(`dependency: ${status}`)
    },
  }
}

t.test("an issue's timeline has all its events, in order and with Gitea's names", async (t) => {
  const { open, edit, say, label, milestone, timeline, depend } = await repository('issue')
  const [bug, v1, other] = [await label('bug'), await milestone('v1'), await open()]
  const { number: index = 0 } = await open({ title: 'Old', labels: [bug.id] })
  const first = await say(index, 'Hello', bob)
  await edit(index, { title: 'New' })
  await edit(index, { milestone: v1.id })
  await edit(index, { assignees: ['bob'] })
  await edit(index, { due_date: '2026-03-01T00:00:00Z' })
  await edit(index, { due_date: '2026-04-01T00:00:00Z' })
  await edit(index, { unset_due_date: true })
  await edit(index, { assignees: [] })
  await depend('POST', index, { index: other.number })
  await depend('DELETE', index, { index: other.number })
  await edit(index, { state: 'closed' })
  await edit(index, { state: 'open' })

  const rows = await timeline(index)
  t.match(rows, [
    { type: 'label', label: bug, body: '1', user: { login: 'alice' } },
    {
      ...first,
      type: 'comment',
      assets: undefined,
      original_author: undefined,
      original_author_id: undefined,
    },
    { type: 'change_title', old_title: 'Old', new_title: 'New' },
    { type: 'milestone', old_milestone: null, milestone: { id: v1.id, title: 'v1' } },
    { type: 'assignees', assignee: { login: 'bob' }, removed_assignee: false },
    { type: 'added_deadline', body: '2026-03-01' },
    { type: 'modified_deadline', body: '2026-04-01|2026-03-01' },
    { type: 'removed_deadline', body: '2026-04-01' },
    { type: 'assignees', assignee: { login: 'bob' }, removed_assignee: true },
    { type: 'add_dependency', dependent_issue: { number: other.number } },
    { type: 'remove_dependency', dependent_issue: { number: other.number } },
    { type: 'close' },
    { type: 'reopen' },
  ])
  t.equal(rows.length, 13)
  const page = `${server.url}/alice/issue/issues/${index}`
  for (const row of rows) {
    const { id, html_url, issue_url, pull_request_url } = row
    const urls = { html_url: `${page}#issuecomment-${id}`, issue_url: page, pull_request_url: '' }
    t.same({ html_url, issue_url, pull_request_url }, urls)
    t.ok(Number.isSafeInteger(id))
  }
})

t.test(
  "a pull request's timeline has pushes, targets, schedules, the merge and the deleted branch",
  async (t) => {
    const { timeline, say } = await repository('pull', { auto_init: true })
    const work = await workTree(t, server.gitUrl('alice', 'alice/pull'))
    await work.git('push', '-q', 'origin', 'main:next')
    await work.git('checkout', '-q', '-b', 'topic')
    const push = async (file: string) => {
      const sha = await work.commit(`Add ${file}`, { [file]: 'x\n' })
      await work.git('push', '-q', 'origin', 'topic')
      return sha
    }
    const first = await push('a')
    const option = { head: 'topic', base: 'main', title: 'Topic' }
    const { number: index = 0 } = (await alice.repos.repoCreatePullRequest('alice', 'pull', option)).data
    const second = await push('b')
    const { repos } = alice
    await until(
      'the push is in the timeline',
      async () => (await repos.repoGetPullRequest('alice', 'pull', index)).data.head?.sha === second,
    )
    await repos.repoEditPullRequest('alice', 'pull', index, { base: 'next' })
    await say(index, 'Fine', bob)
    await repos.repoCreateStatus('alice', 'pull', second, { state: 'pending', context: 'ci' })
    const schedule = { Do: 'merge', merge_when_checks_succeed: true } as const
    await bob.repos.repoMergePullRequest('alice', 'pull', index, schedule)
    await repos.repoCancelScheduledAutoMerge('alice', 'pull', index)
    await repos.repoCreateStatus('alice', 'pull', second, { state: 'success', context: 'ci' })
    await bob.repos.repoMergePullRequest('alice', 'pull', index, {
      Do: 'merge',
      delete_branch_after_merge: true,
    })
    const merged = (await repos.repoGetPullRequest('alice', 'pull', index)).data
    const rows = await timeline(index)
    t.match(rows, [
      { type: 'pull_push', ref_commit_sha: first, user: { login: 'alice' } },
      { type: 'pull_push', ref_commit_sha: second },
      { type: 'change_target_branch', old_ref: 'main', new_ref: 'next' },
      { type: 'comment', body: 'Fine', user: { login: 'bob' } },
      { type: 'pull_scheduled_merge', user: { login: 'bob' } },
      { type: 'pull_cancel_scheduled_merge', user: { login: 'alice' }, body: '' },
      { type: 'merge_pull', ref_commit_sha: merged.merge_commit_sha, user: { login: 'bob' } },
      { type: 'delete_branch', old_ref: 'topic' },
    ])
    t.equal(rows.length, 8)
    t.same(JSON.parse(rows[1]?.body ?? ''), { is_force_push: false, commit_ids: [second] })
    t.equal(rows[0]?.pull_request_url, `${server.url}/alice/pull/pulls/${index}`)
    t.equal(rows[0]?.issue_url, '')
  },
)

t.test('a forced push is marked as such, with the old and the new head, as in Gitea', async (t) => {
  const { timeline } = await repository('forced', { auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/forced'))
  await work.git('checkout', '-q', '-b', 'topic')
  const first = await work.commit('One', { a: 'x\n' })
  await work.git('push', '-q', 'origin', 'topic')
  const option = { head: 'topic', base: 'main', title: 'Topic' }
  const { number: index = 0 } = (await alice.repos.repoCreatePullRequest('alice', 'forced', option)).data
  await work.git('reset', '-q', '--hard', 'main')
  const other = await work.commit('Another', { b: 'x\n' })
  const pushed = async (sha: string) => {
    await work.git('push', '-q', '--force', 'origin', 'topic')
    await until(
      'the push is in the timeline',
      async () => (await timeline(index)).at(-1)?.ref_commit_sha === sha,
    )
    return JSON.parse((await timeline(index)).at(-1)?.body ?? '')
  }
  t.same(await pushed(other), { is_force_push: true, commit_ids: [first, other] })
  const onto = await work.commit('On top', { c: 'x\n' })
  t.same(await pushed(onto), { is_force_push: false, commit_ids: [onto] }, 'also with --force it is none')
  await work.git('reset', '-q', '--hard', other)
  t.same(await pushed(other), { is_force_push: true, commit_ids: [onto, other] })
})

t.test('comments are in the timeline in their current state, and deleted ones are not', async (t) => {
  const { open, say, timeline } = await repository('texts')
  await open()
  const [a, b] = [await say(1, 'a'), await say(1, 'b')]
  t.match(await timeline(1), [{ body: 'a' }, { body: 'b' }])
  const { data } = await alice.repos.issueEditComment('alice', 'texts', a.id ?? 0, { body: 'A' })
  t.match(await timeline(1), [
    { id: a.id, body: 'A', created_at: a.created_at, updated_at: data.updated_at },
    { id: b.id, body: 'b' },
  ])
  await alice.repos.issueDeleteComment('alice', 'texts', b.id ?? 0)
  const rows = await timeline(1)
  t.match(rows, [{ body: 'A' }])
  t.equal(rows.length, 1)
})

t.test('deleted labels and milestones are shown with their last name', async (t) => {
  const { open, label, milestone, timeline } = await repository('gone')
  const [bug, v1] = [await label('bug'), await milestone('v1')]
  await open({ labels: [bug.id], milestone: v1.id })
  await alice.repos.issueDeleteLabel('alice', 'gone', bug.id ?? 0)
  await alice.repos.issueDeleteMilestone('alice', 'gone', `${v1.id}`)
  t.match(await timeline(1), [
    { type: 'milestone', milestone: { id: v1.id, title: 'v1' } },
    { type: 'label', label: { id: bug.id, name: 'bug' } },
  ])
})

t.test('an issue that the requester may not see is not shown as a dependency', async (t) => {
  const { open, timeline, depend } = await repository('depends')
  const hidden = await repository('secret', { private: true })
  await open()
  await hidden.open({ title: 'Secret' })
  await depend('POST', 1, { owner: 'alice', repo: 'secret', index: 1 })
  t.match(await timeline(1), [{ type: 'add_dependency', dependent_issue: { title: 'Secret' } }])
  const shown = await timeline(1, {}, server.anonymous)
  t.match(shown, [{ type: 'add_dependency', dependent_issue: null }])
})

t.test('a timeline has pages, and can be filtered by since and before', async (t) => {
  const { open, say, edit, timeline, get } = await repository('paged')
  await open()
  await say(1, 'a')
  await edit(1, { title: 'b' })
  await say(1, 'c')
  // The history has milliseconds; answers have whole seconds.
  const history: { at: string }[] = JSON.parse(await (await get(null, '1/history')).text())
  const [, first, , last] = history.map(({ at }) => at)
  const types = async (query: object) => (await timeline(1, query)).map(({ type, body }) => body || type)
  t.same(await types({ limit: 2 }), ['a', 'change_title'])
  t.same(await types({ limit: 2, page: 2 }), ['c'])
  t.same(await types({ limit: 2, page: 9 }), [])
  t.same(await types({ since: last }), ['c'])
  t.same(await types({ before: first }), ['a'])
  const answer = await get(null, '1/timeline?limit=2')
  t.equal(answer.headers.get('x-total-count'), '3')
  t.match(answer.headers.get('link'), /page=2.*rel="next"/)
  t.equal((await get(null, '1/timeline?since=never')).status, 422)
  for (const index of ['2', '0', 'x', '9223372036854775808']) {
    t.equal((await get('alice', `${index}/timeline`)).status, 404)
  }
  await repository('unseen', { private: true })
  t.equal((await server.fetch(null, '/api/v1/repos/alice/unseen/issues/1/timeline')).status, 404)
})

t.test('a timeline of thousands of events is read once, and later only its new events', async (t) => {
  const { repoId, open, say, get } = await repository('epic')
  await open()
  const place = { repoId, index: 1 }
  const stream = discussionStream({ ...place, isPull: false })
  const metadata = {
    actor: { id: 1, login: 'admin' },
    at: new Date().toISOString(),
    correlationId: 'c',
    causationId: 'c',
    schema: 1,
  }
  const titles = Array.from(
    { length: 2000 },
    (_, i): DomainEvent => ({
      type: 'TitleChanged',
      data: { ...place, oldTitle: `${i}`, title: `${i + 1}` },
    }),
  )
  const { position } = await services.events.append(
    stream,
    titles.map((event) => ({ ...event, id: randomUUID(), metadata })),
    'any',
  )
  await services.projector.waitFor(position, 60_000)
  const page = async (number: number) => {
    const answer = await get('alice', `1/timeline?limit=50&page=${number}`)
    const rows: unknown = await answer.json()
    return { total: answer.headers.get('x-total-count'), rows: Array.isArray(rows) ? rows : [] }
  }
  const last = await page(40)
  t.equal(last.total, '2000')
  t.match(last.rows[49], { type: 'change_title', new_title: '2000' })
  const { id } = await say(1, 'At last')
  t.match(await page(41), { total: '2001', rows: [{ type: 'comment', id, body: 'At last' }] })
  const [first] = await Promise.all([page(1), page(2), page(3)])
  t.match(first, { total: '2001', rows: [{ new_title: '1' }] })
})
