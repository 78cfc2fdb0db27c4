/** An event whose payload fails does not block later deliveries of a webhook. */
import t from 'tap'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'
import { startReceiver } from './receiver.ts'

const receiver = await startReceiver(t)
const server = await startTestServer(t, {
  LOG_LEVEL: 'silent',
  WEBHOOK_ALLOWED_HOSTS: 'loopback',
  // Every process of git is slower.
  GIT_DIFF_TIMEOUT_MS: '1',
})
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'told', auto_init: true })

async function hook(path: string, events: string[]): Promise<number> {
  const config = { url: receiver.url(path), content_type: 'json' }
  const wanted = { type: 'gitea' as const, config, events, active: true }
  return (await alice.repos.repoCreateHook('alice', 'told', wanted)).data.id ?? 0
}

t.test('commits whose changes take git too long are delivered without them', async (t) => {
  await hook('/pushes', ['push'])
  const work = await workTree(t, server.gitUrl('alice', 'alice/told'))
  await work.git('pull', '-q', 'origin', 'main')
  await work.git('commit', '-q', '--allow-empty', '-m', 'too much')
  await work.git('push', '-q', 'origin', 'HEAD:main')
  const [push] = await receiver.count('/pushes', 1)
  t.match(push?.json, {
    total_commits: 1,
    commits: [{ message: /^too much/, added: [], removed: [], modified: [] }],
  })
})

t.test('a payload that fails repeatedly is recorded as failed, and later events are delivered', async (t) => {
  const id = await hook('/issues', ['issues'])
  const { events } = server.services
  const { readPositions } = events
  let failures = 0
  events.readPositions = (positions) => {
    failures += 1
    if (failures > 3) return readPositions(positions)
    throw new Error('a mistake of ours')
  }
  t.teardown(() => {
    events.readPositions = readPositions
  })
  for (const title of ['one', 'two']) await alice.repos.issueCreateIssue('alice', 'told', { title })
  const [told] = await receiver.count('/issues', 1)
  t.match(told?.json, { issue: { title: 'two' } })
  const answer = await server.fetch('alice', `/api/v1/repos/alice/told/hooks/${id}/deliveries`)
  const rows = JSON.parse(await answer.text())
  t.match(rows.at(-1), { status: 'failed', problem: 'the server could not create the payload' })
})
