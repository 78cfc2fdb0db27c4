import { execFile } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { formatVerifierKey } from '../../src/domain/transparency/signed-note.ts'
import { newLogSigner } from '../log-signer.ts'
import { temporaryDirectory } from '../maintenance/backup/restored.ts'
import { settledData } from '../maintenance/backup/settled-data.ts'
import { anInstallation, eventsOf } from '../maintenance/transfer/installations.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { mergelog } from './command-line.ts'

/** Signs the log. Returns the arguments that verify it by the checkpoint. */
async function signedLog(test: Test, directory: string, DATA_DIR: string): Promise<string[]> {
  const { settings, key } = await newLogSigner(directory)
  const server = await startTestServer(test, { DATA_DIR, ...settings })
  const latest = () => server.services.checkpoints?.latest()
  await until('a checkpoint is signed', async () => (await latest()) !== undefined)
  const file = join(directory, 'checkpoint')
  await writeFile(file, (await latest())?.note ?? '')
  await server.stop()
  return ['--since', file, '--key', formatVerifierKey(key)]
}

t.test(
  'mergelog export and import: text for people, JSON for scripts, and a checkpoint of the log still verifies',
  async (t) => {
    const { dataDir: DATA_DIR } = await settledData(t)
    const place = await temporaryDirectory(t)
    const since = await signedLog(t, place, DATA_DIR)
    const first = join(place, 'first')
    const text = await mergelog(['export', first], { DATA_DIR })
    t.match(text, {
      code: 0,
      stderr: '',
      stdout: /^Export in .*first\n {2}log +\d+ events, .*\n {2}repositories +2, /,
    })
    const sums = promisify(execFile)('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: first })
    t.match(await sums, { stdout: '' })
    t.match(await mergelog(['export', first], { DATA_DIR }), {
      code: 1,
      stderr: /^mergelog: .* is not empty\n$/,
    })

    const to = await anInstallation(t, 'both servers')
    const imported = await mergelog(['import', first, '--json'], to)
    t.match(JSON.parse(imported.stdout), {
      repositories: 2,
      attachments: 1,
      missing: [],
      dataDir: to.DATA_DIR,
    })
    const server = await startTestServer(t, to)
    await server.stop()
    const kept = /starts with the \d+ events of the checkpoint of/
    t.match(await mergelog(['verify', ...since], to), { code: 0, stdout: kept })
    t.match(await mergelog(['import', first], to), {
      code: 1,
      stderr: /^mergelog: DATA_DIR: .* is not empty .*\n$/,
    })

    const second = join(place, 'second')
    t.match(JSON.parse((await mergelog(['export', second, '--json'], to)).stdout), { directory: second })
    const back = join(place, 'back')
    t.match(await mergelog(['import', second], { DATA_DIR: back }), {
      code: 0,
      stdout: /^Imported the export of /,
    })
    t.same(await eventsOf({ DATA_DIR: back }), await eventsOf({ DATA_DIR }))
    await (await startTestServer(t, { DATA_DIR: back })).stop()
    t.match(await mergelog(['verify', ...since], { DATA_DIR: back }), { code: 0, stdout: kept })
  },
)

t.test(
  'mergelog export reports files that DATA_DIR lacks with exit code 1, and exports the rest',
  async (t) => {
    const { dataDir: DATA_DIR } = await settledData(t)
    const place = await temporaryDirectory(t)
    await rm(join(DATA_DIR, 'git', '2.git'), { recursive: true })
    const answer = await mergelog(['export', join(place, 'e'), '--json'], { DATA_DIR })
    t.match(answer, { code: 1, stderr: /the export is written, but DATA_DIR lacks .*: git\/2\.git\n$/ })
    t.match(JSON.parse(answer.stdout), { missing: ['git/2.git'] })
  },
)

t.test('mergelog import: a store that does not answer is one line', async (t) => {
  const { dataDir: DATA_DIR } = await settledData(t)
  const place = await temporaryDirectory(t)
  await mergelog(['export', join(place, 'e')], { DATA_DIR })
  const to = { DATA_DIR: join(place, 'to'), EVENTSTORE_URL: 'esdb://127.0.0.1:1?tls=false' }
  t.match(await mergelog(['import', join(place, 'e')], to), { code: 1, stderr: /^mergelog: [^\n]*\n$/ })
  t.match(await mergelog(['import', join(place, 'e')], { DATA_DIR: to.DATA_DIR }), { code: 0 })
})
