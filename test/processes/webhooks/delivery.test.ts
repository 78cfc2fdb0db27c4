/** Webhooks deliver events to a real receiver on this machine. */
import { createHmac } from 'node:crypto'
import type { Hook } from 'gitea-js'
import t from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import { issueStream } from '../../../src/events/streams.ts'
import { startPulls } from '../../commands/pull-requests/pull-repository.ts'
import { aContext } from '../../stores.ts'
import { until } from '../../until.ts'
import { startReceiver } from './receiver.ts'

const { server, alice, bob, repository } = await startPulls(t, { WEBHOOK_ALLOWED_HOSTS: 'loopback' })
const receiver = await startReceiver(t)

const SECRET = 'a secret of the hook'

async function hook(repo: string, path: string, events: string[], more: object = {}): Promise<Hook> {
  const config = { url: receiver.url(path), content_type: 'json', secret: SECRET }
  const wanted = { type: 'gitea' as const, config, events, active: true, ...more }
  return (await alice.repos.repoCreateHook('alice', repo, wanted)).data
}

/** The deliveries of a hook from its admin's view. */
async function deliveries(repo: string, id: number | undefined) {
  const answer = await server.fetch('alice', `/api/v1/repos/alice/${repo}/hooks/${id}/deliveries`)
  const rows: { guid: string; status: string; attempts: number }[] = JSON.parse(await answer.text())
  return rows
}

t.test(
  'a push is delivered with its commits, their files, and headers signed in all of the usual ways',
  async (t) => {
    const { push, repoId, branch } = await repository(t, 'pushes')
    const { id } = await hook('pushes', '/pushes', ['push', 'create', 'delete'])
    const before = (await alice.repos.repoGetBranch('alice', 'pushes', 'main')).data.commit?.id
    const sha = await branch('main', { 'a/b.txt': 'b\n', 'README.md': 'changed\n' }, 'main')
    const [got] = await receiver.count('/pushes', 1)
    if (got === undefined) throw new Error('nothing came')
    const { headers, body, json } = got
    const sha256 = createHmac('sha256', SECRET).update(body).digest('hex')
    const sha1 = createHmac('sha1', SECRET).update(body).digest('hex')
    t.match(headers, {
      'content-type': 'application/json',
      'x-gitea-event': 'push',
      'x-gitea-event-type': 'push',
      'x-gitea-delivery': /^[0-9a-f-]{36}$/,
      'x-gitea-signature': sha256,
      'x-gogs-event': 'push',
      'x-gogs-signature': sha256,
      'x-hub-signature': `sha1=${sha1}`,
      'x-hub-signature-256': `sha256=${sha256}`,
      'x-github-event': 'push',
      'x-github-delivery': headers['x-gitea-delivery'],
    })
    t.match(json, {
      ref: 'refs/heads/main',
      before,
      after: sha,
      compare_url: `${server.url}/alice/pushes/compare/${before}...${sha}`,
      total_commits: 1,
      commits: [
        {
          id: sha,
          url: `${server.url}/alice/pushes/commit/${sha}`,
          added: ['a/b.txt'],
          removed: [],
          modified: ['README.md'],
          author: { email: 'tester@example.org' },
        },
      ],
      head_commit: { id: sha },
      repository: {
        id: repoId,
        full_name: 'alice/pushes',
        html_url: `${server.url}/alice/pushes`,
        clone_url: `${server.url}/alice/pushes.git`,
        default_branch: 'main',
      },
      pusher: { login: 'alice' },
      sender: { login: 'alice', username: 'alice' },
    })

    const topic = await branch('topic', { 'c.txt': 'c\n' })
    await receiver.count('/pushes', 3)
    await push(':refs/heads/topic')
    const all = await receiver.count('/pushes', 4)
    t.same(receiver.events('/pushes'), ['push', 'create', 'push', 'delete'], 'a new branch, and its end')
    t.match(all[1]?.json, { ref: 'topic', ref_type: 'branch', sha: topic })
    t.match(all[2]?.json, { before: '0'.repeat(40), after: topic, commits: [{ id: topic }] })
    t.match(all[3]?.json, { ref: 'topic', ref_type: 'branch', pusher_type: 'user' })

    await until('all are recorded', async () => (await deliveries('pushes', id)).length === 4)
    await until('as delivered', async () =>
      (await deliveries('pushes', id)).every(({ status }) => status === 'delivered'),
    )
    const rows = await deliveries('pushes', id)
    t.match(rows[0], { event_type: 'delete', status_code: 200, attempts: 1, problem: '' }, 'the newest first')
    t.same(new Set(rows.map(({ guid }) => guid)).size, 4)
  },
)

