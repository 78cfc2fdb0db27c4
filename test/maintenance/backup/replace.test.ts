import { mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { backup } from '../../../src/maintenance/backup/backup.ts'
import { existingDataIn } from '../../../src/maintenance/backup/existing-data.ts'
import {
  beginReplacement,
  finishReplacement,
  replacementIn,
} from '../../../src/maintenance/backup/replacement.ts'
import { restore } from '../../../src/maintenance/backup/restore.ts'
import { mergelog } from '../../cli/command-line.ts'
import { startTestServer } from '../../start-server.ts'
import { cannotMount, mergelogAtMount } from './at-mount.ts'
import { checkRestored, gitRefs, temporaryDirectory } from './restored.ts'
import { copyOf, type SettledData, settledData } from './settled-data.ts'

let settled: SettledData
let place: string
t.before(async () => {
  settled = await settledData(t)
  place = join(await temporaryDirectory(t), 'backups')
})

t.test(
  'mergelog backup --keep and restore: one line per run, and the newest replaces the existing data on request',
  async (t) => {
    const dataDir = await copyOf(t, settled)
    const DATA_DIR = dataDir
    const line =
      /^Backup in .*Z: \d+ events, 2 repositories; \d+ files with .* MiB, \d+ of them new with .* MiB; 1 backup kept, 0 removed\n$/
    t.match(await mergelog(['backup', '--keep', '2', place], { DATA_DIR }), {
      code: 0,
      stdout: line,
      stderr: '',
    })
    t.strictSame(await mergelog(['backup', '--keep', '2', '--quiet', place], { DATA_DIR }), {
      code: 0,
      stdout: '',
      stderr: '',
    })
    const made = JSON.parse((await mergelog(['backup', '--keep', '2', '--json', place], { DATA_DIR })).stdout)
    t.match(made, {
      missing: [],
      damaged: [],
      unusable: [],
      kept: [/Z$/, /Z$/],
      removed: [/Z$/],
      series: { reread: 2 },
    })
    t.match(await mergelog(['backup', '--check', place]), { code: 0, stdout: /^(sound .*\n){2}$/ })
    t.strictSame(await mergelog(['backup', '--check', '--quiet', place]), { code: 0, stdout: '', stderr: '' })
    for (const wrong of [
      ['--keep', '0'],
      ['--keep', 'all'],
      ['--keep', '2', '--check'],
    ]) {
      t.match(await mergelog(['backup', ...wrong, place], { DATA_DIR }), {
        code: 2,
        stdout: '',
        stderr: /^mergelog: .*\n$/,
      })
    }

    // Later data is replaced.
    const server = await startTestServer(t, { DATA_DIR })
    const body = JSON.stringify({ name: 'later' })
    t.equal((await server.fetch('alice', '/api/v1/user/repos', { method: 'POST', body })).status, 201)
    t.match(await mergelog(['restore', place, '--yes'], { DATA_DIR }), {
      code: 1,
      stderr: /another process.* uses \S+: stop the server first\n$/,
    })
    await server.stop()
    await writeFile(join(dataDir, 'notes.txt'), 'mine')
    const refused = await mergelog(['restore', place], { DATA_DIR })
    t.match(refused, {
      code: 1,
      stdout: '',
      stderr:
        /^mergelog: DATA_DIR: .* is not empty \(it has \d+ events, 3 repositories, .* MiB\); --yes replaces it\n$/,
    })
    const present = await existingDataIn(dataDir)
    t.match(present, { log: { first: /^20/, last: /^20/ }, repositories: 3 })
    t.ok((present?.log?.events ?? 0) > made.events)
    const restored = await mergelog(['restore', place, '--yes', '--json'], { DATA_DIR })
    t.match(restored, {
      code: 0,
      stderr:
        /^Replaces .*\n {2}now +\d+ events, 3 repositories, .* MiB; from 20.* to 20.*\nby the backup of 20.*\n {2}log +\d+ events/,
    })
    const { replaced, position } = JSON.parse(restored.stdout)
    t.equal(position, made.position)
    t.equal((await stat(replaced)).mode & 0o077, 0)
    t.ok((await readdir(join(replaced, 'git'))).includes('3.git'), 'what was there is kept')
    t.equal(await readFile(join(dataDir, 'notes.txt'), 'utf8'), 'mine')
    t.strictSame((await readdir(join(dataDir, 'git'))).sort(), ['1.git', '2.git'])
    await (await checkRestored(t, dataDir)).stop()
    const back = await mergelog(['backup', '--check', '--json', made.directory])
    t.match(JSON.parse(back.stdout), {
      backups: [{ directory: made.directory, files: made.files, problems: [] }],
    })
    await rm(join(made.directory, 'data', 'secrets.db'))
    t.match(await mergelog(['backup', '--check', place]), {
      code: 1,
      stdout: /^sound .*\ndamaged .*\n {2}secrets\.db is missing\n$/,
      stderr: 'mergelog: 1 backup of 2 cannot be restored\n',
    })
    t.match(await mergelog(['restore', made.directory, '--yes'], { DATA_DIR }), {
      code: 1,
      stderr: /secrets\.db is missing\n$/,
    })
    t.same(
      await gitRefs(dataDir, 1),
      await gitRefs(settled.dataDir, 1),
      'a backup that is damaged replaces nothing',
    )
  },
)

t.test(
  'a replacement that was interrupted between any two moves is finished by the next restore',
  async (t) => {
    const directory = join(place, '..', 'one')
    await backup({ dataDir: settled.dataDir, directory })
    const names = (await readdir(settled.dataDir)).filter((name) => !name.startsWith('lock.db'))
    // After some names were moved away, and then after some came to their places.
    for (const [away, come] of [
      [0, 0],
      [1, 0],
      [names.length, 0],
      [names.length, 2],
    ] as const) {
      const dataDir = await copyOf(t, settled)
      await writeFile(join(dataDir, 'git', 'old'), '')
      // The state of a restore whose files are all complete.
      const whole = join(place, '..', `whole-${away}-${come}`)
      await restore({ directory, dataDir: whole })
      await rename(whole, join(dataDir, 'restoring'))
      for (const name of await readdir(join(dataDir, 'restoring'))) {
        if (name.startsWith('lock.db')) await rm(join(dataDir, 'restoring', name))
      }
      const { sums } = JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8'))
      await beginReplacement(dataDir, sums)
      const begun = await replacementIn(dataDir)
      if (begun === undefined) throw new Error('it did not begin')
      const kept = join(dataDir, begun.aside)
      await mkdir(kept)
      for (const name of begun.names.slice(0, away)) await rename(join(dataDir, name), join(kept, name))
      for (const name of (await readdir(join(dataDir, 'restoring')))
        .filter((name) => name !== 'replace.json')
        .slice(0, come)) {
        await rename(join(dataDir, 'restoring', name), join(dataDir, name))
      }
      const start = startTestServer(t, { DATA_DIR: dataDir })
      await t.rejects(start, {
        name: 'DataDirInUse',
        message: /a restore into .* was cut off; run the same restore again to finish it/,
      })
      if (come === 0) {
        t.match(await mergelog(['restore', directory], { DATA_DIR: dataDir }), {
          code: 0,
          stdout: /The replaced data is in .*replaced-/,
        })
      } else {
        await finishReplacement(dataDir, begun)
      }
      t.ok((await readdir(join(kept, 'git'))).includes('old'))
      t.strictSame((await readdir(join(dataDir, 'git'))).sort(), ['1.git', '2.git'])
      t.same(await gitRefs(dataDir, 1), await gitRefs(settled.dataDir, 1))
      t.notOk((await readdir(dataDir)).includes('restoring'))
    }
  },
)

t.test(
  'a restore that meets a mount point puts back all moved files, and gives the reason',
  { skip: cannotMount },
  async (t) => {
    const directory = join(place, '..', 'at-mounts')
    await backup({ dataDir: settled.dataDir, directory })
    const dataDir = await copyOf(t, settled)
    // SQLite removes these beside a database when its last connection closes.
    const names = async () => (await readdir(dataDir)).filter((name) => !/-(shm|wal)$/.test(name)).sort()
    const before = await names()
    // The second time as after a crash in the middle of the first.
    for (const again of [false, true]) {
      if (again) {
        await restore({ directory, dataDir: join(dataDir, '..', 'whole') })
        await rename(join(dataDir, '..', 'whole'), join(dataDir, 'restoring'))
        await rm(join(dataDir, 'restoring', 'lock.db'))
        await beginReplacement(dataDir, 'x')
        const aside = join(dataDir, (await replacementIn(dataDir))?.aside ?? '')
        await mkdir(aside)
        await rename(join(dataDir, 'attachments'), join(aside, 'attachments'))
      }
      t.match(mergelogAtMount(dataDir, 'git', ['restore', directory, '--yes']), {
        status: 1,
        stderr: /DATA_DIR: \S+\/git is a mount point, so nothing was restored: remove it, restore, and move/,
      })
      t.strictSame(await names(), before)
    }
    t.same(await gitRefs(dataDir, 1), await gitRefs(settled.dataDir, 1))
    await (await startTestServer(t, { DATA_DIR: dataDir })).stop()
  },
)

t.test(
  'a restore into an empty directory refuses a mount point or a link in it before it writes',
  { skip: cannotMount },
  async (t) => {
    const directory = join(place, '..', 'for-empty')
    await backup({ dataDir: settled.dataDir, directory })
    const dataDir = t.testdir({ git: {} })
    const left = async () => (await readdir(dataDir)).filter((name) => !name.startsWith('lock.db'))
    t.match(mergelogAtMount(dataDir, 'git', ['restore', directory]), {
      status: 1,
      stderr: /git is a mount point/,
    })
    t.strictSame(await left(), ['git'])
    await rm(join(dataDir, 'git'), { recursive: true })
    await symlink(await temporaryDirectory(t), join(dataDir, 'git'))
    t.match(await mergelog(['restore', directory], { DATA_DIR: dataDir }), {
      code: 1,
      stderr: /git is a link/,
    })
    t.strictSame(await left(), ['git'])
  },
)
