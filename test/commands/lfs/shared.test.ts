import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { backup } from '../../../src/backup/backup.ts'
import { restore } from '../../../src/backup/restore.ts'
import { diskFull } from '../../../src/disk-full.ts'
import { StoreUnavailable } from '../../../src/events/event-store.ts'
import { lfsPath } from '../../../src/git/lfs-files.ts'
import { Refused } from '../../../src/refusal.ts'
import { temporaryDirectory } from '../../backup/restored.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
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

t.test('a merged pull request from a fork brings its objects, and no others', async (t) => {
  const server = await startTestServer(t)
  const [alice, bob] = [await server.as('alice'), await server.as('bob')]
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  await bob.repos.createFork('alice', 'app', {})
  const fork = lfsOf(server, 'bob/app')
  for (const content of ['merged', 'elsewhere']) await fork.put('bob', content)
  const work = await workTree(t, server.gitUrl('bob', 'bob/app'))
  await work.git('checkout', '-q', '-b', 'art')
  await work.commit('Add art', { 'a.psd': pointer('merged'), 'b.psd': pointer('in no repository') })
  await work.git('push', '-q', 'origin', 'art')
  await alice.repos.repoCreatePullRequest('alice', 'app', { head: 'bob:art', base: 'main', title: 'Art' })
  t.equal(await textOf(server, 'alice/app', 'merged'), 404)
  await alice.repos.repoMergePullRequest('alice', 'app', 1, { Do: 'merge' })
  await until('the base has it', async () => (await textOf(server, 'alice/app', 'merged')) === 'merged')
  t.equal(await textOf(server, 'alice/app', 'elsewhere'), 404)
  t.equal(await textOf(server, 'alice/app', 'in no repository'), 404)
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
