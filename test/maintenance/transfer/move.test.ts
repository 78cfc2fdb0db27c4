import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { exportAll } from '../../../src/maintenance/transfer/export.ts'
import { importExport } from '../../../src/maintenance/transfer/import.ts'
import type { TestServer } from '../../start-server.ts'
import { checkRestored, cloneTip, gitRefs, temporaryDirectory } from '../backup/restored.ts'
import { type SettledData, settledData } from '../backup/settled-data.ts'
import { anInstallation, configOf, eventsOf, type Installation } from './installations.ts'

let settled: SettledData
t.before(async () => {
  settled = await settledData(t)
})

const APP = '/api/v1/repos/alice/app'
const PATHS = [
  '/api/v1/user/repos',
  APP,
  `${APP}/pulls?state=all`,
  `${APP}/pulls/1`,
  `${APP}/pulls/1/commits`,
  `${APP}/pulls/2/files`,
  `${APP}/issues?state=all`,
  `${APP}/issues/2`,
  `${APP}/issues/2/comments`,
  `${APP}/branches`,
  // An old name, and its own.
  '/api/v1/repos/bob/app',
  '/api/v1/repos/bob/application',
  '/api/v1/users/alice/tokens',
]

async function answersOf(server: TestServer): Promise<Map<string, unknown>> {
  const answers = new Map<string, unknown>()
  for (const path of PATHS) {
    const answer = await server.fetch('alice', path)
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`)
    const text = (await answer.text()).replaceAll(server.url, 'https://git.example.org')
    // The size of a repository on disk is a fact of each installation's files, and is measured in the background. So is
    // the use of tokens.
    const same = text.replaceAll(/"size":\d+,"language":"\w*"|"last_used_at":"[^"]*"/g, '"of":"each"')
    answers.set(path, JSON.parse(same))
  }
  return answers
}

t.test('from embedded stores to servers and back: the same log, answers, git and sign-ins', async (t) => {
  const { dataDir, token, tip } = settled
  const place = await temporaryDirectory(t)
  let from: Installation = { DATA_DIR: dataDir }
  const original = await checkRestored(t, dataDir, from)
  const expected = await answersOf(original)
  await original.stop()
  const events = await eventsOf(from)
  t.ok(events.length > 30)
  // Both servers together: test/cli/export.test.ts.
  for (const kind of ['EventStoreDB', 'MongoDB', 'embedded'] as const) {
    const directory = join(place, `${kind}-${from.DATA_DIR.length}-${Math.random()}`)
    const steps = new Set<string>()
    const onProgress = ({ step }: { step: string }) => steps.add(step)
    const made = await exportAll({ config: configOf(from), directory, onProgress })
    t.match(made, { repositories: 2, attachments: 1, missing: [], events: events.length, directory })
    const to = await anInstallation(t, kind)
    t.match(await importExport({ directory, config: configOf(to), onProgress }), {
      events: events.length,
      dataDir: to.DATA_DIR,
    })
    for (const step of ['log', 'secrets', 'files', 'repositories']) t.ok(steps.has(step), step)
    t.strictSame(await eventsOf(to), events, `${kind}: ids, data, hashes, revisions and order are the same`)
    for (const repository of [1, 2]) {
      t.same(await gitRefs(to.DATA_DIR, repository), await gitRefs(dataDir, repository))
    }
    const server = await checkRestored(t, to.DATA_DIR, to)
    const answers = await answersOf(server)
    for (const [path, answer] of expected) t.strictSame(answers.get(path), answer, `${kind}: ${path}`)
    t.equal(await cloneTip(t, server, 'bob', 'alice/app'), tip)
    const byToken = await fetch(`${server.url}/api/v1/user`, { headers: { authorization: `token ${token}` } })
    t.match(await byToken.json(), { login: 'alice' })
    await server.stop()
    t.same(await eventsOf(to), events, 'the start has nothing to do again')
    from = to
  }
})

t.test('only the owner can read an export, and the secrets', async (t) => {
  const place = await temporaryDirectory(t)
  const directory = join(place, 'e')
  await exportAll({ config: configOf({ DATA_DIR: settled.dataDir }), directory })
  t.equal((await stat(directory)).mode & 0o777, 0o700)
  t.equal((await stat(join(directory, 'data', 'secrets.ndjson'))).mode & 0o777, 0o600)
  const to = join(place, 'to')
  await importExport({ directory, config: configOf({ DATA_DIR: to }) })
  t.equal((await stat(join(to, 'secrets.db'))).mode & 0o777, 0o600)
  const first = (await readFile(join(directory, 'data', 'log.ndjson'), 'utf8')).split('\n')[0] ?? ''
  t.match(JSON.parse(first), { position: 1, revision: 0, metadata: { previous: null, hash: /./ } })
})
