/** Every kind of delivery, with its names and the fields of Gitea's payloads. */
import t from 'tap'
import { loadConfig } from '../../../src/config/config.ts'
import { createWebhookDeliveries } from '../../../src/projections/models/webhooks/webhook-deliveries.fold.ts'
import { openReadStores } from '../../../src/server/stores.ts'
import { startPulls } from '../../commands/pull-requests/pull-repository.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { startReceiver } from './receiver.ts'

/** The required fields of `modules/structs/hook.go`. */
const COMMON = ['repository', 'sender']
const ISSUE = ['action', 'number', 'issue', 'commit_id', ...COMMON]
const PULL = ['action', 'number', 'pull_request', 'requested_reviewer', 'commit_id', 'review', ...COMMON]
const FIELDS: Record<string, string[]> = {
  issues: ISSUE,
  issue_assign: ISSUE,
  issue_label: [...ISSUE, 'changes'],
  issue_milestone: ISSUE,
  pull_request: PULL,
  pull_request_assign: PULL,
  pull_request_label: [...PULL, 'changes'],
  pull_request_milestone: PULL,
  pull_request_sync: [...PULL, 'before', 'after'],
  pull_request_review_request: PULL,
  pull_request_review_approved: PULL,
  pull_request_review_rejected: PULL,
  pull_request_review_comment: PULL,
  create: ['sha', 'ref', 'ref_type', ...COMMON],
  delete: ['ref', 'ref_type', 'pusher_type', ...COMMON],
  fork: ['forkee', ...COMMON],
  release: ['action', 'release', ...COMMON],
  repository: ['action', 'organization', ...COMMON],
}

