/** Erased texts are missing in the answers of another node, too. */
import t from 'tap'
import { sharedStores } from '../../../shared-stores.ts'
import { startTestServer } from '../../../start-server.ts'
import { filesWith, posted, verified } from './setup.ts'

t.test('erasing on EventStoreDB and MongoDB, from another node', async (t) => {
  const stores = await sharedStores(t)
  const server = await startTestServer(t, stores)
  const other = await startTestServer(t, { ...stores, NODE_NAME: 'other' })
  const { call, path, comment, issues } = await posted(server, 'shared')
  const fromOther = async (at: string) => (await other.fetch('alice', `/api/v1/repos/alice/${at}`)).text()
  const shown = [
    path,
    `${path}/replay?revision=0`,
    `${path}/history?limit=50`,
    `${path}/timeline`,
    `${path}/comments`,
  ]
  for (const at of shown) await fromOther(at)
  t.match(await fromOther(`${path}/history?limit=50`), 'Xq7TITLE')
  t.equal((await call('POST', `${path}/erase`, { all: true })).status, 204)
  for (const at of [...shown, `${issues}/comments/${comment}`]) {
    t.notMatch(await fromOther(at), /Xq7/, `${at} of the other node`)
  }
  t.strictSame(await filesWith(stores.DATA_DIR, 'Xq7CONTENT'), [])
  t.match(await verified(t, server), { sound: true })
})
