import { once } from 'node:events'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { LOG_START } from '../../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../../src/events/store/eventstoredb/eventstoredb.ts'
import { exportAll } from '../../../src/maintenance/transfer/export.ts'
import { importExport } from '../../../src/maintenance/transfer/import.ts'
import { startMergelog } from '../../cli/command-line.ts'
import { startTestServer } from '../../start-server.ts'
import { checkRestored, gitRefs, temporaryDirectory } from '../backup/restored.ts'
import { type SettledData, settledData } from '../backup/settled-data.ts'
import { anInstallation, configOf, eventsOf, type Installation } from './installations.ts'

let settled: SettledData
let place: string
let directory: string
t.before(async () => {
  settled = await settledData(t)
  place = await temporaryDirectory(t)
  directory = join(place, 'e')
  await exportAll({ config: configOf({ DATA_DIR: settled.dataDir }), directory })
})

/** Kills the command when `isReached` holds; false when it ended earlier. */
async function kill(
  t: Test,
  args: readonly string[],
  environment: Installation,
  isReached: () => Promise<boolean>,
): Promise<boolean> {
  const child = startMergelog(t, args, environment)
  const closed = once(child, 'close')
  while (child.exitCode === null && !(await isReached())) await delay(1)
  child.kill('SIGKILL')
  const [code] = await closed
  return code === null
}

const names = (path: string) => readdir(path).catch((): string[] => [])

t.test('kill -9 of an export leaves no export; the next one starts over', async (t) => {
  const target = join(place, 'killed')
  const source = { DATA_DIR: settled.dataDir }
  const isBegun = async () => (await names(join(`${target}.partial`, 'data'))).includes('log.ndjson')
  t.ok(await kill(t, ['export', target], source, isBegun))
  const to = await anInstallation(t, 'embedded')
  const importPartial = importExport({ directory: `${target}.partial`, config: configOf(to) })
  await t.rejects(importPartial, { name: 'BackupProblem', message: /is not a complete backup/ })
  t.match(await exportAll({ config: configOf(source), directory: target }), { missing: [] })
  t.notOk((await names(place)).includes('killed.partial'))
})

t.test('kill -9 of an import to servers: no server starts; the same import continues', async (t) => {
  const events = await eventsOf({ DATA_DIR: settled.dataDir })
  let halves = 0
  for (const part of [0, 0.3, 0.9]) {
    const to = await anInstallation(t, 'both servers')
    const log = openEventStoreDb(to.EVENTSTORE_URL ?? '')
    // Reads only new events each time, so that this process does not slow down the import.
    let [there, last] = [0, LOG_START]
    const count = async () => {
      for await (const { position } of log.readAll({ from: last })) {
        there += 1
        last = position
      }
      return there
    }
    const wanted = part * events.length
    const isReached = async () =>
      part === 0 ? (await names(join(to.DATA_DIR, 'restoring'))).length > 1 : (await count()) >= wanted
    const wasKilled = await kill(t, ['import', directory], to, isReached)
    if (wasKilled && (await names(to.DATA_DIR)).includes('restoring')) {
      if ((await count()) < events.length) halves += 1
      const start = startTestServer(t, to)
      await t.rejects(start, { name: 'DataDirInUse', message: /an import into .* was cut off/ })
      if (there > 0) {
        const elsewhere = startTestServer(t, { ...to, DATA_DIR: join(place, `elsewhere-${part}`) })
        await t.rejects(elsewhere, { name: 'DataDirInUse', message: /run the same import again/ })
        // Without the files that it had already copied, the import continues too.
        if (part > 0.5) await rm(to.DATA_DIR, { recursive: true })
      }
      await importExport({ directory, config: configOf(to) })
    }
    await log.close()
    t.strictSame(await eventsOf(to), events)
    t.same(await gitRefs(to.DATA_DIR, 1), await gitRefs(settled.dataDir, 1))
    // The log and git are the same as after the others.
    if (part < 0.5) continue
    const server = await checkRestored(t, to.DATA_DIR, to)
    t.equal((await server.fetch('alice', '/api/v1/user')).status, 200)
    await server.stop()
  }
  t.ok(halves > 0)
})

t.test('an import that was interrupted while it moved its files finishes the moves', async (t) => {
  for (const kind of ['embedded', 'both servers'] as const) {
    const to = await anInstallation(t, kind)
    await importExport({ directory, config: configOf(to) })
    const { sums } = JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8'))
    const restoring = join(to.DATA_DIR, 'restoring')
    await mkdir(restoring)
    await rename(join(to.DATA_DIR, 'git'), join(restoring, 'git'))
    await writeFile(join(restoring, 'import.json'), JSON.stringify({ export: sums, complete: true }))
    await importExport({ directory, config: configOf(to) })
    t.notOk((await names(to.DATA_DIR)).includes('restoring'))
    t.same(await gitRefs(to.DATA_DIR, 1), await gitRefs(settled.dataDir, 1))
    await (await startTestServer(t, to)).stop()
  }
})

t.test(
  'kill -9 of an import to embedded stores: no server starts; the same import starts over',
  async (t) => {
    const to = await anInstallation(t, 'embedded')
    const restoring = join(to.DATA_DIR, 'restoring')
    const isBegun = async () => (await names(restoring)).includes('events.db')
    await kill(t, ['import', directory], to, isBegun)
    if ((await names(to.DATA_DIR)).includes('restoring')) {
      await t.rejects(startTestServer(t, to), {
        name: 'DataDirInUse',
        message: /an import into .* was cut off/,
      })
      await importExport({ directory, config: configOf(to) })
    }
    t.same(
      (await names(to.DATA_DIR)).filter((name) => /restoring|import|-wal/.test(name)),
      [],
    )
    await checkRestored(t, to.DATA_DIR, to)
  },
)