t.test('each kind has its headers and fields, and an expired delivery unblocks the next one', async (t) => {
  const environment = { DATA_DIR: t.testdir(), WEBHOOK_ALLOWED_HOSTS: 'loopback' }
  const receiver = await startReceiver(t)
  const { server, alice, repository } = await startPulls(t, environment)
  const { call, branch, open, push, fork, label } = await repository(t, 'all', { writers: ['bob'] })
  const hook = async (path: string, events: string[]) => {
    const config = { url: receiver.url(path), content_type: 'json' }
    const option = { type: 'gitea' as const, config, events, active: true }
    const { data } = await alice.user.userCreateHook({ ...option, authorization_header: 'Bearer of-ci' })
    return data.id ?? 0
  }
  const reviews = ['pull_request_review', 'pull_request_review_request']
  await hook('/all', [
    'issues',
    'pull_request',
    ...reviews,
    'create',
    'delete',
    'fork',
    'release',
    'repository',
  ])
  let seen = 0
  /** The receiver's view of a request: header, type, and the action or the kind of the ref. */
  async function tells(what: Promise<unknown>, ...expected: [string, string, string][]): Promise<void> {
    await what
    const got = (await receiver.count('/all', seen + expected.length)).slice(seen)
    seen += expected.length
    t.same(
      got.map(({ headers, json }) => [
        headers['x-gitea-event'],
        headers['x-gitea-event-type'],
        json.action ?? json.ref_type ?? '',
      ]),
      expected,
    )
  }
  const must = async (login: string, method: string, path: string, body?: object) => {
    const { status, text } = await call(login, method, path, body)
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`)
  }
  const bug = await label('bug')
  await must('alice', 'POST', 'milestones', { title: 'Soon' })
  await tells(
    must('alice', 'POST', 'issues', { title: 'One', labels: [bug], milestone: 1, assignees: ['bob'] }),
    ['issues', 'issues', 'opened'],
    ['issues', 'issue_label', 'label_updated'],
    ['issues', 'issue_milestone', 'milestoned'],
    ['issues', 'issue_assign', 'assigned'],
  )
  await tells(must('alice', 'DELETE', 'issues/1/labels'), ['issues', 'issue_label', 'label_cleared'])
  await tells(must('alice', 'PATCH', 'issues/1', { milestone: 0 }), [
    'issues',
    'issue_milestone',
    'demilestoned',
  ])
  await tells(must('alice', 'PATCH', 'issues/1', { assignees: [] }), ['issues', 'issue_assign', 'unassigned'])

  await tells(branch('topic', { a: 'a' }), ['create', 'create', 'branch'])
  await tells(open('topic'), ['pull_request', 'pull_request', 'opened'])
  const pull = (suffix: string, action: string): [string, string, string] => [
    'pull_request',
    `pull_request_${suffix}`,
    action,
  ]
  await tells(must('alice', 'PATCH', 'pulls/2', { assignees: ['bob'] }), pull('assign', 'assigned'))
  await tells(must('alice', 'POST', 'issues/2/labels', { labels: [bug] }), pull('label', 'label_updated'))
  await tells(must('alice', 'PATCH', 'pulls/2', { milestone: 1 }), pull('milestone', 'milestoned'))
  await tells(branch('topic', { a: 'b' }, 'topic'), pull('sync', 'synchronized'))
  const reviewers = { reviewers: ['bob'] }
  await tells(
    must('alice', 'POST', 'pulls/2/requested_reviewers', reviewers),
    pull('review_request', 'review_requested'),
  )
  await tells(
    must('alice', 'DELETE', 'pulls/2/requested_reviewers', reviewers),
    pull('review_request', 'review_request_removed'),
  )
  const review = (event: string) => must('bob', 'POST', 'pulls/2/reviews', { event, body: event })
  await tells(review('COMMENT'), ['pull_request_comment', 'pull_request_review_comment', 'reviewed'])
  await tells(review('REQUEST_CHANGES'), [
    'pull_request_rejected',
    'pull_request_review_rejected',
    'reviewed',
  ])
  await tells(review('APPROVED'), ['pull_request_approved', 'pull_request_review_approved', 'reviewed'])

  await tells(
    must('alice', 'POST', 'releases', { tag_name: 'v1' }),
    ['create', 'create', 'tag'],
    ['release', 'release', 'published'],
  )
  const { body: release } = await call('alice', 'GET', 'releases/tags/v1')
  await tells(must('alice', 'PATCH', `releases/${release.id}`, { name: 'One' }), [
    'release',
    'release',
    'updated',
  ])
  await tells(must('alice', 'DELETE', `releases/${release.id}`), ['release', 'release', 'deleted'])
  await tells(must('alice', 'DELETE', 'tags/v1'), ['delete', 'delete', 'tag'])
  await tells(push('main:refs/heads/other'), ['create', 'create', 'branch'])
  await tells(must('alice', 'DELETE', 'branches/other'), ['delete', 'delete', 'branch'])
  await tells(fork('bob', 'all'), ['fork', 'fork', ''])
  await tells(alice.repos.repoDelete('alice', 'all'), ['repository', 'repository', 'deleted'])
  const got = receiver.at('/all')
  for (const { headers, json } of got) {
    const type = `${headers['x-gitea-event-type']}`
    t.same(Object.keys(json).sort(), FIELDS[type]?.sort(), `the fields of ${type}`)
    t.equal(headers.authorization, 'Bearer of-ci')
  }
  t.same(
    new Set(got.map(({ headers }) => headers['x-gitea-event-type'])),
    new Set(Object.keys(FIELDS)),
    'each kind came',
  )

  // A day later: the server is stopped, and waiting deliveries become a day older.
  const id = await hook('/day', ['repository'])
  receiver.answer('/day', (response) => response.writeHead(503).end())
  for (const name of ['first', 'second']) await alice.user.createCurrentUserRepo({ name })
  await receiver.count('/day', 1)
  await server.stop()
  receiver.answer('/day', (response, { body }) =>
    response.writeHead(body.includes('"name":"second"') ? 200 : 503).end(),
  )
  const { readStore, secrets } = await openReadStores(loadConfig(environment))
  const deliveries = createWebhookDeliveries(readStore)
  const first = await deliveries.next(id)
  if (first === undefined) throw new Error('nothing waits')
  t.match(first, { state: 'waiting', event: 'repository' })
  await deliveries.put({ ...first, at: first.at - 24 * 3_600_000, notBefore: 0 })
  await Promise.all([readStore.close(), secrets.close()])
  const before = receiver.at('/day').length
  const next = await startTestServer(t, environment)
  const delivered = await receiver.count('/day', before + 2)
  t.match(
    delivered.slice(before).map(({ json }) => json.repository),
    [{ name: 'first' }, { name: 'second' }],
    'the old one is tried once more, and then the next one goes',
  )
  const rows = async () => {
    const answer = await next.fetch('alice', `/api/v1/user/hooks/${id}/deliveries`)
    const all: { status: string; problem: string }[] = JSON.parse(await answer.text())
    return all
  }
  await until('it is recorded', async () => (await rows())[0]?.status === 'delivered')
  t.match(await rows(), [{ status: 'delivered' }, { status: 'failed', problem: /^given up: .*503/ }])
})
