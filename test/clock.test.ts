/**
 * The clock of the machine is set while a server runs: forward by a year, and back.
 * In a process of its own: servers of other files have the same clock.
 */
import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { maintain } from '../src/commands/git/maintain.ts'
import type { EventStore } from '../src/events/store/event-store.ts'
import { gitDirOf } from '../src/services/services.ts'
import { objectOf } from './commands/lfs/lfs-client.ts'
import { workTree } from './git-client.ts'
import { program } from './program.ts'
import { clockOf, YEAR_MS } from './set-clock.ts'
import { passwordOf, startTestServer, statusOf } from './start-server.ts'
import { until } from './until.ts'

t.test('a clock that is set back does not delay work that was due by the old clock', async (t) => {
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

t.test(
  'a name that is being given to a repository stays reserved, whatever the clock of another node shows',
  async (t) => {
    const setClock = clockOf(t)
    const server = await startTestServer(t)
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'old' })
    const { events } = server.services
    const { append } = events
    const { promise: gate, resolve: goOn } = Promise.withResolvers<void>()
    let isStill = false
    const slow: EventStore['append'] = async (stream, made, expected) => {
      if (made.some(({ type }) => type === 'RepositoryEdited')) {
        isStill = true
        await gate
      }
      return append.call(events, stream, made, expected)
    }
    events.append = slow
    const renamed = statusOf(alice.repos.repoEdit('alice', 'old', { name: 'new' }))
    await until('the name is claimed, and its event is not written', () => isStill)
    setClock(YEAR_MS)
    t.equal(await statusOf(alice.user.createCurrentUserRepo({ name: 'new' })), 409)
    setClock(0)
    goOn()
    t.equal(await renamed, 200)
  },
)

t.test('a large upload in progress is kept when the clock is set forward by a year', async (t) => {
  const setClock = clockOf(t)
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  const { data: repository } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const repoId = repository.id ?? 0
  const { oid, size } = objectOf('the first half and the second half')
  const sent = request(`${server.url}/alice/app.git/info/lfs/objects/${oid}/${size}`, {
    method: 'PUT',
    auth: `alice:${passwordOf('alice')}`,
    headers: { 'content-type': 'application/octet-stream', 'content-length': size },
  })
  const answered = new Promise<number | undefined>((resolve, reject) => {
    sent.on('response', (answer) => resolve(answer.resume().statusCode))
    sent.on('error', reject)
  })
  sent.write('the first half')
  const incoming = join(gitDirOf(server.services, repoId), 'lfs', 'incoming')
  await until('it is being written', async () => (await readdir(incoming).catch(() => [])).length === 1)
  setClock(YEAR_MS)
  await maintain(server.services, repoId, { kind: 'full' })
  sent.end(' and the second half')
  t.equal(await answered, 200)
})

t.test(
  'a server whose clock is ahead of the file system does not treat fresh files as orphaned',
  async (t) => {
    const args = [program('test/clock-ahead'), t.testdir()]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    t.equal(stdout, 'true false true\n')
  },
)
