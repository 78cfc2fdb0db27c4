import { watch } from 'node:fs'
import t, { type Test } from 'tap'
import { listRefs } from '../../../src/git/refs/refs.ts'
import { commit, userGit } from '../client.ts'
import { serveWorkTree } from '../served-repository.ts'

const MAIN = 'refs/heads/main'
const NAMES = Array.from({ length: 20 }, (_, i) => `old-${i}`)

/** A repository with `main` and twenty more branches, all of them packed. */
async function setUp(t: Test) {
  const { dir, work, server, push: pushTo } = await serveWorkTree(t)
  const a = await commit(work, 'a', { f: '1' }, [])
  const push = (...args: string[]) => pushTo('origin', ...args)
  const branches = NAMES.map((name) => `${a}:refs/heads/${name}`)
  t.match(await push(`${a}:${MAIN}`, ...branches), { code: 0 })
  await userGit(dir, ['pack-refs', '--all'])
  server.recorded.splice(0)
  return { dir, work, server, a, push }
}

t.test('the refs that a push deletes are deleted together: the packed refs are written once', async (t) => {
  const { dir, server, a, push } = await setUp(t)
  let written = 0
  const watcher = watch(dir, (_, name) => {
    if (name === 'packed-refs') written += 1
  })
  t.teardown(() => watcher.close())
  const b = await push('--delete', ...NAMES)
  t.match(b, { code: 0 })
  t.ok(written < NAMES.length / 2, `${written} times`)
  t.same(await listRefs(dir), [{ ref: MAIN, sha: a }])
  t.same(
    server.recorded.map(({ ref, to }) => [ref, to]).sort(),
    NAMES.map((name) => [`refs/heads/${name}`, null]).sort(),
  )
  t.match(b.stderr, /\[deleted\] +old-19/)
})

t.test(
  'when git refuses one of them, or cannot delete them together, they are deleted one by one',
  async (t) => {
    const { dir, work, server, a, push } = await setUp(t)
    const refused = await push('--delete', 'main', 'old-0', 'old-1')
    t.match(refused, { code: 1, stderr: /main \(deletion of the current branch prohibited\)/ })
    t.match(refused.stderr, /\[deleted\] +old-0/)
    t.notMatch(refused.stderr, /atomic/)
    t.same(
      server.recorded
        .splice(0)
        .map(({ ref }) => ref)
        .sort(),
      ['refs/heads/old-0', 'refs/heads/old-1'],
    )
    const b = await commit(work, 'b', { f: '2' }, [a])
    const into = await push(':refs/heads/old-2', ':refs/heads/old-3', `${b}:refs/heads/old-2/more`)
    t.match(into, { code: 0, stderr: /-> old-2\/more/ })
    const names = (await listRefs(dir)).map(({ ref }) => ref)
    t.notOk(names.includes('refs/heads/old-2') || names.includes('refs/heads/old-3'))
    t.ok(names.includes('refs/heads/old-2/more'))
    t.equal(await userGit(dir, ['fsck', '--no-dangling']), '')
  },
)

t.test('refs are deleted with a push of objects', async (t) => {
  const { dir, work, server, a, push } = await setUp(t)
  const large = await commit(work, 'large', { f: 'x'.repeat(200_000), g: '2' }, [a])
  t.match(await push(':refs/heads/old-0', ':refs/heads/old-1', `${large}:${MAIN}`), { code: 0 })
  t.same((await listRefs(dir)).at(0), { ref: MAIN, sha: large })
  t.equal(server.recorded.length, 3)
})
