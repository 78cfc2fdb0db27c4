import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { listRefs, readRefs, resolveRef, updateRef, updateRefs } from '../../../src/git/refs/refs.ts'
import { removeLeftovers } from '../../../src/git/repository/leftovers.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { commit, userGit } from '../client.ts'

const MAIN = 'refs/heads/main'

async function setUp(t: Test) {
  const dir = `${t.testdir()}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  const a = await commit(dir, 'a', { f: '1' }, [])
  const b = await commit(dir, 'b', { f: '2' }, [a])
  return { dir, a, b }
}

t.test('a ref moves only from its expected position', async (t) => {
  const { dir, a, b } = await setUp(t)
  t.equal(await updateRef(dir, MAIN, { from: a, to: b }), 'stale', 'it does not exist')
  t.equal(await updateRef(dir, MAIN, { from: null, to: a }), 'moved')
  t.equal(await updateRef(dir, MAIN, { from: null, to: b }), 'stale', 'it exists')
  t.equal(await updateRef(dir, MAIN, { from: b, to: a }), 'stale', 'it is at another commit')
  t.equal(await resolveRef(dir, MAIN), a)
  t.equal(await updateRef(dir, MAIN, { from: a, to: b }), 'moved')
  t.equal(await updateRef(dir, MAIN, { from: a, to: null }), 'stale')
  t.equal(await resolveRef(dir, MAIN), b)
  t.equal(await updateRef(dir, MAIN, { from: b, to: null }), 'moved')
  t.equal(await updateRef(dir, MAIN, { from: b, to: null }), 'stale')
  t.equal(await resolveRef(dir, MAIN), null)
})

t.test('when many callers move a ref from one position, exactly one succeeds', async (t) => {
  const { dir, a } = await setUp(t)
  await updateRef(dir, MAIN, { from: null, to: a })
  const targets = await Promise.all(
    Array.from({ length: 8 }, (_, i) => commit(dir, `c${i}`, { f: `${i}` }, [a])),
  )
  const outcomes = await Promise.all(targets.map((to) => updateRef(dir, MAIN, { from: a, to })))
  t.same(outcomes.filter((outcome) => outcome === 'moved').length, 1)
  t.same(outcomes.filter((outcome) => outcome === 'stale').length, 7)
  t.equal(await resolveRef(dir, MAIN), targets[outcomes.indexOf('moved')])
})

t.test('several refs move together or not at all', async (t) => {
  const { dir, a, b } = await setUp(t)
  await updateRefs(dir, [
    { ref: MAIN, from: null, to: a },
    { ref: 'refs/heads/old', from: null, to: a },
  ])
  const changes = [
    { ref: MAIN, from: a, to: b },
    { ref: 'refs/heads/old', from: b, to: null },
    { ref: 'refs/pull/1/head', from: null, to: b },
  ]
  t.equal(await updateRefs(dir, changes), 'stale')
  t.same(await listRefs(dir), [
    { ref: MAIN, sha: a },
    { ref: 'refs/heads/old', sha: a },
  ])
  changes[1] = { ref: 'refs/heads/old', from: a, to: null }
  t.equal(await updateRefs(dir, changes), 'moved')
  t.same(await listRefs(dir), [
    { ref: MAIN, sha: b },
    { ref: 'refs/pull/1/head', sha: b },
  ])
  t.equal(
    await updateRefs(dir, [{ ref: 'refs/heads/none', from: null, to: null }]),
    'moved',
    'a change without a move is only a condition',
  )
  t.equal(await updateRefs(dir, [{ ref: MAIN, from: null, to: null }]), 'stale')
  t.equal(await updateRefs(dir, []), 'moved')
})

t.test('a name below or above an existing name is a name conflict', async (t) => {
  const { dir, a } = await setUp(t)
  await updateRef(dir, 'refs/heads/a', { from: null, to: a })
  t.equal(await updateRef(dir, 'refs/heads/a/b', { from: null, to: a }), 'name-conflict')
  await updateRef(dir, 'refs/heads/c/d', { from: null, to: a })
  t.equal(await updateRef(dir, 'refs/heads/c', { from: null, to: a }), 'name-conflict')
  const both = ['refs/heads/x', 'refs/heads/x/y'].map((ref) => ({ ref, from: null, to: a }))
  t.equal(await updateRefs(dir, both), 'name-conflict')
})

t.test('refs are listed below a prefix and read by name, packed or not', async (t) => {
  const { dir, a, b } = await setUp(t)
  await updateRef(dir, MAIN, { from: null, to: a })
  await updateRef(dir, 'refs/tags/v1', { from: null, to: b })
  await userGit(dir, ['pack-refs', '--all'])
  await updateRef(dir, 'refs/heads/maintenance', { from: null, to: b })
  t.same(await listRefs(dir, 'refs/heads/'), [
    { ref: MAIN, sha: a },
    { ref: 'refs/heads/maintenance', sha: b },
  ])
  t.same(
    [...(await readRefs(dir, [MAIN, 'refs/heads/none', 'refs/heads/mai']))],
    [
      [MAIN, a],
      ['refs/heads/none', null],
      ['refs/heads/mai', null],
    ],
  )
  const many = Array.from({ length: 300 }, (_, i) => `refs/heads/none-${i}`)
  const read = await readRefs(dir, [...many, 'refs/tags/v1'])
  t.equal(read.size, 301)
  t.equal(read.get('refs/tags/v1'), b)
  t.same([...(await readRefs(dir, []))], [])
  t.equal(await updateRef(dir, MAIN, { from: a, to: null }), 'moved', 'a packed ref can be deleted')
  t.equal(await resolveRef(dir, MAIN), null)
})

t.test("malformed arguments never reach git, and git's failures are errors", async (t) => {
  const { dir, a } = await setUp(t)
  const invalid = { name: 'InvalidGitArgument' }
  await t.rejects(resolveRef(dir, 'HEAD'), invalid)
  await t.rejects(resolveRef(dir, '--stdin'), invalid)
  await t.rejects(listRefs(dir, 'refs/../'), invalid)
  await t.rejects(updateRef(dir, 'refs/heads/a\0b', { from: null, to: a }), invalid)
  await t.rejects(updateRef(dir, MAIN, { from: null, to: 'main' }), invalid)
  await t.rejects(
    updateRef(dir, MAIN, { from: null, to: 'a'.repeat(40) }),
    { name: 'GitFailed' },
    'no such object',
  )
  await t.rejects(listRefs(`${dir}/none`), { name: 'RepositoryMissing' })
})

t.test('a missing ref is not mistaken for a ref with a similar name', async (t) => {
  const { dir, a, b } = await setUp(t)
  const lookalikes = ['heads/refs/heads/x', 'tags/refs/heads/x', 'heads/x/HEAD', 'tags/x', 'remotes/x']
  for (const name of lookalikes) await userGit(dir, ['update-ref', `refs/${name}`, a])
  const described = `refs/heads/v1-1-g${a.slice(0, 10)}`
  for (const packed of [false, true]) {
    if (packed) await userGit(dir, ['pack-refs', '--all'])
    const asked = ['refs/heads/x', described, 'refs/heads/x/HEAD/y', 'refs/heads/refs', `refs/heads/${a}`]
    for (const ref of asked) t.equal(await resolveRef(dir, ref), null, ref)
    t.equal(await resolveRef(dir, 'refs/heads/refs/heads/x'), a)
  }
  await updateRef(dir, 'refs/heads/y', { from: null, to: b })
  await userGit(dir, ['update-ref', 'refs/heads/refs/heads/y', a])
  t.equal(await resolveRef(dir, 'refs/heads/y'), b, 'both exist')
})

t.test('a ref is always read in its current state, loose or packed', async (t) => {
  const { dir, a, b } = await setUp(t)
  await updateRef(dir, MAIN, { from: null, to: a })
  for (const to of [b, a, b, a]) {
    await userGit(dir, ['update-ref', MAIN, to])
    t.equal(await resolveRef(dir, MAIN), to, 'moved by another process')
    await userGit(dir, ['pack-refs', '--all'])
    t.equal(await resolveRef(dir, MAIN), to, 'packed')
  }
  await userGit(dir, ['update-ref', MAIN, b])
  await userGit(dir, ['gc', '--quiet'])
  t.equal(await resolveRef(dir, MAIN), b)
  await userGit(dir, ['update-ref', MAIN, a])
  t.equal(await resolveRef(dir, MAIN), a, 'the loose one wins')
  await userGit(dir, ['update-ref', '-d', MAIN])
  t.equal(await resolveRef(dir, MAIN), null)
  await userGit(dir, ['update-ref', `${MAIN}/below`, a])
  t.equal(await resolveRef(dir, MAIN), null, 'the path is a directory now')
  t.equal(await resolveRef(dir, `${MAIN}/below/more`), null)
})

t.test('the ref of an annotated tag gives the tag object, and a symbolic ref is followed', async (t) => {
  const { dir, a, b } = await setUp(t)
  await updateRef(dir, MAIN, { from: null, to: b })
  await userGit(dir, ['tag', '-a', '-m', 'x', 'v1', a])
  const tag = await userGit(dir, ['rev-parse', 'refs/tags/v1'])
  await userGit(dir, ['symbolic-ref', 'refs/heads/alias', MAIN])
  for (const packed of [false, true]) {
    if (packed) await userGit(dir, ['pack-refs', '--all'])
    t.same([...(await readRefs(dir, ['refs/tags/v1', 'refs/heads/alias', MAIN]))].sort(), [
      ['refs/heads/alias', b],
      [MAIN, b],
      ['refs/tags/v1', tag],
    ])
  }
  t.not(tag, a)
})

t.test('refs are found in a large file of packed refs', async (t) => {
  const { dir, a, b } = await setUp(t)
  const name = 'x'.repeat(100)
  const refs = Array.from({ length: 10_000 }, (_, i) => `${a} refs/heads/${name}${`${i}`.padStart(5, '0')}\n`)
  await writeFile(
    `${dir}/packed-refs`,
    `# pack-refs with: peeled fully-peeled sorted \n${refs.join('')}${b} refs/tags/v1\n`,
  )
  t.equal(await resolveRef(dir, 'refs/tags/v1'), b)
  t.equal(await resolveRef(dir, `refs/heads/${name}00777`), a)
  t.equal(await resolveRef(dir, `refs/heads/${name}`), null)
  t.equal(await resolveRef(dir, 'refs/heads/none'), null)
})

