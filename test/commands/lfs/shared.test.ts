import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { recordedLfsObjects } from '../../../src/commands/lfs/record-objects.ts'
import { Refused } from '../../../src/errors/refusal.ts'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { lfsPath } from '../../../src/git/lfs/lfs-files.ts'
import { backup } from '../../../src/maintenance/backup/backup.ts'
import { restore } from '../../../src/maintenance/backup/restore.ts'
import { diskFull } from '../../../src/storage/disk-full.ts'
import { temporaryDirectory } from '../../maintenance/backup/restored.ts'
import { clockOf } from '../../set-clock.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { lfsOf, objectOf } from './lfs-client.ts'
import { ART_PULL, artFromFork, files, textOf } from './lfs-fixture.ts'

const server = await startTestServer(t, { LOG_LEVEL: 'silent' })

t.test(
  'a fork has the objects of its parent, also when a crash came before they were recorded',
  async (t) => {
    const [alice, bob] = [await server.as('alice'), await server.as('bob')]
    await alice.user.createCurrentUserRepo({ name: 'parent', auto_init: true })
    await lfsOf(server, 'alice/parent').put('alice', 'of the parent')
    await bob.repos.createFork('alice', 'parent', {})
    t.equal(await textOf(server, 'bob/parent', 'of the parent'), 'of the parent')
    await lfsOf(server, 'alice/parent').put('alice', 'later')
    t.equal(await textOf(server, 'bob/parent', 'later'), 404, 'only what it had then')

    const { events } = server.services
    const { append } = events
    let isKilled = true
    events.append = async (stream, recorded, expected) => {
      if (isKilled && recorded.some(({ type }) => type === 'LfsObjectsAdded'))
        throw new StoreUnavailable('killed')
      return append.call(events, stream, recorded, expected)
    }
    const fork = await server.fetch('carol', '/api/v1/repos/alice/parent/forks', {
      method: 'POST',
      body: '{}',
    })
    t.equal(fork.status, 503)
    isKilled = false
    await until(
      'the process has done it',
      async () => (await textOf(server, 'carol/parent', 'later')) === 'later',
    )
    await alice.repos.repoDelete('alice', 'parent')
    t.equal(
      await textOf(server, 'bob/parent', 'of the parent'),
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
  const [alice, bob] = [await server.as('alice'), await server.as('bob')]
  await alice.user.createCurrentUserRepo({ name: 'late', auto_init: true })
  setClock(5 * 60_000)
  t.equal((await lfsOf(server, 'alice/late').put('alice', 'of the parent')).status, 200)
  setClock(0)
  const { data: fork } = await bob.repos.createFork('alice', 'late', {})
  const recorded = await recordedLfsObjects(server.services, fork.id ?? 0)
  t.same([...recorded], [objectOf('of the parent').oid])
})

t.test(
  "a reader of a pull request gets its objects from the base, and a merge makes them the base's own",
  async (t) => {
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

t.test("the owner's quota and the free space on the disk apply to objects", async (t) => {
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
