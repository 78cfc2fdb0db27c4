import { once } from 'node:events'
import { mkdir, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { keepPassword, passwordHashOf, secretCollections } from '../../../src/auth/secrets.ts'
import { openEventStoreDb } from '../../../src/events/store/eventstoredb/eventstoredb.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import { backup } from '../../../src/maintenance/backup/backup.ts'
import { restore } from '../../../src/maintenance/backup/restore.ts'
import { exportAll } from '../../../src/maintenance/transfer/export.ts'
import { importExport } from '../../../src/maintenance/transfer/import.ts'
import { openReadStores } from '../../../src/server/stores.ts'
import { RESTORING } from '../../../src/storage/unfinished-restore.ts'
import { startMergelog } from '../../cli/command-line.ts'
import { startTestServer } from '../../start-server.ts'
import { aContext } from '../../stores.ts'
import { cannotMount, mergelogAtMount } from '../backup/at-mount.ts'
import { temporaryDirectory } from '../backup/restored.ts'
import { settledData } from '../backup/settled-data.ts'
import { anInstallation, configOf, eventsOf, type Installation } from './installations.ts'

let source: Installation
let place: string
let directory: string
t.before(async () => {
  source = { DATA_DIR: (await settledData(t)).dataDir }
  place = await temporaryDirectory(t)
  directory = join(place, 'e')
  await exportAll({ config: configOf(source), directory })
})

const refusal = (message: RegExp) => ({ name: 'BackupProblem', message })
const importTo = (installation: Installation, from = directory) =>
  importExport({ directory: from, config: configOf(installation) })
const names = async (path: string) =>
  (await readdir(path).catch(() => [])).filter((name) => !name.startsWith('lock.db'))

/** Changes one byte of a file. */
async function flip(path: string): Promise<void> {
  const file = await open(path, 'r+')
  try {
    const at = Math.floor((await file.stat()).size / 2)
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, at)
    await file.write(Buffer.from([(buffer[0] ?? 0) ^ 1]), 0, 1, at)
  } finally {
    await file.close()
  }
}

t.test('an import refuses a mount point in DATA_DIR before it writes', { skip: cannotMount }, async (t) => {
  const dataDir = t.testdir({ git: {} })
  t.match(mergelogAtMount(dataDir, 'git', ['import', directory]), {
    status: 1,
    stderr: /git is a mount point/,
  })
  t.strictSame(await names(dataDir), ['git'])
})

t.test('an import refuses a DATA_DIR that is not empty, and leaves it', async (t) => {
  for (const kind of ['embedded', 'both servers'] as const) {
    const to = await anInstallation(t, kind)
    await mkdir(to.DATA_DIR)
    await writeFile(join(to.DATA_DIR, 'notes.txt'), 'mine')
    await t.rejects(importTo(to), refusal(/DATA_DIR: .* is not empty \(it has notes\.txt\)/))
    t.same(await readdir(to.DATA_DIR), ['notes.txt'])
    if (to.EVENTSTORE_URL !== undefined) t.same(await eventsOf(to), [])
  }
  const before = await eventsOf(source)
  await t.rejects(importTo(source), refusal(/is not empty/))
  t.same(await eventsOf(source), before)
})

t.test('an import refuses a log in EventStoreDB that has events, and leaves it', async (t) => {
  const to = await anInstallation(t, 'both servers')
  const log = openEventStoreDb(to.EVENTSTORE_URL ?? '')
  const event = {
    id: '6c84fb90-12c4-11e1-840d-7b25c5ee775a',
    type: 'Foreign',
    data: {},
    metadata: aContext(),
  }
  await log.append('something', [{ ...event, metadata: { ...event.metadata, schema: 1 } }], 'no-stream')
  await log.close()
  const before = await eventsOf(to)
  t.equal(before.length, 1)
  await t.rejects(importTo(to), refusal(/EVENTSTORE_URL: the log has events; an import needs an empty one/))
  t.same(await eventsOf(to), before)
  t.same(await names(to.DATA_DIR), [])
})

