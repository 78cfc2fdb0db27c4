import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { backup } from '../../src/maintenance/backup/backup.ts'
import { restore } from '../../src/maintenance/backup/restore.ts'
import { checkRestored, gitRefs, temporaryDirectory } from '../maintenance/backup/restored.ts'
import { type SettledData, settledData } from '../maintenance/backup/settled-data.ts'
import { PROGRAM_ENVIRONMENT, program } from '../program.ts'
import { startTestServer } from '../start-server.ts'

const MERGELOG = [program('src/cli/mergelog')]
let settled: SettledData
let place: string
t.before(async () => {
  settled = await settledData(t)
  place = await temporaryDirectory(t)
})

const environment = (DATA_DIR: string) => ({ ...PROGRAM_ENVIRONMENT, DATA_DIR })

t.test('a full disk gives one line and exit code 1, and no files are left', async (t) => {
  const directory = join(place, 'full')
  // A file limit of 32 KiB acts like a full disk.
  const command = 'unset NODE_OPTIONS; ulimit -f 32; exec "$0" "$@"'
  const args = ['-c', command, process.execPath, ...MERGELOG, 'backup', directory]
  const child = spawn('bash', args, {
    env: { ...environment(settled.dataDir), NODE_DISABLE_COMPILE_CACHE: '1' },
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

/** Runs the command line, and kills it `after` milliseconds after a file exists in the directory `begun`. */
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