t.test('reading refs of a missing repository is an error, not an absent ref', async (t) => {
  const { dir } = await setUp(t)
  await t.rejects(resolveRef(`${dir}x`, MAIN), { name: 'RepositoryMissing' })
  await rename(dir, `${dir}.gone`)
  await t.rejects(readRefs(dir, [MAIN, 'refs/tags/v1']), { name: 'RepositoryMissing' })
})

t.test(
  'a ref of a pull request is created without git, as git creates it: once, whole, and at an object',
  async (t) => {
    const { dir, a, b } = await setUp(t)
    const ref = 'refs/pull/7/head'
    const outcomes = await Promise.all([a, b, a, b].map((to) => updateRef(dir, ref, { from: null, to })))
    t.same(outcomes.sort(), ['moved', 'stale', 'stale', 'stale'])
    t.same(await readdir(`${dir}/refs/pull/7`), ['head'], 'nothing else is left there')
    const made = await resolveRef(dir, ref)
    t.equal(await userGit(dir, ['rev-parse', ref]), made)
    t.match(await userGit(dir, ['for-each-ref', '--format=%(refname)']), ref)

    await userGit(dir, ['pack-refs', '--all', '--prune'])
    t.equal(await updateRef(dir, ref, { from: null, to: a }), 'stale', 'it is packed')
    t.equal(await resolveRef(dir, ref), made)
    const missing = 'a'.repeat(40)
    await t.rejects(updateRef(dir, 'refs/pull/8/head', { from: null, to: missing }), { name: 'GitFailed' })
    t.equal(await resolveRef(dir, 'refs/pull/8/head'), null)
    await t.rejects(updateRef(`${dir}/none`, ref, { from: null, to: a }), { name: 'RepositoryMissing' })

    await userGit(dir, ['update-ref', 'refs/pull/9', a])
    t.equal(await updateRef(dir, 'refs/pull/9/head', { from: null, to: a }), 'name-conflict')
  },
)

