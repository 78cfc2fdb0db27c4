import { cp, mkdir, open, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { backup } from '../../../src/maintenance/backup/backup.ts'
import { checkBackups } from '../../../src/maintenance/backup/check.ts'
import { readManifest } from '../../../src/maintenance/backup/manifest.ts'
import { restore } from '../../../src/maintenance/backup/restore.ts'
import { newestIn, nextInSeries } from '../../../src/maintenance/backup/series.ts'
import { lockDataDir } from '../../../src/storage/data-lock.ts'
import { checkRestored, gitRefs, temporaryDirectory } from './restored.ts'
import { copyOf, type SettledData, settledData } from './settled-data.ts'

let settled: SettledData
t.before(async () => {
  settled = await settledData(t)
})

const refusal = (message: RegExp, name = 'BackupProblem') => ({ name, message })
const DATED = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ$/

/** Data of its own, and a series of its backups that keeps a number of them. */
async function seriesOf(t: Test, keep: number) {
  const dataDir = await copyOf(t, settled)
  const place = join(await temporaryDirectory(t), 'backups')
  const next = () =>
    nextInSeries({
      seriesDir: place,
      dataDir,
      keep,
      make: (directory, series) => backup({ dataDir, directory, series }),
    })
  return { dataDir, place, next }
}

/** The files below a directory with their inodes. */
async function inodesIn(directory: string): Promise<Map<string, number>> {
  const names = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const found = await Promise.all(
    files.map(async (path) => [path.slice(directory.length), (await stat(path)).ino] as const),
  )
  return new Map(found)
}

/** Changes one byte of a file, and keeps its time: like bit rot. */
async function rot(path: string): Promise<void> {
  const { size, atime, mtime } = await stat(path)
  const file = await open(path, 'r+')
  const at = Math.floor(size / 2)
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, at)
  await file.write(Buffer.from([(buffer[0] ?? 0) ^ 1]), 0, 1, at)
  await file.close()
  await utimes(path, atime, mtime)
}

