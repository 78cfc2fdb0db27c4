/** Memory use of a large push, measured in a server process of its own. */
import { randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import t from 'tap'
import { resolveRef } from '../../src/git/refs/refs.ts'
import { commit, userGit } from './client.ts'
import { startGitServerProcess } from './git-server-process.ts'
import { serveWorkTree } from './served-repository.ts'

const MAIN = 'refs/heads/main'

t.test('a push of 100 MB is streamed: the server buffers little of it', async (t) => {
  const { root, dir, work, server } = await serveWorkTree(t)
  const small = await commit(work, 'small', { f: '1' }, [])
  const own = await startGitServerProcess(root)
  t.teardown(() => own.kill())
  const url = `${own.url}/one.git`
  const file = await open(`${work}/large`, 'w')
  for (let i = 0; i < 100; i++) await file.write(randomBytes(1_000_000))
  await file.close()
  const plain = ['-c', 'core.compression=0']
  const blob = await userGit(work, [...plain, 'hash-object', '-w', 'large'])
  const tree = await userGit(work, ['mktree'], `100644 blob ${blob}\tlarge\n`)
  const large = await userGit(work, ['commit-tree', tree], 'large\n')

  await userGit(work, ['push', '-q', url, `${small}:refs/heads/small`])
  const before = await own.peakMemory()
  await userGit(work, [...plain, 'push', '-q', url, `${large}:${MAIN}`])
  const growth = Math.round(((await own.peakMemory()) - before) / 1e6)
  t.equal(await resolveRef(dir, MAIN), large)
  t.ok(growth < 60, `grew by ${growth} MB`)

  t.same(server.requests, [], 'the other process received the whole push')
})