t.test(
  "the leftovers of a kill during the creation of a pull request's ref are not refs for git, and are removed",
  async (t) => {
    const { dir, a } = await setUp(t)
    await mkdir(`${dir}/refs/pull/7`, { recursive: true })
    await writeFile(`${dir}/refs/pull/7/.0b1c.lock`, a.slice(0, 9))
    t.same(await listRefs(dir), [])
    t.equal(await userGit(dir, ['fsck', '--no-dangling']), '')
    t.equal(await updateRef(dir, 'refs/pull/7/head', { from: null, to: a }), 'moved')
    await removeLeftovers(dir, Date.now() + 60_000)
    t.same(await readdir(`${dir}/refs/pull/7`), ['head'])
  },
)

t.test(
  'a ref is moved without git, as git moves it: from its position, under its lock, and a branch to a commit',
  async (t) => {
    const { dir, a, b } = await setUp(t)
    await updateRef(dir, MAIN, { from: null, to: a })
    t.equal(await updateRef(dir, MAIN, { from: b, to: a }), 'stale')
    t.equal(await updateRef(dir, MAIN, { from: a, to: b }), 'moved')
    t.equal(await userGit(dir, ['rev-parse', MAIN]), b)
    t.same(await readdir(`${dir}/refs/heads`), ['main'], 'nothing else is left there')

    await userGit(dir, ['pack-refs', '--all', '--prune'])
    t.equal(await updateRef(dir, MAIN, { from: a, to: b }), 'stale', 'it is packed, and elsewhere')
    t.equal(await updateRef(dir, MAIN, { from: b, to: a }), 'moved', 'a packed one')
    t.equal(await userGit(dir, ['rev-parse', MAIN]), a)

    const tree = await userGit(dir, ['rev-parse', `${a}^{tree}`])
    await t.rejects(updateRef(dir, MAIN, { from: a, to: tree }), { name: 'GitFailed' }, 'no commit')
    await t.rejects(updateRef(dir, MAIN, { from: a, to: '1'.repeat(40) }), { name: 'GitFailed' })
    await userGit(dir, ['symbolic-ref', 'refs/heads/alias', MAIN])
    t.equal(await updateRef(dir, 'refs/heads/alias', { from: b, to: b }), 'stale')
    t.equal(await userGit(dir, ['symbolic-ref', 'refs/heads/alias']), MAIN, 'git decides about symbolic refs')

    const lock = `${dir}/refs/heads/main.lock`
    await writeFile(lock, '')
    const waiting = updateRef(dir, MAIN, { from: a, to: b })
    t.equal(await resolveRef(dir, MAIN), a, 'somebody else has its lock')
    await rm(lock)
    t.equal(await waiting, 'moved', 'git has waited for it')
    t.same((await readdir(`${dir}/refs/heads`)).sort(), ['alias', 'main'])
  },
)
