import { renameSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { decode } from '../../../src/events/codec.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import { backup } from '../../../src/maintenance/backup/backup.ts'
import { restore } from '../../../src/maintenance/backup/restore.ts'
import { lockDataDir } from '../../../src/storage/data-lock.ts'
import { openSqlite } from '../../../src/storage/sqlite/sqlite.ts'
import { startTestServer } from '../../start-server.ts'
import { checkRestored, cloneTip, gitRefs, temporaryDirectory } from './restored.ts'
import { APP, call, copyOf, type SettledData, settledData } from './settled-data.ts'

let settled: SettledData
t.before(async () => {
  settled = await settledData(t)
})

t.test('backup and restore: the restored data equals the original', async (t) => {
  const { token, tip } = settled
  const dataDir = await copyOf(t, settled)
  const place = await temporaryDirectory(t)
  const directory = join(place, 'not', 'there', 'yet')
  const steps = new Set<string>()
  const made = await backup({ dataDir, directory, onProgress: ({ step }) => steps.add(step) })
  t.match(made, { repositories: 2, attachments: 1, missing: [], directory })
  t.ok(steps.has('log'))
  t.same((await readdir(directory)).sort(), ['SHA256SUMS', 'data', 'manifest.json'])
  t.same(await readdir(join(directory, '..')), ['yet'], 'no other file is left there')
  t.equal((await stat(directory)).mode & 0o077, 0, 'only the owner may read the secrets in it')

  const objects = async (base: string, repository: number) => {
    const pack = join(base, 'git', `${repository}.git`, 'objects', 'pack')
    const [name = ''] = await readdir(pack).catch(() => [])
    return name
  }
  t.equal(await objects(dataDir, 1), await objects(join(directory, 'data'), 1))

  const restored = join(place, 'restored')
  t.match(await restore({ directory, dataDir: restored }), { position: made.position, dataDir: restored })
  t.same(await gitRefs(restored, 1), await gitRefs(dataDir, 1))
  t.same(await gitRefs(restored, 2), await gitRefs(dataDir, 2), 'the fork too')
  t.match(await readFile(join(restored, 'git', '1.git', 'packed-refs'), 'utf8'), /\n\^[0-9a-f]{40}\n/)
  const server = await checkRestored(t, restored)
  t.equal(await cloneTip(t, server, 'bob', 'alice/app'), tip)
  const byToken = await fetch(`${server.url}/api/v1/user`, { headers: { authorization: `token ${token}` } })
  t.match(await byToken.json(), { login: 'alice' }, 'tokens work')
  t.equal((await server.fetch('alice', '/api/v1/user')).status, 200, 'passwords work')
  await call(server, 'POST', `${APP}/pulls/2/merge`, { Do: 'squash' })
  const { number } = await call(server, 'POST', `${APP}/issues`, { title: 'Next' })
  t.equal(number, 3, 'numbers continue')
})

t.test('backup and restore: the copy shares files between forks, but not with the original', async (t) => {
  const dataDir = await copyOf(t, settled)
  const place = await temporaryDirectory(t)
  const directory = join(place, 'b')
  const restored = join(place, 'r')
  await backup({ dataDir, directory })
  await restore({ directory, dataDir: restored })
  const inodes = new Map<string, string[]>()
  for (const base of [dataDir, join(directory, 'data'), restored]) {
    const shared: string[] = []
    const objects = (id: number) => join(base, 'git', `${id}.git`, 'objects')
    for (const fan of (await readdir(objects(2))).filter((name) => name.length === 2)) {
      for (const name of await readdir(join(objects(2), fan))) {
        const own = await stat(join(objects(2), fan, name))
        t.equal((await stat(join(objects(1), fan, name))).ino, own.ino)
        shared.push(`${own.ino}`)
      }
    }
    t.ok(shared.length > 3)
    inodes.set(base, shared)
  }
  t.equal(new Set([...inodes.values()].flat()).size, 3 * (inodes.get(dataDir)?.length ?? 0))
})

/** Cuts the log of a stopped server after a position. */
function cutLog(dataDir: string, position: number): void {
  const db = openSqlite(join(dataDir, 'events.db'), 'NORMAL')
  const hasHash = db
    .prepare('PRAGMA table_info(streams)')
    .all()
    .some((row) => JSON.stringify(row).includes('"hash"'))
  db.exec(`
    DELETE FROM events WHERE position > ${position};
    DELETE FROM streams WHERE id NOT IN (SELECT stream FROM events);
    UPDATE streams SET revision = (SELECT max(revision) FROM events WHERE stream = streams.id)
      ${hasHash ? ', hash = NULL' : ''};
  `)
  db.close()
}

async function positionOf(dataDir: string, type: string): Promise<number> {
  const events = openSqliteEventStore(join(dataDir, 'events.db'))
  try {
    for await (const recorded of events.readAll()) if (recorded.type === type) return recorded.position
    throw new Error(`no ${type}`)
  } finally {
    await events.close()
  }
}

t.test('a backup has the refs of the log, not of git; the next start finishes a started merge', async (t) => {
  const { tip } = settled
  const dataDir = await copyOf(t, settled)
  // As if all events after the start of the merge had followed the copy of the log.
  cutLog(dataDir, await positionOf(dataDir, 'MergeStarted'))
  await rm(join(dataDir, 'views.db'))
  const place = await temporaryDirectory(t)
  const directory = join(place, 'b')
  const made = await backup({ dataDir, directory })
  t.match(made, { repositories: 1, attachments: 0, missing: [] })
  t.notOk(
    (await readdir(join(directory, 'data'))).includes('attachments') &&
      (await readdir(join(directory, 'data', 'attachments'))).some((name) => name !== 'log'),
    'a later file is left out',
  )
  t.same(await readdir(join(directory, 'data', 'git')), ['1.git'], 'and the later fork')
  const restored = join(place, 'r')
  await restore({ directory, dataDir: restored })
  t.not((await gitRefs(restored, 1))['refs/heads/main'], tip, 'the merge is not done')
  const server = await checkRestored(t, restored)
  t.equal(
    (await gitRefs(restored, 1))['refs/heads/main'],
    tip,
    'the start has finished it, with the same commit',
  )
  t.match(await call(server, 'GET', `${APP}/pulls/1`), { merged: true, merge_commit_sha: tip })
  const types: string[] = []
  for await (const { type } of server.services.events.readStream('pull-1.1')) types.push(type)
  t.equal(types.filter((type) => type === 'PullRequestMerged').length, 1)
})

t.test('the secret of a token that the log does not name is left out', async (t) => {
  const { token } = settled
  const dataDir = await copyOf(t, settled)
  const server = await startTestServer(t, { DATA_DIR: dataDir })
  const { sha1: later } = await call(server, 'POST', '/users/alice/tokens', {
    name: 'later',
    scopes: ['all'],
  })
  await server.stop()
  const events = openSqliteEventStore(join(dataDir, 'events.db'))
  let position = 0
  for await (const recorded of events.readAll({ direction: 'backwards' })) {
    const event = decode(recorded)
    if (event.type !== 'TokenCreated' || event.data.name !== 'later') continue
    position = recorded.position
    break
  }
  await events.close()
  cutLog(dataDir, position - 1)
  await rm(join(dataDir, 'views.db'))
  const place = await temporaryDirectory(t)
  await backup({ dataDir, directory: join(place, 'b') })
  await restore({ directory: join(place, 'b'), dataDir: join(place, 'r') })
  const restored = await startTestServer(t, { DATA_DIR: join(place, 'r') })
  const userOf = (sha1: string) =>
    fetch(`${restored.url}/api/v1/user`, { headers: { authorization: `token ${sha1}` } })
  const same = { name: 'another', scopes: ['read:user'] }
  await call(restored, 'POST', '/users/alice/tokens', same)
  t.equal((await userOf(token)).status, 200)
  t.equal((await userOf(later)).status, 401, 'also after a new token got its id')
})

t.test('when a repository is deleted after the log was copied, the log is copied again', async (t) => {
  const dataDir = await copyOf(t, settled)
  const place = await temporaryDirectory(t)
  const log = openSqlite(join(dataDir, 'events.db'), 'NORMAL')
  t.teardown(() => log.close())
  let deleted = false
  const made = await backup({
    dataDir,
    directory: join(place, 'b'),
    onProgress({ step }) {
      if (step !== 'secrets' || deleted) return
      deleted = true
      const data = JSON.stringify({ repoId: 2, owner: { id: 3, login: 'bob' }, name: 'app' })
      const metadata = JSON.stringify({
        actor: null,
        at: new Date().toISOString(),
        correlationId: 'c',
        causationId: 'c',
        schema: 1,
      })
      log
        .prepare(
          `INSERT INTO events (stream, revision, id, type, data, metadata)
           SELECT id, revision + 1, 'deletion', 'RepositoryDeleted', ?, ? FROM streams WHERE name = 'repo-2'`,
        )
        .run(data, metadata)
      renameSync(join(dataDir, 'git', '2.git'), join(place, 'gone.git'))
    },
  })
  t.ok(deleted)
  t.match(made, { repositories: 1, missing: [] })
  t.same(await readdir(join(place, 'b', 'data', 'git')), ['1.git'])
})

t.test(
  'when texts are erased while the secrets are copied, the log is copied again, with the erasure',
  async (t) => {
    const dataDir = await copyOf(t, settled)
    const place = await temporaryDirectory(t)
    const log = openSqlite(join(dataDir, 'events.db'), 'NORMAL')
    t.teardown(() => log.close())
    let erased = false
    const made = await backup({
      dataDir,
      directory: join(place, 'b'),
      onProgress({ step }) {
        if (step !== 'secrets' || erased) return
        erased = true
        const at = new Date().toISOString()
        const data = { repoId: 1, index: 2, commentId: null, comments: [], files: [], by: null, at }
        const metadata = { actor: null, at, correlationId: 'c', causationId: 'c', schema: 1 }
        log
          .prepare(
            `INSERT INTO events (stream, revision, id, type, data, metadata)
           SELECT id, revision + 1, 'erasure', 'TextsErased', ?, ? FROM streams WHERE name = 'pull-1.2'`,
          )
          .run(JSON.stringify(data), JSON.stringify(metadata))
      },
    })
    t.ok(erased)
    t.match(log.prepare('SELECT max(position) AS position FROM events').get(), { position: made.position })
  },
)

t.test('files missing from the data directory are reported, and everything else is backed up', async (t) => {
  const dataDir = await copyOf(t, settled)
  const place = await temporaryDirectory(t)
  await rm(join(dataDir, 'git', '2.git'), { recursive: true })
  const shelves = (await readdir(join(dataDir, 'attachments'))).filter((name) => name.length === 2)
  for (const shelf of shelves) await rm(join(dataDir, 'attachments', shelf), { recursive: true })
  const { missing } = await backup({ dataDir, directory: join(place, 'b') })
  t.match(missing.sort(), [/^attachments\/[0-9a-f]{2}\/[0-9a-f-]{36}$/, 'git/2.git'])
  await restore({ directory: join(place, 'b'), dataDir: join(place, 'r') })
  t.same(await gitRefs(join(place, 'r'), 1), await gitRefs(dataDir, 1))
})

t.test('objects missing from a repository are detected', async (t) => {
  const { tip } = settled
  const dataDir = await copyOf(t, settled)
  const place = await temporaryDirectory(t)
  await rm(join(dataDir, 'git', '1.git', 'objects', tip.slice(0, 2), tip.slice(2)))
  const { missing } = await backup({ dataDir, directory: join(place, 'b') })
  t.same(missing, ['objects of git/1.git'])
})

t.test('damaged read models are left out, and rebuilt after a restore', async (t) => {
  const dataDir = await copyOf(t, settled)
  const place = await temporaryDirectory(t)
  await rm(join(dataDir, 'views.db-wal'), { force: true })
  await writeFile(join(dataDir, 'views.db'), 'no database at all\n'.repeat(1000))
  await backup({ dataDir, directory: join(place, 'b') })
  t.notOk((await readdir(join(place, 'b', 'data'))).includes('views.db'))
  await restore({ directory: join(place, 'b'), dataDir: join(place, 'r') })
  await checkRestored(t, join(place, 'r'))
})

t.test('a damaged log gives no backup, and leaves no files', async (t) => {
  const dataDir = await copyOf(t, settled)
  const place = await temporaryDirectory(t)
  await rm(join(dataDir, 'events.db-wal'), { force: true })
  await writeFile(join(dataDir, 'events.db'), 'no database at all\n'.repeat(1000))
  await t.rejects(backup({ dataDir, directory: join(place, 'b') }), {
    name: 'SnapshotFailed',
    message: /events\.db/,
  })
  t.same(await readdir(place), [])
})

t.test('a backup refuses unusable directories, and removes the files of a killed backup', async (t) => {
  const place = await temporaryDirectory(t)
  const dataDir = join(place, 'data')
  await mkdir(dataDir)
  const directory = join(place, 'b')
  const refusal = (message: RegExp) => ({ name: 'BackupProblem', message })
  await t.rejects(backup({ dataDir, directory }), refusal(/there is no log in/))
  await openSqliteEventStore(join(dataDir, 'events.db')).close()
  await t.rejects(backup({ dataDir, directory: dataDir }), refusal(/is in DATA_DIR/))
  await t.rejects(backup({ dataDir, directory: join(dataDir, 'git', 'b') }), refusal(/is in DATA_DIR/))
  await writeFile(join(place, 'file'), '')
  await t.rejects(backup({ dataDir, directory: join(place, 'file') }), refusal(/is not a directory/))
  await mkdir(directory)
  await writeFile(join(directory, 'mine'), '')
  await t.rejects(backup({ dataDir, directory }), refusal(/is not empty/))
  t.same(await readdir(directory), ['mine'])
  await t.rejects(backup({ dataDir, directory: '/proc' }), { message: /./ })

  await mkdir(join(place, 'b2.partial'))
  const release = lockDataDir(join(place, 'b2.partial'))
  await t.rejects(
    backup({ dataDir, directory: join(place, 'b2') }),
    refusal(/another backup to .*b2 is under way/),
  )
  release()
  // The files of a killed backup.
  await mkdir(join(place, 'b2.partial', 'data', 'git'), { recursive: true })
  for (const name of ['SHA256SUMS', 'SHA256SUMS.draft', 'manifest.json', 'data/events.db']) {
    await writeFile(join(place, 'b2.partial', name), '')
  }
  t.match(await backup({ dataDir, directory: join(place, 'b2') }), { events: 0, missing: [] })
  t.same((await readdir(join(place, 'b2'))).sort(), ['SHA256SUMS', 'data', 'manifest.json'])

  await mkdir(join(place, 'empty'))
  await symlink('empty', join(place, 'link'))
  t.match(await backup({ dataDir, directory: join(place, 'link') }), { directory: join(place, 'empty') })
})

t.test('a backup does not touch files in its partial directory that are not from a backup', async (t) => {
  const place = await temporaryDirectory(t)
  const dataDir = join(place, 'data')
  await mkdir(dataDir)
  await openSqliteEventStore(join(dataDir, 'events.db')).close()
  const partial = join(place, 'b.partial')
  const make = () => backup({ dataDir, directory: join(place, 'b') })
  const cases: [names: string[], named: string][] = [
    [['notes.txt'], 'notes.txt'],
    [['lock.db', 'manifest.json', 'thesis'], 'thesis'],
    // A backup uses this name too, but without a lock no backup was started here.
    [['data'], 'data'],
  ]
  for (const [names, named] of cases) {
    await mkdir(partial)
    for (const name of names) await writeFile(join(partial, name), name === 'lock.db' ? '' : 'mine')
    const message = `${partial}, the directory of the unfinished backup, has ${named},`
    await t.rejects(make(), { name: 'BackupProblem', message })
    t.same((await readdir(partial)).sort(), names, 'nothing was added, not even a lock')
    await rm(partial, { recursive: true })
  }
  await make()
})

t.test('a half restored data directory is not backed up', async (t) => {
  const dataDir = await copyOf(t, settled)
  const place = await temporaryDirectory(t)
  await mkdir(join(dataDir, 'restoring'))
  await t.rejects(backup({ dataDir, directory: join(place, 'b') }), {
    name: 'DataDirInUse',
    message: /a restore into .* was cut off/,
  })
  t.same(await readdir(place), [])
})