/** The objects and attached files of a backup, with their checksums. */
async function linkable(directory: string): Promise<{ path: string; sha256: string }[]> {
  const lines = (await readFile(join(directory, 'SHA256SUMS'), 'utf8')).trim().split('\n')
  return lines
    .map((line) => ({ sha256: line.slice(0, 64), path: line.slice(66) }))
    .filter(({ path }) => /\/objects\/|\/attachments\/[0-9a-f]{2}\//.test(path))
}

t.test(
  'a series: unchanged files are linked to the previous backup, never to live files, and the oldest backups are deleted',
  async (t) => {
    const { dataDir, place, next } = await seriesOf(t, 2)
    const first = await next()
    t.match(first.directory.slice(place.length + 1), DATED)
    t.match(first, {
      missing: [],
      damaged: [],
      removed: [],
      series: { linkedFiles: 0, linkedBytes: 0, reread: 0 },
    })
    t.equal((await stat(place)).mode & 0o077, 0)
    const mine = ['notes.txt', '2020-01-01T00-00-00Z', '2020-01-01T00-00-00Z.removing', 'by-hand']
    await writeFile(join(place, 'notes.txt'), 'mine')
    await mkdir(join(place, '2020-01-01T00-00-00Z'))
    await mkdir(join(place, '2020-01-01T00-00-00Z.removing'))
    await writeFile(join(place, '2020-01-01T00-00-00Z.removing', 'thesis'), 'mine')
    await backup({ dataDir, directory: join(place, 'by-hand') })

    const second = await next()
    const objects = await linkable(second.directory)
    t.ok(objects.length > 10)
    t.match(second.series, { linkedFiles: objects.length, reread: 1 })
    t.strictSame(second.unusable, ['2020-01-01T00-00-00Z'], 'it is no whole backup')
    const [live, one, two] = [
      await inodesIn(dataDir),
      await inodesIn(join(first.directory, 'data')),
      await inodesIn(join(second.directory, 'data')),
    ]
    const lives = new Set(live.values())
    for (const [path, inode] of two) {
      const isLinked = objects.some((object) => object.path === `data${path}`)
      t.equal(inode === one.get(path), isLinked, path)
      t.notOk(lives.has(inode), `${path} is no link to the live file`)
    }

    const third = await next()
    t.strictSame(third.removed, [first.directory.slice(place.length + 1)])
    t.strictSame(
      third.kept.map((name) => join(place, name)),
      [second.directory, third.directory],
    )
    for (const name of mine) t.ok((await readdir(place)).includes(name), `${name} is left alone`)
    t.strictSame(await readdir(join(place, '2020-01-01T00-00-00Z.removing')), ['thesis'])
    t.equal(await newestIn(place), third.directory)
    const restored = join(place, '..', 'restored')
    await restore({ directory: third.directory, dataDir: restored })
    t.same(await gitRefs(restored, 1), await gitRefs(dataDir, 1))
    await checkRestored(t, restored)
  },
)

t.test('a changed file is copied; one with only a changed time is linked', async (t) => {
  const { dataDir, next } = await seriesOf(t, 5)
  const first = await next()
  const objects = await linkable(first.directory)
  const path = (of: RegExp) => objects.find(({ path }) => of.test(path))?.path.slice('data/'.length) ?? ''
  const [attached, touched] = [path(/attachments/), path(/1\.git\/objects/)]
  const content = await readFile(join(dataDir, attached), 'utf8')
  await writeFile(join(dataDir, attached), content.replace('a', 'b'))
  // Like git when an object is written again.
  await utimes(join(dataDir, touched), new Date(), new Date())
  const second = await next()
  t.equal(second.series?.linkedFiles, objects.length - 1)
  t.strictSame(second.damaged, [])
  const of = async ({ directory }: { directory: string }, file: string) => stat(join(directory, 'data', file))
  t.not((await of(first, attached)).ino, (await of(second, attached)).ino)
  t.equal(
    await readFile(join(first.directory, 'data', attached), 'utf8'),
    content,
    'the older backup keeps its own',
  )
  t.equal((await of(first, touched)).ino, (await of(second, touched)).ino)
  t.equal((await next()).series?.linkedFiles, objects.length)
})

t.test(
  'damage in an older backup is found by a later check and not linked; then no backup is removed',
  async (t) => {
    const { place, next } = await seriesOf(t, 1)
    const first = await next()
    // The second run rereads those whose checksums begin with 1, and so on: an early one needs few runs.
    const objects = (await linkable(first.directory)).filter(
      ({ path }) => path.includes('attachments') || path.includes('1.git'),
    )
    const [victim] = objects
      .filter(({ sha256 }) => !sha256.startsWith('0'))
      .sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
    if (victim === undefined) throw new Error('no object')
    const runs = Number.parseInt(victim.sha256.charAt(0), 16)
    await rot(join(first.directory, victim.path))
    t.match(await checkBackups(place), [
      { directory: first.directory, problems: [/^(git|attachments)\/.* is damaged: its SHA-256 differs$/] },
    ])
    const found: string[] = []
    for (let turn = 1; turn <= runs; turn++) {
      const made = await next()
      found.push(...made.damaged)
      if (made.damaged.length === 0) continue
      t.equal(turn, runs)
      t.equal(made.removed.length, 0)
      t.match(await checkBackups(made.directory), [{ problems: [] }])
      t.ok(
        (await checkBackups(place)).some(({ problems }) => problems.length > 0),
        'the older one is still there',
      )
    }
    // A fork has the same file under another name.
    t.ok(found.some((path) => victim.path.endsWith(path.replace(/^git\/\d+/, ''))))
    t.equal((await next()).kept.length, 1, 'the next run, which finds nothing, removes again')
    t.match(await checkBackups(place), [{ problems: [] }])
  },
)

t.test(
  'a damaged, a foreign, a later and an unfinished backup are neither linked nor removed, and do not block',
  async (t) => {
    const { dataDir, place, next } = await seriesOf(t, 1)
    const first = await next()
    await cp(first.directory, join(place, '2999-01-01T00-00-00Z'), { recursive: true })
    await writeFile(join(place, '2999-01-01T00-00-00Z', 'manifest.json'), '{')
    await cp(first.directory, join(place, '2021-01-01T00-00-00Z.partial'), { recursive: true })
    await writeFile(join(place, '2021-01-01T00-00-00Z.partial', 'lock.db'), '')
    await rename(first.directory, `${first.directory}.removing`)
    await mkdir(join(place, '2022-01-01T00-00-00Z.partial'))
    await t.rejects(
      newestIn(place),
      refusal(/2999.*manifest\.json is damaged/),
      'an older one is not taken silently',
    )
    const second = await next()
    t.equal(
      second.directory,
      join(place, '2999-01-01T00-00-01Z'),
      'names sort by time, also when the clock goes back',
    )
    t.strictSame(second.unusable, ['2999-01-01T00-00-00Z'])
    t.strictSame(second.series?.linkedFiles, 0)
    t.strictSame(
      (await readdir(place)).filter((name) => name !== 'lock.db').sort(),
      ['2999-01-01T00-00-00Z', '2999-01-01T00-00-01Z'],
      'what killed runs have left is gone',
    )
    const { format: _, ...manifest } = await readManifest(second.directory)
    t.match(manifest, { dataFormat: 1, program: /^\d+\./ })

    const release = lockDataDir(place)
    await t.rejects(next(), refusal(/another backup to .*backups is under way/))
    release()
    const into = (place: string) =>
      nextInSeries({ seriesDir: place, dataDir, keep: 1, make: () => t.fail('it made one') as never })
    await t.rejects(into(join(dataDir, 'backups')), refusal(/is in DATA_DIR/))
    await t.rejects(into(second.directory), refusal(/is itself a backup/))
    await t.rejects(
      into(join(place, '2999-01-01T00-00-00Z', 'manifest.json')),
      refusal(/is not a directory/, 'PathProblem'),
    )
    await rm(join(dataDir, 'backups'), { recursive: true, force: true })
  },
)

t.test('a full disk leaves the older backups unchanged, and is reported in one line', async (t) => {
  const { dataDir, place, next } = await seriesOf(t, 1)
  const first = await next()
  for (const error of [
    Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' }),
    new Error('events.db cannot be copied: database or disk is full'),
  ]) {
    const make = () => Promise.reject(error)
    await t.rejects(
      nextInSeries({ seriesDir: place, dataDir, keep: 1, make }),
      refusal(/^no space left for a backup in .*; the older ones are unchanged$/),
    )
  }
  t.match(await checkBackups(place), [{ directory: first.directory, problems: [] }])
  t.equal((await next()).kept.length, 1)
})