t.test(
  'an import to an unavailable server has not begun: it names what to start, as a server does',
  async (t) => {
    const to = await anInstallation(t, 'both servers')
    const awayFrom = (setting: string) => ({
      name: 'StoreUnavailable',
      message: new RegExp(`^${setting}: 127\\.0\\.0\\.1:1: no server listens on this port`),
    })
    await t.rejects(
      importTo({ ...to, EVENTSTORE_URL: 'esdb://127.0.0.1:1?tls=false' }),
      awayFrom('EVENTSTORE_URL'),
    )
    await t.rejects(
      importTo({ ...to, MONGODB_URL: 'mongodb://127.0.0.1:1/mergelog' }),
      awayFrom('MONGODB_URL'),
    )
    t.same(await eventsOf(to), [])
    t.same(await names(to.DATA_DIR), [])
  },
)

t.test('an import fills the DATA_DIR of a start that found no server, and no other', async (t) => {
  const to = await anInstallation(t, 'EventStoreDB')
  const away = { ...to, EVENTSTORE_URL: 'esdb://127.0.0.1:1?tls=false', START_TIMEOUT_MS: '0' }
  // In another process: a start that fails keeps its lock until its process ends.
  const [code] = await once(startMergelog(t, ['serve'], away), 'exit')
  t.equal(code, 1)
  t.same(await names(to.DATA_DIR), ['format.json', 'git'])
  await importTo(to)
  const server = await startTestServer(t, to)
  t.equal((await server.fetch(null, '/healthz')).status, 200)
})

t.test('an import refuses a MongoDB that has read models or secrets, and leaves it', async (t) => {
  const used = await anInstallation(t, 'both servers')
  const server = await startTestServer(t, used)
  await server.stop()
  const withModels = { ...(await anInstallation(t, 'EventStoreDB')), MONGODB_URL: used.MONGODB_URL ?? '' }
  await t.rejects(importTo(withModels), refusal(/MONGODB_URL: the database has the read model accounts/))
  t.same(await eventsOf(withModels), [])

  const withSecrets = await anInstallation(t, 'MongoDB')
  const { readStore, secrets } = await openReadStores(configOf(withSecrets))
  t.teardown(() => Promise.all([readStore.close(), secrets.close()]))
  await secrets.prepare(secretCollections)
  await keepPassword(secrets, 1, 'mine')
  await t.rejects(importTo(withSecrets), refusal(/MONGODB_URL: the database has secrets/))
  t.equal(await passwordHashOf(secrets, 1), 'mine')
  t.same(await names(withSecrets.DATA_DIR), [])
})

t.test(
  'an import refuses an export with one changed byte or a missing file, and writes nothing',
  async (t) => {
    const to = await anInstallation(t, 'both servers')
    const embedded = await anInstallation(t, 'embedded')
    const pack = join('data', 'git', '1.git', 'packed-refs')
    const log = join('data', 'log.ndjson')
    const secrets = join('data', 'secrets.ndjson')
    for (const name of ['manifest.json', 'SHA256SUMS', log, secrets, pack]) {
      const path = join(directory, name)
      await flip(path)
      for (const target of [to, embedded]) {
        await t.rejects(importTo(target), { name: 'BackupProblem', message: `${path} is damaged` }, name)
        t.same(await names(target.DATA_DIR), [])
      }
      await flip(path)
    }
    const content = await readFile(join(directory, secrets))
    await rm(join(directory, secrets))
    await t.rejects(importTo(to), refusal(/secrets\.ndjson is missing/))
    await writeFile(join(directory, secrets), content)
    t.same(await eventsOf(to), [])
    await importTo(to)
  },
)

