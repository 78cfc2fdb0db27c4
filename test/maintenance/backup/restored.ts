/** Checks of a restored data directory. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual, promisify } from 'node:util'
import type { Test } from 'tap'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { READ_MODELS, type Views } from '../../../src/projections/views/views.ts'
import { all } from '../../events/event-store-contract.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

const run = promisify(execFile)

export async function temporaryDirectory(t: Pick<Test, 'teardown'>): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-backup-'))
  t.teardown(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }))
  return dir
}

/** The content of the file that a test uploads under a name. */
export const contentOf = (name: string) => `${name}\n`.repeat(500)

/** The refs of a repository in git: object ids by ref name. */
export async function gitRefs(dataDir: string, repoId: number): Promise<Record<string, string>> {
  const dir = join(dataDir, 'git', `${repoId}.git`)
  const { stdout } = await run('git', ['--git-dir', dir, 'for-each-ref', '--format=%(refname) %(objectname)'])
  const lines = stdout.split('\n').filter((line) => line !== '')
  return Object.fromEntries(lines.map((line) => line.split(' ')))
}

/**
 * Starts a server on the directory, and on the stores in the environment. Compares git, the attached files, the read
 * models and the log.
 */
export async function checkRestored(
  t: Test,
  dataDir: string,
  environment: Record<string, string> = {},
): Promise<TestServer> {
  const server = await startTestServer(t, { LOG_LEVEL: 'silent', ...environment, DATA_DIR: dataDir })
  await until('all is read', async () => (await server.fetch(null, '/healthz')).status === 200)
  const { views } = server.services

  for (const { id, ownerLogin, name: title } of await views.repositories.find({})) {
    const dir = join(dataDir, 'git', `${id}.git`)
    await run('git', ['--git-dir', dir, 'fsck', '--connectivity-only', '--no-dangling'])
    // Unfinished work of the copied moment, for example the deletion of a merged branch, is finished soon
    // after the start: first in git, then in the log. Between these two steps the refs differ.
    const refs = async () => {
      const known = Object.entries(await gitRefs(dataDir, id))
      // There is no read model of tags.
      const wanted = known.filter(([ref]) => !ref.startsWith('refs/tags/'))
      return { git: Object.fromEntries(wanted), views: await viewedRefs(views, id) }
    }
    let seen = await refs()
    await until(`git's refs of ${ownerLogin}/${title} are those of the read models`, async () => {
      seen = await refs()
      return isDeepStrictEqual(seen.git, seen.views)
    }).catch(() => undefined)
    t.same(seen.git, seen.views, `${ownerLogin}/${title}: git's refs are those of the read models`)
  }
  for (const { attachments } of await views.comments.find({})) {
    for (const { uuid, name } of attachments) {
      const answer = await server.fetch('admin', `/attachments/${uuid}`)
      t.equal(await answer.text(), contentOf(name), `the file ${name} has its content`)
    }
  }
  await verify(t, server)
  return server
}

/** The refs of a repository in the read models: object ids by ref name. */
async function viewedRefs(views: Views, repoId: number): Promise<Record<string, string>> {
  const branches = await views.branches.find({ repoId })
  const pulls = await views.pulls.find({ repoId })
  return Object.fromEntries([
    ...branches.map(({ name, commit }) => [`refs/heads/${name}`, commit.sha]),
    ...pulls.map(({ index, head }) => [`refs/pull/${index}/head`, head.sha]),
  ])
}

async function verify(t: Test, { services, dataDir }: TestServer): Promise<void> {
  const { stored: events, keys } = services.texts
  const { readStore } = services
  const scratchDir = await temporaryDirectory(t)
  // Unfinished work of the copied moment may still add events.
  // The last event of Mergelog: in EventStoreDB, foreign events may follow, such as the mark of an import.
  const [last] = await all(events.readAll({ direction: 'backwards', maxCount: 1 }))
  const dataFiles = { dataDir, deep: true }
  const report = await verifyServer({ events, keys, readStore, models: READ_MODELS, scratchDir, dataFiles })
  t.strictSame(report.files?.problems, [], 'the files are there that the log names')
  t.equal(report.sound, true)
  t.ok(report.log.soundUpTo >= (last?.position ?? 0), 'the whole log is sound')
  const compared = report.views.models.filter(({ state }) => state === 'same')
  t.equal(compared.length, READ_MODELS.length, 'every read model equals its replay')
}

/** Clones over HTTP. Resolves to the commit id of the tip. */
export async function cloneTip(
  t: Test,
  server: TestServer,
  login: string,
  fullName: string,
): Promise<string> {
  return (await workTree(t, server.gitUrl(login, fullName))).git('rev-parse', 'HEAD')
}