t.test('issues, comments and pull requests are sent in their state right after each change', async (t) => {
  const { branch, open, label, merge, call } = await repository(t, 'talk')
  await hook('talk', '/talk', ['issues', 'pull_request'])
  await alice.repos.issueCreateIssue('alice', 'talk', { title: 'First', body: 'Text' })
  const bug = await label('bug')
  await alice.repos.issueAddLabel('alice', 'talk', 1, { labels: [bug] })
  await alice.repos.issueEditIssue('alice', 'talk', 1, { title: 'Second', assignees: ['alice'] })
  const { data: comment } = await bob.repos.issueCreateComment('alice', 'talk', 1, { body: 'Hm' })
  await bob.repos.issueEditComment('alice', 'talk', comment.id ?? 0, { body: 'Aha' })
  await bob.repos.issueDeleteComment('alice', 'talk', comment.id ?? 0)
  await alice.repos.issueEditIssue('alice', 'talk', 1, { state: 'closed' })
  const got = await receiver.count('/talk', 8)
  const shown = got.map(({ headers, json }) => [
    headers['x-gitea-event'],
    headers['x-gitea-event-type'],
    json.action,
  ])
  t.same(shown, [
    ['issues', 'issues', 'opened'],
    ['issues', 'issue_label', 'label_updated'],
    ['issues', 'issues', 'edited'],
    ['issues', 'issue_assign', 'assigned'],
    ['issue_comment', 'issue_comment', 'created'],
    ['issue_comment', 'issue_comment', 'edited'],
    ['issue_comment', 'issue_comment', 'deleted'],
    ['issues', 'issues', 'closed'],
  ])
  t.match(got[0]?.json, {
    number: 1,
    issue: { title: 'First', body: 'Text', state: 'open', labels: [], user: { login: 'alice' } },
    repository: { full_name: 'alice/talk' },
    sender: { login: 'alice' },
  })
  t.match(got[1]?.json, {
    issue: { title: 'First', labels: [{ name: 'bug' }] },
    changes: { added_labels: [{ id: bug, name: 'bug', color: 'aabbcc' }], removed_labels: [] },
  })
  t.match(got[2]?.json, {
    issue: { title: 'Second', assignees: null },
    changes: { title: { from: 'First' } },
  })
  t.match(got[4]?.json, { comment: { body: 'Hm' }, is_pull: false, sender: { login: 'bob' } })
  t.match(got[5]?.json, { comment: { body: 'Aha' }, changes: { body: { from: 'Hm' } } })
  t.match(got[6]?.json, { comment: { body: 'Aha', user: { login: 'bob' } } })
  t.match(got[7]?.json, { issue: { state: 'closed' } })

  const first = await branch('topic', { 'a.txt': 'a\n' })
  const index = await open('topic')
  const second = await branch('topic', { 'a.txt': 'b\n' }, 'topic')
  await receiver.count('/talk', 10)
  await call('alice', 'POST', `issues/${index}/comments`, { body: 'Nice' })
  await merge(index)
  const pulls = (await receiver.count('/talk', 12)).slice(8)
  t.same(
    pulls.map(({ headers, json }) => [headers['x-gitea-event'], headers['x-gitea-event-type'], json.action]),
    [
      ['pull_request', 'pull_request', 'opened'],
      ['pull_request', 'pull_request_sync', 'synchronized'],
      ['issue_comment', 'pull_request_comment', 'created'],
      ['pull_request', 'pull_request', 'closed'],
    ],
  )
  t.match(pulls[0]?.json, {
    number: index,
    pull_request: {
      number: index,
      state: 'open',
      merged: false,
      head: { ref: 'topic', sha: first, repo: { full_name: 'alice/talk' } },
      base: {
        ref: 'main',
        repo: { clone_url: `${server.url}/alice/talk.git`, ssh_url: '', size: Number, language: String },
      },
    },
    repository: { ssh_url: '', size: Number, language: String },
  })
  t.match(pulls[1]?.json, { before: first, after: second, pull_request: { head: { sha: second } } })
  t.match(pulls[2]?.json, { is_pull: true, pull_request: { number: index }, comment: { body: 'Nice' } })
  t.match(pulls[3]?.json, { pull_request: { state: 'closed', merged: true, merged_by: { login: 'alice' } } })
})

