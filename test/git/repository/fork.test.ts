// In a process of its own: it watches all git processes of the process.
import { renameSync } from 'node:fs'
import { link, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { watchProcesses } from '../../../src/git/process/process-watch.ts'
import { listRefs } from '../../../src/git/refs/refs.ts'
import { forkRepository } from '../../../src/git/repository/fork.ts'
import {
  createRepository,
  deleteRepository,
  sweepRepositories,
} from '../../../src/git/repository/repository.ts'
import { commit, userGit } from '../client.ts'

/** A repository with a pack, loose objects, two branches, a tag and a pull request's ref. */
async function setUp(t: Test) {
  const root = t.testdir()
  const from = `${root}/1.git`
  await createRepository(from, { defaultBranch: 'trunk' })
  const a = await commit(from, 'a', { f: '1' }, [])
  await userGit(from, ['update-ref', 'refs/heads/trunk', a])
  await userGit(from, ['repack', '-a', '-d', '-q'])
  const b = await commit(from, 'b', { f: '2' }, [a])
  await userGit(from, ['update-ref', 'refs/heads/ü/next', b])
  await userGit(from, ['tag', '-a', '-m', 'one', 'v1', b])
  await userGit(from, ['update-ref', 'refs/pull/1/head', a])
  return { root, from, to: `${root}/2.git`, a, b }
}

t.test(
  'a fork has the branches, tags and default branch, and otherwise looks like a new repository',
  async (t) => {
    const { root, from, to, a } = await setUp(t)
    t.equal(await forkRepository(from, to), 'created')
    t.same(
      await listRefs(to),
      (await listRefs(from)).filter(({ ref }) => !ref.startsWith('refs/pull/')),
    )
    t.equal(await userGit(to, ['symbolic-ref', 'HEAD']), 'refs/heads/trunk')
    t.equal(await userGit(to, ['rev-parse', 'HEAD']), a)
    t.equal(await readFile(`${to}/config`, 'utf8'), await readFile(`${from}/config`, 'utf8'))
    t.same((await readdir(root)).sort(), ['1.git', '2.git'])
    t.same(
      (await readdir(to)).filter((name) => name === 'hooks'),
      [],
    )
    t.equal(await userGit(to, ['fsck', '--strict', '--no-dangling']), '')
    await userGit('/', ['clone', '-q', to, `${root}/work`])
    t.equal(await readFile(`${root}/work/f`, 'utf8'), '1')
  },
)

t.test('a fork shares disk space with the original and survives its deletion', async (t) => {
  const { from, to, b } = await setUp(t)
  await forkRepository(from, to)
  const loose = `objects/${b.slice(0, 2)}/${b.slice(2)}`
  t.equal((await stat(`${from}/${loose}`)).ino, (await stat(`${to}/${loose}`)).ino)
  t.same((await readdir(`${to}/objects/info`)).includes('alternates'), false)
  await userGit(from, ['gc', '-q', '--prune=now'])
  t.equal(await userGit(to, ['fsck', '--strict', '--no-dangling']), '')
  await deleteRepository(from)
  t.equal(await userGit(to, ['fsck', '--strict', '--no-dangling']), '')
  t.equal(await userGit(to, ['log', '--format=%s', 'ü/next']), 'b\na')
})

t.test('the refs of a fork are written as one file, as git writes it, however many there are', async (t) => {
  const { from, to, a, b } = await setUp(t)
  const names = ['a-b', 'a/b', 'a.b', 'A', 'é', 'e\u0301', '😀', 'z'.repeat(250)]
  const commands = names.map((name, i) => `create refs/heads/${name} ${i % 2 === 0 ? a : b}\n`)
  await userGit(from, ['update-ref', '--stdin'], commands.join(''))
  await userGit(from, ['tag', '-a', '-m', 'of a tag', 'v2', 'v1'])
  const started: string[] = []
  const stop = watchProcesses((command) => {
    started.push(command)
    return () => {}
  })
  t.teardown(stop)
  t.equal(await forkRepository(from, to), 'created')
  t.notOk(started.includes('update-ref'), 'none is a file of its own first')
  await userGit(from, ['update-ref', '-d', 'refs/pull/1/head'])
  await userGit(from, ['pack-refs', '--all'])
  t.equal(await readFile(`${to}/packed-refs`, 'utf8'), await readFile(`${from}/packed-refs`, 'utf8'))
})

t.test('line 11: unreachable objects are not copied into the fork', async (t) => {
  const { from, to, a } = await setUp(t)
  const removed = await commit(from, 'removed', { secret: 'x' }, [a])
  const proposed = await commit(from, 'proposed', { f: 'y' }, [a])
  await userGit(from, ['update-ref', 'refs/pull/2/head', proposed])
  t.equal(await forkRepository(from, to), 'created')
  const ids = [removed, proposed, a].map((id) => `${id}\n`).join('')
  t.equal(
    await userGit(to, ['cat-file', '--batch-check=%(objectname) %(objecttype)'], ids),
    `${removed} missing\n${proposed} missing\n${a} commit`,
  )
  t.equal(await userGit(to, ['fsck', '--strict', '--full']), '', 'nothing dangles, and nothing is missing')
  t.same(
    await listRefs(to),
    (await listRefs(from)).filter(({ ref }) => !ref.startsWith('refs/pull/')),
  )
})

t.test(
  'an original that is deleted while its history is packed for a fork is reported as missing',
  async (t) => {
    const { root, from, to, b } = await setUp(t)
    // Unreachable objects are in a pack, so that the fork gets its own.
    await userGit(from, ['update-ref', 'refs/heads/gone', await commit(from, 'gone', { f: 'gone' }, [b])])
    await userGit(from, ['repack', '-a', '-d', '-q'])
    await userGit(from, ['update-ref', '-d', 'refs/heads/gone'])
    const stop = watchProcesses((command) => {
      // A deletion begins with another name.
      if (command === 'pack-objects') renameSync(from, `${root}/being-deleted`)
      return () => {}
    })
    t.teardown(stop)
    await t.rejects(forkRepository(from, to), { name: 'RepositoryMissing' })
    t.notOk((await readdir(root)).includes('2.git'))
  },
)

t.test('forking again changes nothing, and the leftovers of a crashed fork are removed', async (t) => {
  const { root, from, to, a } = await setUp(t)
  const draft = `${to}.new-0b9a1f3e-53f5-4f7d-b3c7-0f2ae1a4f2c1`
  await mkdir(`${draft}/objects`, { recursive: true })
  await link(`${from}/HEAD`, `${draft}/HEAD`)
  t.same((await Promise.all([1, 2, 3].map(() => forkRepository(from, to)))).sort(), [
    'created',
    'exists',
    'exists',
  ])
  await userGit(to, ['update-ref', 'refs/heads/ü/next', a])
  t.equal(await forkRepository(from, to), 'exists')
  t.equal(await userGit(to, ['rev-parse', 'ü/next']), a)
  await sweepRepositories(root)
  t.same((await readdir(root)).sort(), ['1.git', '2.git'])
})

t.test(
  'an empty repository can be forked; a missing one, or one that loses an object, gives no fork',
  async (t) => {
    const { root, from, to, b } = await setUp(t)
    await createRepository(`${root}/empty.git`, { defaultBranch: 'first' })
    t.equal(await forkRepository(`${root}/empty.git`, `${root}/e.git`), 'created')
    t.equal(await userGit(`${root}/e.git`, ['symbolic-ref', 'HEAD']), 'refs/heads/first')
    await t.rejects(forkRepository(`${root}/no.git`, to), { name: 'RepositoryMissing' })
    await rm(`${from}/objects/${b.slice(0, 2)}/${b.slice(2)}`)
    await t.rejects(forkRepository(from, to), { name: 'GitFailed' })
    t.same((await readdir(root)).sort(), ['1.git', 'e.git', 'empty.git'])
  },
)

t.test('a fork that is created during pushes is complete', async (t) => {
  const { root, from, a } = await setUp(t)
  let isDone = false
  const pushing = (async () => {
    let tip = a
    for (let i = 0; !isDone; i++) {
      tip = await commit(from, `${i}`, { f: `${i}` }, [tip])
      await userGit(from, ['update-ref', 'refs/heads/trunk', tip])
      if (i % 5 === 4) await userGit(from, ['repack', '-a', '-d', '-q'])
    }
  })()
  try {
    for (let i = 0; i < 5; i++) {
      await forkRepository(from, `${root}/f${i}.git`)
      t.equal(await userGit(`${root}/f${i}.git`, ['fsck', '--strict', '--no-dangling']), '')
    }
  } finally {
    isDone = true
    await pushing
  }
})

t.test('a fork on another file system is a copy', async (t) => {
  const { from, b } = await setUp(t)
  const shm = '/dev/shm'
  const device = async (path: string) => (await stat(path).catch(() => undefined))?.dev
  const other = await device(shm)
  if (other === undefined || other === (await device(from))) {
    t.comment('there is no other file system here')
    return
  }
  const to = `${shm}/mergelog-fork-${process.pid}.git`
  t.teardown(() => rm(to, { recursive: true, force: true }))
  t.equal(await forkRepository(from, to), 'created')
  await writeFile(`${from}/HEAD`, '')
  t.equal(await userGit(to, ['rev-parse', 'ü/next']), b)
  t.equal(await userGit(to, ['fsck', '--strict', '--no-dangling']), '')
})
