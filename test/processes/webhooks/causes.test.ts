/** Webhooks for issues that commits close, and for replies to review comments, as in Gitea's notifier. */
import t from 'tap'
import { startPulls } from '../../commands/pull-requests/pull-repository.ts'
import { startReceiver } from './receiver.ts'

const receiver = await startReceiver(t)
const { alice, repository } = await startPulls(t, { WEBHOOK_ALLOWED_HOSTS: 'loopback' })

async function hooked(name: string, events: string[]) {
  const made = await repository(t, name, { writers: ['bob'] })
  const config = { url: receiver.url(`/${name}`), content_type: 'json' }
  await alice.repos.repoCreateHook('alice', name, { type: 'gitea', config, events, active: true })
  const must = async (login: string, method: string, path: string, body?: object) => {
    const { status, text, body: json } = await made.call(login, method, path, body)
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`)
    return json
  }
  return { ...made, must, told: (count: number) => receiver.count(`/${name}`, count) }
}

t.test(
  'webhooks of issues closed by a commit or a merge have its `commit_id`, and others do not',
  async (t) => {
    const { must, told, branch, open, work, push } = await hooked('closed', ['issues'])
    for (const title of ['pushed', 'merged', 'requested']) await must('alice', 'POST', 'issues', { title })
    await must('alice', 'PATCH', 'issues/3', { state: 'closed' })
    await told(4)
    await branch('topic', { a: 'a' })
    const index = await open('topic')
    await must('alice', 'PATCH', `issues/${index}`, { body: 'fixes #2' })
    await must('alice', 'POST', `pulls/${index}/merge`, { Do: 'merge' })
    await told(5)
    const { merge_commit_sha } = await must('alice', 'GET', `pulls/${index}`)
    await work.git('pull', '-q', 'origin', 'main')
    const commit = await work.commit('closes #1', { b: 'b' })
    await push('HEAD:main')
    const got = await told(6)
    t.match(
      got.slice(3).map(({ json }) => json),
      [
        { action: 'closed', issue: { title: 'requested' }, commit_id: '' },
        { action: 'closed', issue: { title: 'merged' }, commit_id: merge_commit_sha },
        { action: 'closed', issue: { title: 'pushed' }, commit_id: commit },
      ],
    )
  },
)

t.test('replies to review comments send a webhook: `pull_request_comment`, as in Gitea', async (t) => {
  const { must, told, branch, open, get } = await hooked('replied', [
    'pull_request_comment',
    'pull_request_review',
  ])
  await branch('topic', { a: 'a\n' })
  const index = await open('topic')
  const comments = [{ path: 'a', body: 'Why?', new_position: 1 }]
  const { id } = await must('bob', 'POST', `pulls/${index}/reviews`, { event: 'COMMENT', comments })
  const [root] = await must('alice', 'GET', `pulls/${index}/reviews/${id}/comments`)
  const reply = await must('alice', 'POST', `pulls/${index}/comments/${root.id}/replies`, { body: 'So' })
  await must('alice', 'POST', `issues/${index}/comments`, { body: 'Then' })
  const got = await told(3)
  t.same(
    got.map(({ headers, json }) => [headers['x-gitea-event'], headers['x-gitea-event-type'], json.action]),
    [
      ['pull_request_comment', 'pull_request_review_comment', 'reviewed'],
      ['issue_comment', 'pull_request_comment', 'created'],
      ['issue_comment', 'pull_request_comment', 'created'],
    ],
    'and the comments of a review are told with it',
  )
  const [, ofReply, ofComment] = got.map(({ json }) => json)
  t.match(ofReply, {
    comment: { id: reply.id, body: 'So', user: { login: 'alice' } },
    pull_request: { number: index, title: (await get(index)).title },
    issue: { number: index },
    sender: { login: 'alice' },
    is_pull: true,
  })
  t.same(Object.keys(ofReply ?? {}).sort(), Object.keys(ofComment ?? {}).sort())
})