t.test('tags, statuses, forks and repositories; a form has the JSON in a field', async (t) => {
  const { push, fork, call, tip } = await repository(t, 'others')
  const form = { config: { url: receiver.url('/others'), content_type: 'form', secret: SECRET } }
  await hook('others', '/others', ['create', 'delete', 'push', 'status', 'fork', 'repository'], form)
  await push('main:refs/tags/v1')
  const sha = await tip('main')
  await call('alice', 'POST', `statuses/${sha}`, { state: 'success', context: 'ci', description: 'fine' })
  await fork('bob', 'others-of-bob')
  const got = await receiver.count('/others', 4)
  t.same(receiver.events('/others'), ['push', 'create', 'status', 'fork'])
  t.match(got[0]?.headers, {
    'content-type': 'application/x-www-form-urlencoded',
    'x-gitea-signature': createHmac('sha256', SECRET)
      .update(new URLSearchParams(got[0]?.body).get('payload') ?? '')
      .digest('hex'),
  })
  t.match(got[0]?.json, { ref: 'refs/tags/v1', commits: [], head_commit: { id: sha } })
  t.match(got[1]?.json, { ref: 'v1', ref_type: 'tag', sha })
  t.match(got[2]?.json, { sha, state: 'success', context: 'ci', description: 'fine', commit: { id: sha } })
  t.match(got[3]?.json, {
    forkee: { full_name: 'alice/others' },
    repository: { full_name: 'bob/others-of-bob' },
    sender: { login: 'bob' },
  })
})

t.test('reviews, review requests, and releases that are not drafts', async (t) => {
  const { branch, open, call } = await repository(t, 'reviewed', { writers: ['bob'] })
  await hook('reviewed', '/reviewed', ['pull_request_review', 'pull_request_review_request', 'release'])
  await branch('topic', { 'a.txt': 'a\n' })
  const index = await open('topic')
  await call('alice', 'POST', `pulls/${index}/requested_reviewers`, { reviewers: ['bob'] })
  await call('bob', 'POST', `pulls/${index}/reviews`, { event: 'APPROVED', body: 'Fine' })
  const draft = await call('alice', 'POST', 'releases', { tag_name: 'v1', name: 'One', draft: true })
  await call('alice', 'PATCH', `releases/${draft.body.id}`, { draft: false })
  await call('alice', 'DELETE', `releases/${draft.body.id}`)
  const got = await receiver.count('/reviewed', 4)
  t.same(
    got.map(({ headers, json }) => [headers['x-gitea-event'], headers['x-gitea-event-type'], json.action]),
    [
      ['pull_request', 'pull_request_review_request', 'review_requested'],
      ['pull_request_approved', 'pull_request_review_approved', 'reviewed'],
      ['release', 'release', 'published'],
      ['release', 'release', 'deleted'],
    ],
  )
  t.match(got[0]?.json, { requested_reviewer: { login: 'bob' }, pull_request: { number: index } })
  t.match(got[1]?.json, {
    review: { type: 'pull_request_review_approved', content: 'Fine' },
    sender: { login: 'bob' },
  })
  t.match(got[2]?.json, { release: { tag_name: 'v1', name: 'One', draft: false } })
  t.match(got[3]?.json, { release: { tag_name: 'v1' } })
})

t.test(
  'a hook gets only its events, of branches that its filter matches, and only while it is active',
  async (t) => {
    const { branch } = await repository(t, 'filtered')
    await hook('filtered', '/branches', ['push'], { branch_filter: '{main,release/**}' })
    await hook('filtered', '/inactive', ['push'], { active: false })
    await hook('filtered', '/issues', ['issues_only'])
    await branch('topic', { 'a.txt': 'a\n' })
    await branch('release/1', { 'b.txt': 'b\n' })
    await alice.repos.issueCreateIssue('alice', 'filtered', { title: 'First' })
    await receiver.count('/issues', 1)
    await branch('main', { 'c.txt': 'c\n' }, 'main')
    const got = await receiver.count('/branches', 2)
    t.same(
      got.map(({ json }) => json.ref),
      ['refs/heads/release/1', 'refs/heads/main'],
    )
    t.same([receiver.at('/inactive').length, receiver.at('/issues').length], [0, 1])
  },
)

t.test('a failure is retried, in order; a slow receiver blocks no other; a refusal is final', async (t) => {
  const { branch } = await repository(t, 'failures')
  const failing = await hook('failures', '/failing', ['create'])
  const refusing = await hook('failures', '/refusing', ['create'])
  await hook('failures', '/slow', ['create'])
  await hook('failures', '/quick', ['create'])
  let failures = 2
  receiver.answer('/failing', (response) => response.writeHead(failures-- > 0 ? 503 : 204).end())
  receiver.answer('/refusing', (response, { json }) =>
    response.writeHead(json.ref === 'one' ? 404 : 200).end(),
  )
  const held: (() => void)[] = []
  receiver.answer('/slow', (response) => void held.push(() => response.writeHead(200).end()))
  await branch('one', { '1.txt': '1\n' })
  await branch('two', { '2.txt': '2\n' })
  await receiver.count('/quick', 2)
  t.equal(receiver.at('/slow').length, 1, 'the second one waits for the first')
  const got = await receiver.count('/failing', 4)
  t.same(
    got.map(({ json }) => json.ref),
    ['one', 'one', 'one', 'two'],
  )
  const guids = got.map(({ headers }) => headers['x-gitea-delivery'])
  t.same(new Set(guids).size, 2, 'an attempt has the id of the one before')
  await receiver.count('/refusing', 2)
  await until(
    'the last is recorded',
    async () => (await deliveries('failures', refusing.id))[0]?.status === 'delivered',
  )
  t.match(await deliveries('failures', refusing.id), [
    { status: 'delivered', status_code: 200 },
    { status: 'failed', status_code: 404, attempts: 1, problem: 'the receiver answered with 404' },
  ])
  await until(
    'the third attempt is recorded',
    async () => (await deliveries('failures', failing.id))[1]?.attempts === 3,
  )
  held.shift()?.()
  await receiver.count('/slow', 2)
  held.shift()?.()
})

