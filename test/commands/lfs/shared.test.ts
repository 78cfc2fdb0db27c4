import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { backup } from '../../../src/backup/backup.ts'
import { restore } from '../../../src/backup/restore.ts'
import { recordedLfsObjects } from '../../../src/commands/lfs/record.ts'
import { diskFull } from '../../../src/disk-full.ts'
import { StoreUnavailable } from '../../../src/events/event-store.ts'
import { lfsPath } from '../../../src/git/lfs-files.ts'
import { Refused } from '../../../src/refusal.ts'
import { verifyServer } from '../../../src/verify/verify.ts'
import { temporaryDirectory } from '../../backup/restored.ts'
import { workTree } from '../../git-client.ts'
import { killedAfter } from '../../killed-server.ts'
import { clockOf } from '../../set-clock.ts'
import { sharedStores } from '../../shared-stores.ts'
import { passwordOf, startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { lfsOf, objectOf } from './lfs-client.ts'

const pointer = (content: string) => {
  const { oid, size } = objectOf(content)
  return `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${size}\n`
}

async function textOf(server: TestServer, fullName: string, content: string) {
  const answer = await lfsOf(server, fullName).get('alice', objectOf(content).oid)
  return answer.status === 200 ? await answer.text() : answer.status
}

t.test(
  'a fork has the objects of its parent, also when a crash came before they were recorded',
  async (t) => {
    const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
    const [alice, bob] = [await server.as('alice'), await server.as('bob')]
    await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
    await lfsOf(server, 'alice/app').put('alice', 'of the parent')
    await bob.repos.createFork('alice', 'app', {})
    t.equal(await textOf(server, 'bob/app', 'of the parent'), 'of the parent')
    await lfsOf(server, 'alice/app').put('alice', 'later')
    t.equal(await textOf(server, 'bob/app', 'later'), 404, 'only what it had then')

    const { events } = server.services
    const { append } = events
    let isKilled = true
    events.append = async (stream, recorded, expected) => {
      if (isKilled && recorded.some(({ type }) => type === 'LfsObjectsAdded'))
        throw new StoreUnavailable('killed')
      return append.call(events, stream, recorded, expected)
    }
    const fork = await server.fetch('carol', '/api/v1/repos/alice/app/forks', { method: 'POST', body: '{}' })
    t.equal(fork.status, 503)
    isKilled = false
    await until(
      'the process has done it',
      async () => (await textOf(server, 'carol/app', 'later')) === 'later',
    )
    await alice.repos.repoDelete('alice', 'app')
    t.equal(
      await textOf(server, 'bob/app', 'of the parent'),
      'of the parent',
      'it stays when its parent goes',
    )
  },
)

t.test('a fork has the objects of its parent, also when the read models lag', async (t) => {
  const server = await startTestServer(t, { PROJECTION_WAIT_MS: '50' })
  const [alice, bob] = [await server.as('alice'), await server.as('bob')]
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  await server.services.projector.stop()
  t.equal((await lfsOf(server, 'alice/app').put('alice', 'of the parent')).status, 200)
  const { data: fork } = await bob.repos.createFork('alice', 'app', {})
  const recorded = await recordedLfsObjects(server.services, fork.id ?? 0)
  t.same([...recorded], [objectOf('of the parent').oid])
})

t.test('a fork has the objects of its parent, also when the clock of its server is behind', async (t) => {
  const setClock = clockOf(t)
  const server = await startTestServer(t)
  const [alice, bob] = [await server.as('alice'), await server.as('bob')]
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  setClock(5 * 60_000)
  t.equal((await lfsOf(server, 'alice/app').put('alice', 'of the parent')).status, 200)
  setClock(0)
  const { data: fork } = await bob.repos.createFork('alice', 'app', {})
  const recorded = await recordedLfsObjects(server.services, fork.id ?? 0)
  t.same([...recorded], [objectOf('of the parent').oid])
})

const ART = { 'a.psd': 'merged', 'b.psd': 'in no repository' }
const files = Object.fromEntries(Object.entries(ART).map(([name, content]) => [name, pointer(content)]))

/** A pull request from a fork; its first file points to an object of the fork. */
async function artFromFork(t: Test, server: TestServer) {
  const [alice, bob] = [await server.as('alice'), await server.as('bob')]
  const { data: base } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const { data: fork } = await bob.repos.createFork('alice', 'app', {})
  for (const content of ['merged', 'elsewhere']) await lfsOf(server, 'bob/app').put('bob', content)
  const work = await workTree(t, server.gitUrl('bob', 'bob/app'))
  await work.git('checkout', '-q', '-b', 'art')
  const head = await work.commit('Add art', files)
  await work.git('push', '-q', 'origin', 'art')
  return { alice, bob, head, baseId: base.id ?? 0, forkId: fork.id ?? 0 }
}

const ART_PULL = { head: 'bob:art', base: 'main', title: 'Art' }

t.test(
  "who reads a pull request gets its commits' objects by the base, and a merge makes them its own",
  async (t) => {
    const server = await startTestServer(t)
    const { alice, head, baseId } = await artFromFork(t, server)
    const base = lfsOf(server, 'alice/app')
    t.equal(await textOf(server, 'alice/app', 'merged'), 404)
    await alice.repos.repoCreatePullRequest('alice', 'app', ART_PULL)
    t.equal(await textOf(server, 'alice/app', 'merged'), 'merged')
    t.equal(await textOf(server, 'alice/app', 'elsewhere'), 404, 'no commit of it points there')
    const wanted = ['merged', 'elsewhere', 'in no repository'].map(objectOf)
    const { body } = await base.batch(null, 'download', wanted)
    t.match(body.objects, [{ actions: { download: {} } }, { error: { code: 404 } }, { error: { code: 404 } }])
    t.ok((await base.batch('alice', 'upload', wanted)).body.objects[0]?.actions?.upload, 'it is not its own')

    const media = (name: string, init?: RequestInit) =>
      server.fetch(null, `/api/v1/repos/alice/app/media/${name}?ref=${head}`, init)
    const answer = await media('a.psd')
    t.equal(await answer.text(), 'merged')
    const tag = answer.headers.get('etag') ?? ''
    t.equal(tag, `"${objectOf('merged').oid}"`)
    t.equal((await media('a.psd', { headers: { 'If-None-Match': tag } })).status, 304)
    const part = await media('a.psd', { headers: { Range: 'bytes=1-3' } })
    t.same([part.status, await part.text()], [206, 'erg'])
    t.equal(await (await media('b.psd')).text(), files['b.psd'], 'a pointer without its object is itself')
    const raw = await server.fetch(null, `/api/v1/repos/alice/app/raw/a.psd?ref=${head}`)
    t.equal(await raw.text(), files['a.psd'])

    await alice.repos.repoMergePullRequest('alice', 'app', 1, { Do: 'merge' })
    t.equal(await textOf(server, 'alice/app', 'merged'), 'merged', 'at once')
    const { lfsObjects } = server.services.views
    await until('it is its own', async () => (await lfsObjects.findOne({ repoId: baseId })) !== undefined)
    t.match(await lfsObjects.find({ repoId: baseId }), [objectOf('merged')])
    await (await server.as('bob')).repos.repoDelete('bob', 'app')
    t.equal(await textOf(server, 'alice/app', 'merged'), 'merged', 'it stays when the fork goes')
    await rm(join(server.dataDir, 'git', `${baseId}.git`, lfsPath(objectOf('merged').oid)))
    t.equal((await media('a.psd')).status, 404, 'its file is lost')
  },
)

t.test('kill -9 between a merge, its objects and their record leaves them to the next start', async (t) => {
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

t.test('on EventStoreDB and MongoDB, two nodes with one DATA_DIR are one for large files', async (t) => {
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
  t.match(await verified(), { sound: false, files: { problems: [{ path, problem: /not those/ }] } })
  await rm(join(stores.DATA_DIR, path))
  t.match(await verified(), { sound: false, files: { problems: [{ path, problem: /missing/ }] } })
})

t.test('backup and restore have the objects that the log names', async (t) => {
  const place = await temporaryDirectory(t)
  const dataDir = join(place, 'data')
  const server = await startTestServer(t, { DATA_DIR: dataDir })
  const alice = await server.as('alice')
  const { data } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const { put } = lfsOf(server, 'alice/app')
  await put('alice', 'kept')
  await put('alice', 'lost')
  const dir = join(dataDir, 'git', `${data.id}.git`)
  await server.stop()
  await rm(join(dir, lfsPath(objectOf('lost').oid)))
  const stray = join(dir, lfsPath(objectOf('stray').oid))
  await mkdir(dirname(stray), { recursive: true })
  await writeFile(stray, 'stray')
  const made = await backup({ dataDir, directory: join(place, 'b') })
  t.same(made.missing, [`git/${data.id}.git/${lfsPath(objectOf('lost').oid)}`])
  const restored = join(place, 'r')
  await restore({ directory: join(place, 'b'), dataDir: restored })
  const next = await startTestServer(t, { DATA_DIR: restored })
  t.equal(await textOf(next, 'alice/app', 'kept'), 'kept')
  t.equal(await textOf(next, 'alice/app', 'stray'), 404)
  const { lfsObjects } = next.services.views
  t.equal((await lfsObjects.find({ repoId: data.id ?? 0 })).length, 2)
})

t.test('a quota of the owner and the room on the disk hold for objects', async (t) => {
  const server = await startTestServer(t, { MAX_OWNER_BYTES: '100KiB', LOG_LEVEL: 'silent' })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app' })
  const { put } = lfsOf(server, 'alice/app')
  t.equal((await put('alice', 'x'.repeat(110_000))).status, 413)
  t.equal((await put('alice', 'x'.repeat(60_000))).status, 200)
  t.equal((await put('alice', 'y'.repeat(60_000))).status, 413)
  const { freeSpace } = server.services
  freeSpace.require = async () => {
    throw new Refused(diskFull)
  }
  t.equal((await put('alice', 'z')).status, 507)
})
