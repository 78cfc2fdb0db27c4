import { chmod, readdir, truncate } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { listRefs } from '../../../src/git/refs/refs.ts'
import { fetchObjects } from '../../../src/git/repository/fetch-objects.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { commit, userGit } from '../client.ts'

/** A repository, and another one with two more commits. */
async function setUp(t: Test) {
  // A colon in the path, because git separates object directories by colons.
  const root = t.testdir({ 'a:b "': {} })
  const into = `${root}/a:b "/1.git`
  const from = `${root}/a:b "/2.git`
  const base = { f: '1', g: 'g'.repeat(1000) }
  for (const dir of [into, from]) await createRepository(dir, { defaultBranch: 'main' })
  const first = await commit(into, 'first', base, [])
  await userGit(into, ['update-ref', 'refs/heads/main', first])
  // Copied, because a second commit a second later would get another id.
  await userGit(from, ['fetch', '-q', into, 'main:main'])
  const one = await commit(from, 'one', { ...base, f: '2' }, [first])
  const two = await commit(from, 'two', { ...base, f: '3' }, [one])
  await userGit(from, ['update-ref', 'refs/heads/next', two])
  return { into, from, first, one, two }
}

async function packs(dir: string): Promise<string[]> {
  return (await readdir(`${dir}/objects/pack`)).filter((name) => name.endsWith('.pack'))
}

t.test('a commit comes with its history, and only missing objects are copied', async (t) => {
  const { into, from, two } = await setUp(t)
  await fetchObjects(into, from, two)
  t.equal(await userGit(into, ['log', '--format=%s', two]), 'two\none\nfirst')
  t.equal(await userGit(into, ['fsck', '--strict', '--no-dangling']), '')
  const [pack = '', ...others] = await packs(into)
  t.same(others, [])
  const listing = await userGit(into, ['verify-pack', '-v', `objects/pack/${pack}`])
  t.equal(listing.split('\n').filter((line) => /^[0-9a-f]{40}/.test(line)).length, 6)
  t.same(
    (await listRefs(into)).map(({ ref }) => ref),
    ['refs/heads/main'],
  )
  await fetchObjects(into, from, two)
  t.equal((await packs(into)).length, 1, 'existing objects are not copied again')
})

t.test('an unreachable commit can be fetched', async (t) => {
  const { into, from, two } = await setUp(t)
  const loose = await commit(from, 'loose', { f: '9' }, [two])
  await fetchObjects(into, from, loose)
  t.equal(await userGit(into, ['log', '--format=%s', loose]), 'loose\ntwo\none\nfirst')
})

t.test('an incomplete commit is fetched as a whole', async (t) => {
  const { into, from, two } = await setUp(t)
  const content = await userGit(from, ['cat-file', 'commit', two])
  t.equal(await userGit(into, ['hash-object', '-t', 'commit', '-w', '--stdin'], `${content}\n`), two)
  await fetchObjects(into, from, two)
  t.equal(await userGit(into, ['fsck', '--strict', '--no-dangling']), '')
})

t.test('many fetches may run at the same time', async (t) => {
  const { into, from, one, two } = await setUp(t)
  await Promise.all(Array.from({ length: 12 }, (_, i) => fetchObjects(into, from, i % 2 ? one : two)))
  t.equal(await userGit(into, ['log', '--format=%s', two]), 'two\none\nfirst')
  t.equal(await userGit(into, ['fsck', '--strict', '--no-dangling']), '')
})

t.test('a missing commit or repository is refused, and nothing is copied', async (t) => {
  const { into, from, two } = await setUp(t)
  await t.rejects(fetchObjects(into, from, 'e'.repeat(40)), { name: 'GitFailed' })
  const tree = await userGit(from, ['rev-parse', `${two}^{tree}`])
  await t.rejects(fetchObjects(into, from, tree), { name: 'GitFailed' })
  await t.rejects(fetchObjects(into, `${from}x`, two), { name: 'RepositoryMissing' })
  await t.rejects(fetchObjects(`${into}x`, from, two), { name: 'RepositoryMissing' })
  await t.rejects(fetchObjects(into, from, 'main'), { name: 'InvalidGitArgument' })
  t.same(await packs(into), [])
})

t.test('a copy that fails leaves no unfinished pack', async (t) => {
  const { into, from, two } = await setUp(t)
  const blob = await userGit(from, ['rev-parse', `${two}:f`])
  const damaged = `${from}/objects/${blob.slice(0, 2)}/${blob.slice(2)}`
  await chmod(damaged, 0o600)
  await truncate(damaged, 10)
  await t.rejects(fetchObjects(into, from, two), { name: 'GitFailed' })
  t.strictSame(await readdir(`${into}/objects/pack`), [])
  t.notOk((await readdir(`${into}/objects`)).some((name) => name.startsWith('tmp_')))
})
