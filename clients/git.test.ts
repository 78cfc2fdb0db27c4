/** git itself: a mirror of everything, notes, options of pushes, and large files. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { GIT_ENVIRONMENT, gitIn, workTree } from '../test/git-client.ts'
import { startTestServer } from '../test/start-server.ts'
import { ownFolder } from './client.ts'

const hasLfs = await promisify(execFile)('git', ['lfs', 'version']).then(
  () => true,
  () => false,
)

t.test('git push --mirror brings heads, tags and notes, and says what is the server’s', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'from' })
  const work = await workTree(t, server.gitUrl('alice', 'alice/from'))
  await work.git('checkout', '-q', '-B', 'main')
  await work.commit('Begin', { a: 'a' })
  await work.git('tag', '-a', 'v1', '-m', 'One')
  await work.git('notes', 'add', '-m', 'Seen')
  await work.git('checkout', '-q', '-b', 'topic')
  await work.commit('More', { b: 'b' })
  await work.git('push', '-q', 'origin', 'main', 'topic', 'v1', 'refs/notes/*')
  await alice.repos.repoCreatePullRequest('alice', 'from', { head: 'topic', base: 'main', title: 'More' })

  const mirror = await ownFolder(t)
  await gitIn(mirror, ['clone', '-q', '--mirror', server.gitUrl('alice', 'alice/from'), '.'])
  t.match(await gitIn(mirror, ['for-each-ref', '--format=%(refname)']), /refs\/pull\/1\/head/)
  await alice.user.createCurrentUserRepo({ name: 'to' })
  const target = server.gitUrl('alice', 'alice/to')
  await t.rejects(
    gitIn(mirror, ['push', '-q', '--mirror', target]),
    /refs\/pull\/1\/head/,
    'one ref is refused',
  )
  const names = (await gitIn(mirror, ['ls-remote', target])).split('\n').map((line) => line.split('\t')[1])
  const wanted = [
    'HEAD',
    'refs/heads/main',
    'refs/heads/topic',
    'refs/notes/commits',
    'refs/tags/v1',
    'refs/tags/v1^{}',
  ]
  t.same(names, wanted)

  const other = await workTree(t, target)
  await other.git('fetch', '-q', 'origin', 'refs/notes/*:refs/notes/*')
  t.equal(await other.git('notes', 'show', 'origin/main'), 'Seen')
  await other.git('push', '-q', '-o', 'ci.skip', '-o', 'reason=release', 'origin', 'HEAD:refs/heads/option')
  const history = await server.fetch('alice', '/api/v1/repos/alice/to/history?type=RefsUpdated&limit=50')
  t.match(await history.text(), /"options":\["ci\.skip","reason=release"\]/)
})

t.test('git lfs', { skip: !hasLfs && 'git-lfs is not installed' }, async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  const [owner, name] = ['alice', 'art']
  await alice.user.createCurrentUserRepo({ name, private: true })
  const folder = await ownFolder(t)
  const env = { ...GIT_ENVIRONMENT, HOME: folder }
  const work = await workTree(t)
  const git = (...args: string[]) => work.gitWith(env, ...args)
  await git('lfs', 'install', '--skip-repo')
  await git('lfs', 'track', '*.bin')
  const content = randomBytes(5_000_000)
  await writeFile(join(work.dir, 'large.bin'), content)
  await git('add', '-A')
  await git('commit', '-q', '-m', 'Large')
  const url = server.gitUrl(owner, `${owner}/${name}`)
  await git('push', '-q', url, 'main')
  await git('lfs', 'push', '--all', url)
  await gitIn(folder, ['clone', '-q', url, 'clone'], env)
  t.ok((await readFile(join(folder, 'clone', 'large.bin'))).equals(content))
  const clone = join(folder, 'clone')
  await gitIn(clone, ['lfs', 'lock', 'large.bin'], env)
  t.match(await gitIn(clone, ['lfs', 'locks'], env), /large\.bin\s+alice/)
  await gitIn(clone, ['lfs', 'unlock', 'large.bin'], env)
  t.equal(await gitIn(clone, ['lfs', 'fsck'], env), 'Git LFS fsck OK')
})
