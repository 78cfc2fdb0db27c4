/** `KEEP_HISTORY_OBJECTS`: hidden refs keep what branches, tags and pull requests have left. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { backup } from '../../../src/maintenance/backup/backup.ts'
import { restore } from '../../../src/maintenance/backup/restore.ts'
import { reconcileRefs } from '../../../src/processes/recovery.ts'
import { gitIn, type Test, workTree } from '../../git-client.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'

const HIDDEN = 'refs/mergelog/'

/** Removes what no ref reaches, as an operator might. */
async function collect(dir: string): Promise<void> {
  await gitIn(dir, ['reflog', 'expire', '--expire=now', '--all'])
  await gitIn(dir, ['gc', '--quiet', '--prune=now'])
}

const hasObject = (dir: string, id: string) =>
  gitIn(dir, ['cat-file', '-e', id]).then(
    () => true,
    () => false,
  )

const hiddenRefs = async (dir: string) =>
  (await gitIn(dir, ['for-each-ref', '--format=%(objectname)', HIDDEN])).split('\n').filter((id) => id !== '')

/** A repository `alice/NAME` with one commit, and a work tree of it. */
async function repository(test: Test, server: TestServer, name: string) {
  const alice = await server.as('alice')
  const { data } = await alice.user.createCurrentUserRepo({ name })
  const dir = `${server.services.gitDir}/${data.id}.git`
  const work = await workTree(test)
  const url = server.gitUrl('alice', `alice/${name}`)
  await work.git('remote', 'add', 'origin', url)
  const first = await work.commit('First', { 'a.txt': 'a\n' })
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/main')
  return { alice, work, dir, url, first, repoId: data.id ?? 0 }
}

