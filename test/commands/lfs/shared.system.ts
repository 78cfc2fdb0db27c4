/** LFS objects when a server is killed, and on two nodes. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { lfsPath } from '../../../src/git/lfs/lfs-files.ts'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { killedAfter } from '../../killed-server.ts'
import { temporaryDirectory } from '../../maintenance/backup/restored.ts'
import { sharedStores } from '../../shared-stores.ts'
import { passwordOf, startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { lfsOf, objectOf } from './lfs-client.ts'
import { ART_PULL, artFromFork, textOf } from './lfs-fixture.ts'

t.test('after kill -9 between a merge, its objects and their record, a start completes them', async (t) => {
  const DATA_DIR = await temporaryDirectory(t)
  const first = await startTestServer(t, { DATA_DIR })
  const { alice, baseId } = await artFromFork(t, first)
  await alice.repos.repoCreatePullRequest('alice', 'app', ART_PULL)
  await first.stop()
  const authorization = `Basic ${Buffer.from(`alice:${passwordOf('alice')}`).toString('base64')}`
  const headers = { authorization, 'content-type': 'application/json' }
  const merge = { method: 'POST', headers, body: '{"Do":"merge"}' }
  await killedAfter(t, DATA_DIR, /^append PullRequestMerged /, (url) =>
    fetch(`${url}/api/v1/repos/alice/app/pulls/1/merge`, merge),
  )
  await killedAfter(t, DATA_DIR, /^link \S+ \S+\/lfs\/objects\//)
  const last = await startTestServer(t, { DATA_DIR })
  const { lfsObjects } = last.services.views
  await until('the base has it', async () => (await lfsObjects.findOne({ repoId: baseId })) !== undefined)
  t.equal(await textOf(last, 'alice/app', 'merged'), 'merged')
})

t.test('on EventStoreDB and MongoDB, two nodes with one DATA_DIR share large files', async (t) => {
  const stores = await sharedStores(t)
  const one = await startTestServer(t, { ...stores, NODE_NAME: 'one' })
  const two = await startTestServer(t, { ...stores, NODE_NAME: 'two' })
  const { alice, baseId, head } = await artFromFork(t, one)
  await one.as('carol')
  t.equal((await lfsOf(two, 'alice/app').put('alice', 'by the other')).status, 200)
  t.equal(await textOf(one, 'alice/app', 'by the other'), 'by the other')
  const both = await Promise.all(
    [one, two].map((node) => lfsOf(node, 'alice/app').put('alice', 'x'.repeat(100_000))),
  )
  t.same(
    both.map(({ status }) => status),
    [200, 200],
  )
  const lock = (node: TestServer, login: string) =>
    lfsOf(node, 'alice/app').json(login, 'POST', '/locks', { path: 'a.psd' })
  t.same(
    (await Promise.all([lock(one, 'alice'), lock(two, 'alice')])).map(({ status }) => status).sort(),
    [201, 409],
  )
  t.equal((await lock(two, 'carol')).status, 403)

  await alice.repos.repoCreatePullRequest('alice', 'app', ART_PULL)
  t.equal(await textOf(two, 'alice/app', 'merged'), 'merged')
  const media = await two.fetch('carol', `/api/v1/repos/alice/app/media/a.psd?ref=${head}`)
  t.equal(await media.text(), 'merged')
  const merge = await two.fetch('alice', '/api/v1/repos/alice/app/pulls/1/merge', {
    method: 'POST',
    body: '{"Do":"merge"}',
  })
  t.equal(merge.status, 200)
  const { lfsObjects } = one.services.views
  await until('it is its own', async () => (await lfsObjects.find({ repoId: baseId })).length === 3)
  const { stored: events, keys } = one.services.texts
  const verified = () =>
    verifyServer({
      events,
      keys,
      models: [],
      scratchDir: stores.DATA_DIR,
      dataFiles: { dataDir: stores.DATA_DIR, deep: true },
    })
  t.match(await verified(), { sound: true, files: { files: 5, problems: [] } })
  const path = join('git', `${baseId}.git`, lfsPath(objectOf('by the other').oid))
  await writeFile(join(stores.DATA_DIR, path), 'by an other!')
  t.match(await verified(), { sound: false, files: { problems: [{ path, problem: /SHA-256 differs/ }] } })
  await rm(join(stores.DATA_DIR, path))
  t.match(await verified(), { sound: false, files: { problems: [{ path, problem: /missing/ }] } })
})
