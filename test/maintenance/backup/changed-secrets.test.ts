/** Secrets replaced or deleted between the copy of the log and the copy of the secrets. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { backupWith } from '../../../src/maintenance/backup/backup.ts'
import type { StoreCopies } from '../../../src/maintenance/backup/context.ts'
import { databaseCopies } from '../../../src/maintenance/backup/database-copies.ts'
import { restore } from '../../../src/maintenance/backup/restore.ts'
import { lineCopies } from '../../../src/maintenance/transfer/export.ts'
import { importExport } from '../../../src/maintenance/transfer/import.ts'
import { openEvents } from '../../../src/server/stores.ts'
import { passwordOf, startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { configOf } from '../transfer/installations.ts'
import { temporaryDirectory } from './restored.ts'
import { APP, call } from './settled-data.ts'

const hook = (url: string) => ({
  active: true,
  events: ['push'],
  config: { url, content_type: 'json', secret: 'secret' },
})

const newHook = (url: string) => ({ type: 'gitea', ...hook(url) })

/** Makes the same copies; `meanwhile` runs once, after the copy of the log. */
function withChange(copies: StoreCopies, meanwhile: () => Promise<void>): StoreCopies {
  let isDone = false
  return {
    ...copies,
    async copySecrets(context, named) {
      if (!isDone) await meanwhile()
      isDone = true
      return copies.copySecrets(context, named)
    },
  }
}

async function kept(server: TestServer): Promise<number> {
  const { secrets } = server.services
  return (await secrets.range({ name: 'webhook_configs', indexes: [], arrays: [] }, { limit: 100 })).length
}

async function aServer(t: Test) {
  const server = await startTestServer(t)
  await server.as('alice')
  await call(server, 'POST', '/user/repos', { name: 'app', auto_init: true })
  const edited = await call(server, 'POST', `${APP}/hooks`, newHook('https://old.example.org/'))
  const deleted = await call(server, 'POST', `${APP}/hooks`, newHook('https://deleted.example.org/'))
  const changePassword = (password: string) =>
    call(server, 'PATCH', '/admin/users/bob', { password }, 'admin')
  await changePassword('the first new password')
  const meanwhile = async () => {
    await call(server, 'PATCH', `${APP}/hooks/${edited.id}`, hook('https://new.example.org/'))
    await call(server, 'DELETE', `${APP}/hooks/${deleted.id}`)
    await changePassword('the second new password')
    await changePassword(passwordOf('bob'))
    await until('what was replaced is forgotten', async () => (await kept(server)) === 1)
  }
  return { server, meanwhile }
}

async function check(t: Test, DATA_DIR: string): Promise<void> {
  const restored = await startTestServer(t, { DATA_DIR })
  const hooks: { config: { url: string } }[] = await call(restored, 'GET', `${APP}/hooks`)
  t.same(
    hooks.map(({ config }) => config.url),
    ['https://new.example.org/'],
  )
  t.equal((await restored.fetch('bob', '/api/v1/user')).status, 200)
  await restored.stop()
}

t.test('a backup has the secrets that its log names, even if they change meanwhile', async (t) => {
  const { server, meanwhile } = await aServer(t)
  const directory = join(await temporaryDirectory(t), 'backup')
  const copies = withChange(databaseCopies, meanwhile)
  t.same((await backupWith(copies, { dataDir: server.dataDir, directory })).missing, [])
  await server.stop()
  const dataDir = `${directory}-restored`
  await restore({ directory, dataDir })
  await check(t, dataDir)
})

t.test('an export has the secrets that its log names, even if they change meanwhile', async (t) => {
  const { server, meanwhile } = await aServer(t)
  const directory = join(await temporaryDirectory(t), 'export')
  const config = configOf({ DATA_DIR: server.dataDir })
  const events = await openEvents(config)
  const copies = withChange(lineCopies(config, events), meanwhile)
  t.same((await backupWith(copies, { dataDir: server.dataDir, directory })).missing, [])
  await events.close()
  await server.stop()
  const to = { DATA_DIR: `${directory}-imported` }
  await importExport({ directory, config: configOf(to) })
  await check(t, to.DATA_DIR)
})

t.test('a secret that the installation itself has lost does not stop a backup', async (t) => {
  const { server } = await aServer(t)
  const { secrets } = server.services
  const collection = { name: 'webhook_configs', indexes: [], arrays: [] }
  const [lost] = await secrets.range(collection, { limit: 1 })
  await secrets.apply([{ op: 'delete', collection, id: lost?.id ?? '' }], new Map())
  const directory = join(await temporaryDirectory(t), 'backup')
  t.same((await backupWith(databaseCopies, { dataDir: server.dataDir, directory })).missing, [])
})