t.test('KEEP_HISTORY_OBJECTS keeps what the log names', async (t) => {
  const server = await startTestServer(t, { KEEP_HISTORY_OBJECTS: 'on' })

  t.test('commits that a forced push, a deletion or a moved tag leaves stay after git gc', async (t) => {
    const { work, dir, first } = await repository(t, server, 'moves')
    const left = [await work.commit('Lost', { 'b.txt': 'b\n' })]
    await work.git('push', '-q', 'origin', 'HEAD:refs/heads/main', 'HEAD~:refs/heads/topic')
    t.same(await hiddenRefs(dir), [], 'a move forward leaves nothing')
    await work.git('push', '-q', '--force', 'origin', `${first}:refs/heads/main`)
    left.push(await work.commit('Of the topic', { 'c.txt': 'c\n' }))
    await work.git('push', '-q', 'origin', 'HEAD:refs/heads/topic')
    await work.git('push', '-q', 'origin', ':refs/heads/topic')
    await work.git('tag', '-a', '-m', 'One', 'v1')
    left.push(await work.git('rev-parse', 'v1'))
    await work.git('push', '-q', 'origin', 'v1')
    await work.git('push', '-q', '--force', 'origin', `${first}:refs/tags/v1`)
    await work.git('push', '-q', 'origin', `${first}:refs/heads/merged`)
    await work.git('push', '-q', 'origin', ':refs/heads/merged')
    await collect(dir)
    t.same((await hiddenRefs(dir)).sort(), left.sort(), 'one ref for each; none for what main reaches')
    for (const id of left) t.ok(await hasObject(dir, id))
  })

  t.test('the earlier head of a pull request from a fork stays in the base repository', async (t) => {
    const { alice, dir } = await repository(t, server, 'base')
    const bob = await server.as('bob')
    await bob.repos.createFork('alice', 'base', { name: 'fork' })
    const work = await workTree(t)
    await work.git('remote', 'add', 'origin', server.gitUrl('bob', 'bob/fork'))
    await work.git('fetch', '-q', 'origin')
    await work.git('reset', '-q', '--hard', 'origin/main')
    const before = await work.commit('Before', { 'b.txt': 'b\n' })
    await work.git('push', '-q', 'origin', 'HEAD:refs/heads/topic')
    await bob.repos.repoCreatePullRequest('alice', 'base', { head: 'bob:topic', base: 'main', title: 'A' })
    await work.git('commit', '-q', '--amend', '-m', 'After')
    await work.git('push', '-q', '--force', 'origin', 'HEAD:refs/heads/topic')
    const { data } = await alice.repos.repoGetPullRequest('alice', 'base', 1)
    t.equal(data.head?.sha, await work.git('rev-parse', 'HEAD'))
    await collect(dir)
    t.same(await hiddenRefs(dir), [before])
    t.ok(await hasObject(dir, before))
  })

  t.test('clients do not see what is kept', async (t) => {
    const { work, dir, url, first } = await repository(t, server, 'hidden')
    const lost = await work.commit('Lost', { 'b.txt': 'b\n' })
    await work.git('push', '-q', 'origin', 'HEAD:refs/heads/main')
    await work.git('push', '-q', '--force', 'origin', `${first}:refs/heads/main`)
    t.same(await hiddenRefs(dir), [lost])
    t.notMatch(await work.git('ls-remote', url), lost)
    const mirror = await mkdtemp(join(tmpdir(), 'mergelog-mirror-'))
    t.teardown(() => rm(mirror, { recursive: true, force: true }))
    await gitIn(mirror, ['clone', '-q', '--mirror', url, '.'])
    t.notOk(await hasObject(mirror, lost))
    await t.rejects(gitIn(mirror, ['fetch', '-q', url, lost]), /not our ref/)
    const base = '/api/v1/repos/alice/hidden'
    t.notMatch(await (await server.fetch('alice', `${base}/git/refs`)).text(), lost)
    for (const path of [`contents?ref=${lost}`, `git/commits/${lost}`, `git/trees/${lost}`]) {
      t.equal((await server.fetch('alice', `${base}/${path}`)).status, 404, path)
    }
    const revived = { new_branch_name: 'again', old_ref_name: lost }
    const init = { method: 'POST', body: JSON.stringify(revived) }
    t.equal((await server.fetch('alice', `${base}/branches`, init)).status, 404)
    const ref = `${HIDDEN}kept/${first}`
    await t.rejects(work.git('push', '-q', 'origin', `${first}:${ref}`), /only the server has refs/)
    await t.rejects(work.git('push', '-q', 'origin', `:${HIDDEN}kept/${lost}`))
    t.same(await hiddenRefs(dir), [lost])
    await server.fetch('bob', `${base}/forks`, { method: 'POST', body: '{}' })
    const fork = await (await server.as('bob')).repos.repoGet('bob', 'hidden')
    const forked = `${server.services.gitDir}/${fork.data.id}.git`
    t.notOk(await hasObject(forked, lost), 'a fork has only what branches and tags reach')
  })

  t.test('a move that a crash left unrecorded is kept when recovery records it', async (t) => {
    const { work, dir, first, repoId } = await repository(t, server, 'crash')
    const lost = await work.commit('Lost', { 'b.txt': 'b\n' })
    await work.git('push', '-q', 'origin', 'HEAD:refs/heads/main')
    await gitIn(dir, ['update-ref', 'refs/heads/main', first])
    t.equal(await reconcileRefs(server.services, repoId), 1)
    t.same(await hiddenRefs(dir), [lost])
    t.equal(await reconcileRefs(server.services, repoId), 0, 'the hidden ref is no move')
  })
})

t.test('without KEEP_HISTORY_OBJECTS git removes what no ref reaches', async (t) => {
  const server = await startTestServer(t)
  const { work, dir, first } = await repository(t, server, 'app')
  const lost = await work.commit('Lost', { 'b.txt': 'b\n' })
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/main')
  await work.git('push', '-q', '--force', 'origin', `${first}:refs/heads/main`)
  t.same(await hiddenRefs(dir), [])
  await collect(dir)
  t.notOk(await hasObject(dir, lost))
})

t.test('a backup has what is kept, and a restored server keeps it', async (t) => {
  const place = await mkdtemp(join(tmpdir(), 'mergelog-kept-'))
  t.teardown(() => rm(place, { recursive: true, force: true }))
  const dataDir = join(place, 'data')
  const server = await startTestServer(t, { DATA_DIR: dataDir, KEEP_HISTORY_OBJECTS: 'on' })
  const { work, first, repoId } = await repository(t, server, 'app')
  const lost = await work.commit('Lost', { 'b.txt': 'b\n' })
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/main')
  await work.git('push', '-q', '--force', 'origin', `${first}:refs/heads/main`)
  await server.stop()
  const directory = join(place, 'backup')
  t.match(await backup({ dataDir, directory }), { missing: [] })
  await restore({ directory, dataDir: join(place, 'restored') })
  const restored = join(place, 'restored', 'git', `${repoId}.git`)
  t.same(await hiddenRefs(restored), [lost])
  await collect(restored)
  t.ok(await hasObject(restored, lost))
})
