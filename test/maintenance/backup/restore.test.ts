import { execFileSync } from 'node:child_process'
import { mkdir, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { backup } from '../../../src/maintenance/backup/backup.ts'
import { existingDataIn } from '../../../src/maintenance/backup/existing-data.ts'
import { restore } from '../../../src/maintenance/backup/restore.ts'
import { OWN_FORMAT, writeDataFormat } from '../../../src/storage/data-format.ts'
import { lockDataDir } from '../../../src/storage/data-lock.ts'
import { startTestServer } from '../../start-server.ts'
import { temporaryDirectory } from './restored.ts'
import { settledData } from './settled-data.ts'

let original: string
let place: string
let directory: string
t.before(async () => {
  original = (await settledData(t)).dataDir
  place = await temporaryDirectory(t)
  directory = join(place, 'b')
  await backup({ dataDir: original, directory })
})

const refusal = (message: RegExp) => ({ name: 'BackupProblem', message })

/** Changes one byte of a file. */
async function flip(path: string, at: number): Promise<void> {
  const file = await open(path, 'r+')
  try {
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, at)
    await file.write(Buffer.from([(buffer[0] ?? 0) ^ 1]), 0, 1, at)
  } finally {
    await file.close()
  }
}

async function filesBelow(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true })
  const files = entries.map((entry) => {
    const own = join(path, entry.name)
    return entry.isDirectory() ? filesBelow(own) : [own]
  })
  return (await Promise.all(files)).flat()
}

t.test('a restore refuses a backup with one changed byte, names the file, and leaves no files', async (t) => {
  const dataDir = join(place, 'damaged')
  const files = await filesBelow(directory)
  // A sample of the objects: each is just one line in the same list.
  const few = files.filter((path) => !path.includes('/objects/') || path.endsWith('0'))
  t.ok(few.length > 8)
  for (const path of few) {
    const { size } = await stat(path)
    const at = Math.floor(size / 2)
    await flip(path, at)
    const error: unknown = await restore({ directory, dataDir }).catch((reason: unknown) => reason)
    t.match(error, { name: 'BackupProblem' }, path)
    // An object of a fork is the same file under two names.
    const named = path.includes('/objects/') ? path.slice(path.indexOf('/objects/')) : path
    t.ok(error instanceof Error && error.message.includes(`${named} `), `${error}`)
    t.same(
      (await readdir(dataDir).catch(() => [])).filter((name) => !name.startsWith('lock.db')),
      [],
    )
    await flip(path, at)
  }
  await restore({ directory, dataDir })
  t.ok((await readdir(dataDir)).includes('events.db'))
})

t.test('a restore names a file that is missing from the backup', async (t) => {
  const dataDir = join(place, 'lacking')
  const path = join(directory, 'data', 'secrets.db')
  const content = await readFile(path)
  await rm(path)
  await t.rejects(restore({ directory, dataDir }), refusal(/secrets\.db is missing/))
  await writeFile(path, content)
})

t.test('a restore refuses a backup with a pipe in place of a file, and does not wait for it', async (t) => {
  const dataDir = join(place, 'pipe')
  const path = join(directory, 'data', 'secrets.db')
  const content = await readFile(path)
  await rm(path)
  execFileSync('mkfifo', [path])
  await t.rejects(restore({ directory, dataDir }), refusal(/secrets\.db is not a file/))
  await rm(path)
  await writeFile(path, content)
})

t.test('programs in the configuration of a repository are not restored from a backup', async (t) => {
  const git = join(original, 'git')
  const [repository = ''] = await readdir(git)
  const config = join(git, repository, 'config')
  const own = await readFile(config, 'utf8')
  await writeFile(config, `${own}\talternateRefsCommand = touch /tmp/harm\n`)
  const directory = join(place, 'with-commands')
  await backup({ dataDir: original, directory })
  await writeFile(config, own)
  const inBackup = join(directory, 'data', 'git', repository, 'config')
  t.match(await readFile(inBackup, 'utf8'), /alternateRefsCommand/)

  const dataDir = join(place, 'without-commands')
  await restore({ directory, dataDir })
  for (const name of await readdir(join(dataDir, 'git'))) {
    t.equal(await readFile(join(dataDir, 'git', name, 'config'), 'utf8'), own)
  }
  t.match(await readFile(inBackup, 'utf8'), /alternateRefsCommand/, 'the backup is as it was')
})

t.test('a directory that is not a backup is not restored', async (t) => {
  const dataDir = join(place, 'none')
  await t.rejects(restore({ directory: join(place, 'nowhere'), dataDir }), refusal(/is not a directory/))
  await t.rejects(restore({ directory: original, dataDir }), refusal(/is not a complete backup/))
  const later = join(place, 'later')
  await mkdir(later)
  await writeFile(join(later, 'manifest.json'), '{"format": 3}')
  await t.rejects(restore({ directory: later, dataDir }), refusal(/by a later version/))
  await writeFile(join(later, 'manifest.json'), '{')
  await t.rejects(restore({ directory: later, dataDir }), refusal(/manifest\.json is damaged/))
  t.same(await readdir(dataDir).catch(() => []), [])
})

t.test('a restore needs an empty data directory that no server uses', async (t) => {
  const dataDir = join(place, 'used')
  await mkdir(dataDir)
  await writeFile(join(dataDir, 'notes.txt'), 'mine')
  await t.rejects(restore({ directory, dataDir }), refusal(/is not empty \(it has notes\.txt\)/))
  t.same(await readdir(dataDir), ['notes.txt'])
  await rm(join(dataDir, 'notes.txt'))
  const unlock = lockDataDir(dataDir)
  await t.rejects(restore({ directory, dataDir }), { name: 'DataDirInUse' })
  unlock()
  await mkdir(join(dataDir, 'lost+found'))
  // Leftovers of a start that could not open its stores.
  await mkdir(join(dataDir, 'git', 'hooks', 'a4fe9ad38afda219'), { recursive: true })
  await writeDataFormat(dataDir, OWN_FORMAT)
  t.equal(await existingDataIn(dataDir), undefined, 'there is nothing to lose')
  await restore({ directory, dataDir })
})

t.test(
  'no server starts after an interrupted restore; the next restore starts over, or names the remedy',
  async (t) => {
    const dataDir = join(place, 'half')
    await mkdir(join(dataDir, 'restoring', 'git'), { recursive: true })
    const start = () => startTestServer(t, { DATA_DIR: dataDir })
    await t.rejects(start(), { name: 'DataDirInUse', message: /a restore into .* was cut off/ })
    await writeFile(join(dataDir, 'views.db'), '')
    await t.rejects(restore({ directory, dataDir }), refusal(/an earlier restore into .* was cut off; empty/))
    await rm(join(dataDir, 'views.db'))
    await restore({ directory, dataDir })
    await start()
  },
)
