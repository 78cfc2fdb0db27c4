import { execFile } from 'node:child_process'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { backup } from '../../src/maintenance/backup/backup.ts'
import { exportAll } from '../../src/maintenance/transfer/export.ts'
import { gitRefs, temporaryDirectory } from '../maintenance/backup/restored.ts'
import { type SettledData, settledData } from '../maintenance/backup/settled-data.ts'
import { anInstallation, configOf, eventsOf } from '../maintenance/transfer/installations.ts'
import { mergelog } from './command-line.ts'

let settled: SettledData
let place: string
t.before(async () => {
  settled = await settledData(t)
  place = await temporaryDirectory(t)
})

const run = (DATA_DIR: string, args: string[], servers: Record<string, string> = {}) =>
  mergelog(args, { ...servers, DATA_DIR })

t.test('mergelog backup and restore: text for people, JSON for scripts', async (t) => {
  const { dataDir } = settled
  const json = await run(dataDir, ['backup', join(place, 'json'), '--json'])
  t.match(JSON.parse(json.stdout), {
    repositories: 2,
    attachments: 1,
    missing: [],
    directory: join(place, 'json'),
  })
  const check = promisify(execFile)('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], {
    cwd: join(place, 'json'),
  })
  t.match(await check, { stdout: '' })
  const restored = join(place, 'restored')
  const back = await run(restored, ['restore', join(place, 'json'), '--json'])
  t.match(JSON.parse(back.stdout), { repositories: 2, dataDir: restored })
  t.same(await gitRefs(restored, 1), await gitRefs(dataDir, 1))
  t.match(await run(restored, ['restore', join(place, 'json')]), {
    code: 1,
    stderr: /^mergelog: DATA_DIR: .* is not empty .*\n$/,
  })
})

t.test(
  'mergelog backup and restore work on servers: a backup is an export, a restore an import',
  async (t) => {
    const { EVENTSTORE_URL = '', MONGODB_URL = '', DATA_DIR } = await anInstallation(t, 'both servers')
    const servers = { EVENTSTORE_URL, MONGODB_URL }
    const directory = join(place, 'exported')
    const copy = join(place, 'copied')
    await exportAll({ config: configOf({ DATA_DIR: settled.dataDir }), directory })
    t.match(await run(DATA_DIR, ['restore', directory], servers), {
      code: 0,
      stdout: /^Restored the backup of .* to .*\n {2}log {2}.* events/,
    })
    const events = await eventsOf({ DATA_DIR, ...servers })
    t.same(events, await eventsOf({ DATA_DIR: settled.dataDir }))
    t.match(await run(DATA_DIR, ['backup', copy], servers), { code: 0, stdout: /^Backup in .*\n {2}log {2}/ })
    const back = join(place, 'back')
    t.match(await run(back, ['restore', copy]), { code: 0 })
    t.same(await eventsOf({ DATA_DIR: back }), events)
    const series = join(place, 'series')
    const args = ['backup', '--keep', '1', '--json', series]
    t.match(await run(DATA_DIR, args, servers), { code: 0 })
    const { code, stdout } = await run(DATA_DIR, args, servers)
    t.match(
      { code, made: JSON.parse(stdout) },
      { code: 0, made: { missing: [], removed: [/Z$/], kept: [/Z$/] } },
    )
    t.ok(JSON.parse(stdout).series.linkedFiles > 10, 'exports link what the one before has')
    const again = join(place, 'again')
    t.match(await run(again, ['restore', series]), { code: 0 })
    t.same(await eventsOf({ DATA_DIR: again }), events)
  },
)

t.test(
  'mergelog restore: a copy of embedded stores is refused for servers, and the message names export and import',
  async (t) => {
    const directory = join(place, 'embedded-only')
    await backup({ dataDir: settled.dataDir, directory })
    const to = await anInstallation(t, 'both servers')
    t.match(await run(to.DATA_DIR, ['restore', directory], to), {
      code: 1,
      stdout: '',
      stderr: /^mergelog: .*restore it without EVENTSTORE_URL and MONGODB_URL, then move it with .*\n$/,
    })
    t.same(await eventsOf(to), [])
  },
)

t.test(
  'mergelog backup reports files that DATA_DIR lacks with exit code 1, and backs up the rest',
  async (t) => {
    const directory = join(place, 'lacking')
    await rm(join(settled.dataDir, 'git', '2.git'), { recursive: true })
    const answer = await run(settled.dataDir, ['backup', directory, '--json'])
    t.match(answer, { code: 1, stderr: /the backup is written, but DATA_DIR lacks .*: git\/2\.git\n$/ })
    t.match(JSON.parse(answer.stdout), { missing: ['git/2.git'] })
    t.ok((await readdir(directory)).includes('manifest.json'))
  },
)
