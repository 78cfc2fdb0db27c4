/** Repositories and attached files may be on separate disks, which may be missing at a start. */
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Api } from 'gitea-js'
import t from 'tap'
import { recordedRefs } from '../../src/commands/git/recorded-refs.ts'
import { reconcileRefs, recoverPushes } from '../../src/processes/recovery.ts'
import { gitDirOf } from '../../src/services/services.ts'
import { startTestServer, type TestServer } from '../start-server.ts'

async function createApp(server: TestServer): Promise<number> {
  const alice = await server.as('alice')
  const { data } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  return data.id ?? 0
}

for (const { place, what } of [
  { place: 'git', what: 'repositories' },
  { place: 'attachments', what: 'attached files' },
]) {
  t.test(`a server does not start where the disk of its ${what} is not mounted`, async (t) => {
    const dir = t.testdir()
    const DATA_DIR = join(dir, 'data')
    const server = await startTestServer(t, { DATA_DIR })
    await createApp(server)
    const alice = await server.as('alice')
    await alice.repos.issueCreateIssue('alice', 'app', { title: 'x' })
    const attachment = new File(['hello'], 'a.txt')
    await alice.repos.issueCreateIssueAttachment('alice', 'app', 1, { attachment })
    await server.stop()

    await rename(join(DATA_DIR, place), join(dir, 'disk'))
    await mkdir(join(DATA_DIR, place))
    await t.rejects(startTestServer(t, { DATA_DIR }), {
      name: 'OperatorError',
      message: `DATA_DIR: ${join(DATA_DIR, place)} is empty, but the log has ${what}: mount its disk`,
    })
  })
}

const attachment = new File(['hello'], 'a.txt')

for (const [what, attach] of Object.entries<(alice: Api<unknown>) => Promise<unknown>>({
  async comment({ repos }) {
    await repos.issueCreateIssue('alice', 'app', { title: 'x' })
    const { data } = await repos.issueCreateComment('alice', 'app', 1, { body: 'x' })
    await repos.issueCreateIssueCommentAttachment('alice', 'app', data.id ?? 0, { attachment })
  },
  async release({ repos }) {
    const { data } = await repos.repoCreateRelease('alice', 'app', { tag_name: 'v1' })
    await repos.repoCreateReleaseAttachment('alice', 'app', data.id ?? 0, { attachment })
  },
})) {
  t.test(`nor where the only file is that of a ${what}`, async (t) => {
    const DATA_DIR = join(t.testdir(), 'data')
    const server = await startTestServer(t, { DATA_DIR })
    await createApp(server)
    const attachments = join(DATA_DIR, 'attachments')
    await server.stop()
    await rm(attachments, { recursive: true })
    const again = await startTestServer(t, { DATA_DIR })
    await attach(await again.as('alice'))
    await again.stop()
    await rm(attachments, { recursive: true })
    await t.rejects(startTestServer(t, { DATA_DIR }), {
      name: 'OperatorError',
      message: `DATA_DIR: ${attachments} is empty, but the log has attached files: mount its disk`,
    })
  })
}

t.test(
  'an interrupted push to a repository that is not on disk waits, and no branch is recorded as deleted',
  async (t) => {
    const server = await startTestServer(t)
    const { services } = server
    const repoId = await createApp(server)
    const dir = gitDirOf(services, repoId)
    const before = await recordedRefs(services, repoId)
    services.pushJournal.abandon(await services.pushJournal.begin(`${repoId}`, 2 ** 22 + 1))
    await rename(dir, `${dir}.elsewhere`)

    await recoverPushes(services)
    t.match(services.pushJournal.unrecorded(), [{ key: `${repoId}`, reason: /not on disk/ }])
    t.strictSame(await recordedRefs(services, repoId), before)

    await rename(`${dir}.elsewhere`, dir)
    await recoverPushes(services)
    t.strictSame(services.pushJournal.unrecorded(), [])
    t.strictSame(await recordedRefs(services, repoId), before)
  },
)

t.test('a deleted repository has no branches left to record', async (t) => {
  const server = await startTestServer(t)
  const repoId = await createApp(server)
  await (await server.as('alice')).repos.repoDelete('alice', 'app')
  t.equal(await reconcileRefs(server.services, repoId), 0)
})
