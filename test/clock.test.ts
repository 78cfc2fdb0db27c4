/** The clock of the machine is set while a server runs: forward by a year, and back. */
import t from 'tap'
import { workTree } from './git-client.ts'
import { clockOf, YEAR_MS } from './set-clock.ts'
import { startTestServer } from './start-server.ts'
import { until } from './until.ts'

t.test('after the clock was set back, nobody waits for what was to be by the old one', async (t) => {
  const setClock = clockOf(t)
  const server = await startTestServer(t, { MAX_OWNER_BYTES: '400KiB' })
  const alice = await server.as('alice')
  setClock(YEAR_MS)
  const { data: repository } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const measuredAt = async () =>
    Date.parse((await server.services.diskUsage.get(repository.id ?? 0))?.measuredAt ?? '')
  await until('it is measured', async () => (await measuredAt()) > 0)
  const wrong = { headers: { authorization: `Basic ${btoa('alice:wrong')}` } }
  const signIn = () => fetch(`${server.url}/api/v1/user`, wrong)
  while ((await signIn()).status !== 429);
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'Files' })
  const attach = () =>
    alice.repos.issueCreateIssueAttachment('alice', 'app', 1, {
      attachment: new File([new Uint8Array(150 * 1024)], 'zeros.txt'),
    })
  await attach()

  setClock(0)
  const seconds = Number((await signIn()).headers.get('retry-after'))
  t.ok(seconds > 0 && seconds <= 300, `a lockout ends in ${seconds} s`)
  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  await work.commit('Add a file', { 'a.txt': 'a' })
  await work.git('push', '-q', 'origin', 'main')
  await until('it is measured by the clock as it is now', async () => (await measuredAt()) <= Date.now())
  t.equal((await attach()).status, 201, 'a file that was measured counts once')
})