t.test('hooks of an organization, of a user and of the site cover all repositories there', async (t) => {
  const admin = await server.as('admin')
  await alice.orgs.orgCreate({ username: 'acme' })
  const wanted = (path: string) => ({
    type: 'gitea' as const,
    config: { url: receiver.url(path), content_type: 'json' },
    events: ['repository', 'issues'],
    active: true,
  })
  await alice.orgs.orgCreateHook('acme', wanted('/acme'))
  await bob.user.userCreateHook(wanted('/bob'))
  const { data: site } = await admin.admin.adminCreateHook(wanted('/site'))
  await alice.orgs.createOrgRepo('acme', { name: 'tools' })
  await alice.repos.issueCreateIssue('acme', 'tools', { title: 'First' })
  await bob.user.createCurrentUserRepo({ name: 'of-bob' })
  await alice.repos.repoDelete('acme', 'tools')
  const got = await receiver.count('/acme', 3)
  t.same(
    got.map(({ json }) => json.action),
    ['created', 'opened', 'deleted'],
  )
  t.match(got[2]?.json, {
    repository: { full_name: 'acme/tools', private: false },
    organization: { login: 'acme' },
    sender: { login: 'alice' },
  })
  t.match((await receiver.count('/bob', 1))[0]?.json, { action: 'created', repository: { name: 'of-bob' } })
  const names = (await receiver.count('/site', 4)).map(({ json }) => json.action)
  t.same(names, ['created', 'opened', 'created', 'deleted'])
  t.equal(got[0]?.headers['x-gitea-signature'], '', 'without a secret there is no signature')
  await admin.admin.adminDeleteHook(site.id ?? 0)
})

t.test('a test sends the newest commit of a branch; a redirect is followed with its body', async (t) => {
  const { branch, call } = await repository(t, 'tested')
  const { id } = await hook('tested', '/moved?token=x', ['pull_request'])
  receiver.answer('/moved?token=x', (response) =>
    response.writeHead(307, { location: receiver.url('/tested') }).end(),
  )
  const sha = await branch('main', { 'a.txt': 'a\n' }, 'main')
  await alice.repos.repoTestHook('alice', 'tested', id ?? 0)
  const [got] = await receiver.count('/tested', 1)
  t.match(got?.json, { ref: 'refs/heads/main', before: sha, after: sha, commits: [{ id: sha }] })
  t.equal((await call('alice', 'POST', `hooks/${id}/tests?ref=nowhere`)).status, 404)
})

t.test('an erased text is not sent later', async (t) => {
  const { call } = await repository(t, 'erased')
  await hook('erased', '/erased', ['issues'])
  let isUp = false
  receiver.answer('/erased', (response) => response.writeHead(isUp ? 200 : 500).end())
  await alice.repos.issueCreateIssue('alice', 'erased', { title: 'Secret title', body: 'secret body' })
  await receiver.count('/erased', 1)
  t.equal((await call('alice', 'POST', 'issues/1/erase', { all: true })).status, 204)
  isUp = true
  const came = receiver.at('/erased').length
  const got = await receiver.count('/erased', came + 1)
  t.notMatch(got.at(-1)?.body, /[Ss]ecret (title|body)/)
  t.match(got.at(-1)?.json, { action: 'opened', issue: { title: /^erased by alice/ } })
})

t.test('events on a server whose clock is days behind are delivered, and retried', async (t) => {
  const { repoId } = await repository(t, 'behind')
  await hook('behind', '/behind', ['issue_comment'])
  await alice.repos.issueCreateIssue('alice', 'behind', { title: 'One' })
  let tries = 0
  receiver.answer('/behind', (response) => response.writeHead(++tries === 1 ? 503 : 200).end())
  const context = aContext({ at: new Date(Date.now() - 2 * 24 * 3_600_000).toISOString() })
  const author = { id: 1, login: 'admin' }
  const data = { repoId, index: 1, commentId: 4711, author, body: 'Hello' }
  const comment = { type: 'CommentAdded', data } as const
  await append(server.services, context, issueStream(repoId, 1), 'comment', [comment], 'any')
  const [, again] = await receiver.count('/behind', 2)
  t.match(again?.json, { action: 'created', comment: { id: 4711 } })
})
