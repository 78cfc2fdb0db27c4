import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { GIT_ENVIRONMENT, workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'

function hasGitLfs(): boolean {
  try {
    execFileSync('git', ['lfs', 'version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const skip = !hasGitLfs() && 'git-lfs is not installed'

t.test('git lfs pushes, clones, fetches and locks', { skip }, async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'art', private: true })
  await alice.repos.repoAddCollaborator('alice', 'art', 'bob', { permission: 'write' })
  const home = t.testdir()
  const env = { ...GIT_ENVIRONMENT, HOME: home }
  const first = await workTree(t)
  await first.gitWith(env, 'lfs', 'install')
  const git = (...args: string[]) => first.gitWith(env, ...args)
  await git('remote', 'add', 'origin', server.gitUrl('alice', 'alice/art'))
  await git('lfs', 'track', '*.bin')
  const [large, small] = [randomBytes(3_000_000), randomBytes(10)]
  await writeFile(join(first.dir, 'large.bin'), large)
  await writeFile(join(first.dir, 'small.bin'), small)
  await git('add', '-A')
  await git('commit', '-q', '-m', 'Art')
  await git('push', '-q', 'origin', 'main')
  t.match(await git('cat-file', '-p', 'HEAD:large.bin'), /^version https:\/\/git-lfs/)

  const second = join(home, 'second')
  await mkdir(second)
  const bob = await workTree(t)
  const asBob = (...args: string[]) => bob.gitWith(env, ...args)
  await asBob('clone', '-q', server.gitUrl('bob', 'alice/art'), second)
  t.ok((await readFile(join(second, 'large.bin'))).equals(large))
  t.ok((await readFile(join(second, 'small.bin'))).equals(small))

  await git('lfs', 'lock', 'large.bin')
  t.match(await asBob('-C', second, 'lfs', 'locks'), /^large\.bin\s+alice\s+ID:\d+$/)
  await t.rejects(asBob('-C', second, 'lfs', 'lock', 'large.bin'), /locked by alice/)
  await t.rejects(asBob('-C', second, 'lfs', 'unlock', 'large.bin'))
  await asBob('-C', second, 'config', 'lfs.locksverify', 'true')
  await writeFile(join(second, 'large.bin'), 'changed')
  await asBob('-C', second, 'commit', '-q', '-am', 'Change what is locked')
  await t.rejects(asBob('-C', second, 'push', '-q', 'origin', 'main'), /lock/)
  await git('lfs', 'unlock', 'large.bin')
  await asBob('-C', second, 'push', '-q', 'origin', 'main')
  await git('pull', '-q', 'origin', 'main')
  t.equal(await readFile(join(first.dir, 'large.bin'), 'utf8'), 'changed')
})
