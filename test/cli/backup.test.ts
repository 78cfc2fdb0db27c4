import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { backup } from '../../src/backup/backup.ts'
import { restore } from '../../src/backup/restore.ts'
import { exportAll } from '../../src/transfer/export.ts'
import { checkRestored, gitRefs, temporaryDirectory } from '../backup/restored.ts'
import { type SettledData, settledData } from '../backup/settled-data.ts'
import { program } from '../program.ts'
import { startTestServer } from '../start-server.ts'
import { anInstallation, configOf, eventsOf } from '../transfer/installations.ts'

const MERGELOG = [program('src/cli/mergelog')]
let settled: SettledData
let place: string
t.before(async () => {
  settled = await settledData(t)
  place = await temporaryDirectory(t)
})

const environment = (dataDir: string, more: Record<string, string> = {}) => {
  const { EVENTSTORE_URL: _events, MONGODB_URL: _views, ...own } = process.env
  return { ...own, DATA_DIR: dataDir, ...more }
}

/** Runs the command line. Resolves to the exit code and the output, also after a failure. */
async function run(dataDir: string, args: string[], more?: Record<string, string>) {
  try {
    const env = environment(dataDir, more)
    const { stdout } = await promisify(execFile)(process.execPath, [...MERGELOG, ...args], {
      env,
    })
    return { code: 0, stdout, stderr: '' }
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && 'stdout' in error && 'stderr' in error)) throw error
    const { code, stdout, stderr } = error
    return { code, stdout: `${stdout}`, stderr: `${stderr}` }
  }
}

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
  'mergelog restore: a copy of embedded stores is not for servers, and the message says the way',
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

t.test('a full disk: one line, exit code 1, and no files are left', async (t) => {
  const directory = join(place, 'full')
  // A file limit of 32 KiB acts like a full disk.
  const command = 'unset NODE_OPTIONS; ulimit -f 32; exec "$0" "$@"'
  const args = ['-c', command, process.execPath, ...MERGELOG, 'backup', directory]
  const child = spawn('bash', args, {
    env: environment(settled.dataDir),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const [code] = await once(child, 'close')
  t.equal(code, 1)
  t.match(stderr, /^mergelog: .*\n$/)
  t.same(
    (await readdir(place)).filter((name) => name.startsWith('full')),
    [],
  )
})

/** Runs the command line. Kills it `after` milliseconds after the directory `begun` has a file. */
async function kill(dataDir: string, args: string[], begun: string, after: number): Promise<boolean> {
  const child = spawn(process.execPath, [...MERGELOG, ...args], {
    env: environment(dataDir),
    stdio: 'ignore',
  })
  const closed = once(child, 'close')
  while (child.exitCode === null && (await readdir(begun).catch(() => [])).length === 0) await delay(1)
  await delay(after)
  child.kill('SIGKILL')
  const [code] = await closed
  return code === null
}

t.test('kill -9 of a backup leaves no backup or a complete one; the next backup starts over', async (t) => {
  const directory = join(place, 'killed')
  let killed = 0
  for (const after of [0, 80]) {
    const wasKilled = await kill(settled.dataDir, ['backup', directory], `${directory}.partial`, after)
    if (!wasKilled || (await readdir(place)).includes('killed'))
      await readFile(join(directory, 'manifest.json'))
    else killed += 1
    await rm(directory, { recursive: true, force: true })
  }
  t.ok(killed > 0)
  await backup({ dataDir: settled.dataDir, directory })
  t.notOk((await readdir(place)).includes('killed.partial'))
  const restored = join(place, 'after-kill')
  await restore({ directory, dataDir: restored })
  await checkRestored(t, restored)
})

t.test('kill -9 of a restore: no server starts on the half restored directory', async (t) => {
  const directory = join(place, 'for-restore')
  await backup({ dataDir: settled.dataDir, directory })
  let halves = 0
  for (const after of [0, 30]) {
    const dataDir = join(place, `half-${after}`)
    await kill(dataDir, ['restore', directory], join(dataDir, 'restoring'), after)
    const names = await readdir(dataDir)
    if (names.includes('restoring')) {
      halves += 1
      const start = startTestServer(t, { DATA_DIR: dataDir })
      await t.rejects(start, { name: 'DataDirInUse', message: /a restore into .* was cut off/ })
      await rm(dataDir, { recursive: true })
      await restore({ directory, dataDir })
    }
    t.same(await gitRefs(dataDir, 1), await gitRefs(settled.dataDir, 1))
  }
  t.ok(halves > 0)
})

t.test(
  'mergelog backup reports files that DATA_DIR lacks with exit code 1, and backs up the rest',
  async (t) => {
    const directory = join(place, 'lacking')
    await rm(join(settled.dataDir, 'git', '2.git'), { recursive: true })
    const answer = await run(settled.dataDir, ['backup', directory, '--json'])
    t.match(answer, { code: 1, stderr: /the backup is made, but DATA_DIR lacks .*: git\/2\.git\n$/ })
    t.match(JSON.parse(answer.stdout), { missing: ['git/2.git'] })
    t.ok((await readdir(directory)).includes('manifest.json'))
  },
)