t.test('an export is refused in a directory with files, and without a log', async (t) => {
  const used = join(place, 'used')
  await mkdir(used)
  await writeFile(join(used, 'mine'), '')
  const exportTo = (installation: Installation) =>
    exportAll({ config: configOf(installation), directory: used })
  await t.rejects(exportTo(source), refusal(/used is not empty/))
  t.same(await readdir(used), ['mine'])
  await t.rejects(exportTo(await anInstallation(t, 'embedded')), refusal(/DATA_DIR: there is no log in/))
  await t.rejects(exportTo(await anInstallation(t, 'both servers')), refusal(/DATA_DIR: there is no \//))
})

t.test('an export without its manifest is not complete; exports and backups are told apart', async (t) => {
  const to = await anInstallation(t, 'embedded')
  const manifest = await readFile(join(directory, 'manifest.json'))
  await rm(join(directory, 'manifest.json'))
  await t.rejects(importTo(to), refusal(/is not a complete backup/))
  await writeFile(join(directory, 'manifest.json'), manifest)
  const copy = join(place, 'copy')
  await backup({ dataDir: source.DATA_DIR, directory: copy })
  await t.rejects(importTo(to, copy), refusal(/is a copy of a DATA_DIR: "mergelog restore" is for it/))
  const restoring = restore({ directory, dataDir: to.DATA_DIR })
  await t.rejects(restoring, refusal(/is an export: "mergelog import" is for it/))
  t.same(await names(to.DATA_DIR), [])
})

t.test('an event that EventStoreDB refuses is named before anything is written', async (t) => {
  const dataDir = join(place, 'large')
  await mkdir(dataDir)
  const log = openSqliteEventStore(join(dataDir, 'events.db'))
  const { actor, at, correlationId, causationId } = aContext()
  const metadata = { actor, at, correlationId, causationId, schema: 1 }
  const data = { repoId: 1, index: 1, issueId: 1, body: 'x'.repeat(1024 * 1024) }
  await log.append('issue-1.1', [{ id: 'large', type: 'BodyChanged', data, metadata }], 'no-stream')
  await log.close()
  const large = join(place, 'large-export')
  await exportAll({ config: configOf({ DATA_DIR: dataDir }), directory: large })
  const to = await anInstallation(t, 'EventStoreDB')
  const message = /log\.ndjson, line 1: the event has \d+ bytes; EventStoreDB takes at most 1048576/
  await t.rejects(importTo(to, large), refusal(message))
  t.same(await names(to.DATA_DIR), [])
  t.same(await eventsOf(to), [])
  const embedded = await anInstallation(t, 'embedded')
  await importTo(embedded, large)
  t.same(await eventsOf(embedded), await eventsOf({ DATA_DIR: dataDir }))
})

t.test('while another import is unfinished, only the same one may continue', async (t) => {
  const to = await anInstallation(t, 'both servers')
  const other = join(place, 'other')
  const later = join(place, 'later')
  await exportAll({ config: configOf(source), directory: other })
  await mkdir(join(to.DATA_DIR, RESTORING), { recursive: true })
  const { sums } = JSON.parse(await readFile(join(other, 'manifest.json'), 'utf8'))
  await writeFile(join(to.DATA_DIR, RESTORING, 'import.json'), `{"export": "${sums}x", "complete": false}`)
  await t.rejects(importTo(to, other), refusal(/DATA_DIR: an import of another export .* was cut off/))
  await t.rejects(startTestServer(t, to), {
    name: 'DataDirInUse',
    message: /an import into .* was cut off; run/,
  })
  await t.rejects(exportAll({ config: configOf(to), directory: later }), { name: 'DataDirInUse' })
  await rm(join(to.DATA_DIR, RESTORING), { recursive: true })

  const log = openEventStoreDb(to.EVENTSTORE_URL ?? '')
  await log.importMark.begin('another')
  const cutOff = /EVENTSTORE_URL: an import of another export into this log was cut off/
  await t.rejects(importTo(to, other), refusal(cutOff))
  // As with a wrong DATA_DIR.
  const elsewhere = startTestServer(t, { ...to, DATA_DIR: join(place, 'elsewhere') })
  await t.rejects(elsewhere, { name: 'DataDirInUse', message: /EVENTSTORE_URL: an import into this log/ })
  await log.importMark.end()
  await log.close()
  await importTo(to, other)
  t.same(await eventsOf(to), await eventsOf(source))
})
