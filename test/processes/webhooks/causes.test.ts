/** What webhooks say of issues that commits close, and of replies to review comments: as Gitea's notifier. */
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
  'webhooks of issues closed by a commit or a merge have its `commit_id`, and others have none',
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
