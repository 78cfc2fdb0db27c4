/** The push journal, and leftovers in repositories, when several servers share a directory. */
import { mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { openPushJournal } from '../../src/git/push/push-journal.ts'
import { createRepository } from '../../src/git/repository/repository.ts'

const UUID = '6f9619ff-8b86-4d01-b42d-00cf4fc964ff'

/** Journals of servers on one directory, and the lost servers. */
function world(directory: string) {
  const gone = new Set<string>()
  const open = (self: string) =>
    openPushJournal(directory, {
      timeout: 0,
      owners: { self: () => self, isGone: async (owner) => gone.has(owner) },
    })
  return { gone, open }
}

t.test('a marker belongs to the server that wrote it, until that server is gone', async (t) => {
  const directory = join(t.testdir(), 'pushes')
  const { gone, open } = world(directory)
  const [a, b] = [await open('a'), await open('b')]
  const running = await a.begin('1', 0)
  const failed = await a.begin('2', 0)
  a.abandon(failed)
  t.strictSame(await a.unfinished(), [failed])
  t.strictSame(await b.unfinished(), [])
  gone.add('a')
  const both = [running, failed].sort((x, y) => x.file.localeCompare(y.file))
  t.strictSame(await b.unfinished(), both)
  t.strictSame(await b.unfinished('1'), [running], 'of one repository')
  for (const marker of both) await b.finish(marker)
  t.strictSame(await readdir(directory), [])
  await a.finish(running)
})

t.test('a marker that another server is writing is left to it; one of a single server is not', async (t) => {
  const directory = join(t.testdir(), 'pushes')
  const { open } = world(directory)
  const journal = await open('a')
  const half = join(directory, `1-${UUID}.json`)
  const alone = join(directory, `2-${UUID}.json`)
  await writeFile(half, '')
  await writeFile(alone, '{"key":"2","pid":0}')
  t.strictSame(await journal.unfinished(), [{ key: '2', file: alone }])
  const longAgo = new Date(Date.now() - 26 * 3_600_000)
  await utimes(half, longAgo, longAgo)
  t.strictSame((await journal.unfinished('1')).length, 1, 'nobody writes for a day')
})

t.test('work whose git process may run on another machine is checked again later', async (t) => {
  const dir = t.testdir()
  const directory = join(dir, 'pushes')
  const { gone, open } = world(directory)
  const [a, b] = [await open('a'), await open('b')]
  const own = await a.begin('1', 2 ** 21)
  gone.add('a')
  await b.settle(own, dir)
  await b.finish(own)
  t.strictSame(await readdir(directory), [], 'a process of this machine has ended')

  // A push, and commands of a server without a name.
  for (const pid of [2 ** 21, 0]) {
    const elsewhere = await a.begin('1', pid)
    const text = await readFile(elsewhere.file, 'utf8')
    t.match(text, /"owner":"a","place":"/)
    await writeFile(elsewhere.file, text.replace(/"place":"/, '"place":"another '))
    await b.settle(elsewhere, dir)
    await b.finish(elsewhere)
    t.equal((await readdir(directory)).length, 1, 'its marker stays')
    t.strictSame(await b.unfinished(), [], 'for now there is nothing to do')
    // Another server does it if this one stops earlier.
    t.strictSame(await (await open('c')).unfinished(), [elsewhere])
    await rm(elsewhere.file)
  }
})

t.test('only files that no server can be using are removed from a repository', async (t) => {
  const root = t.testdir()
  const dir = join(root, 'one.git')
  await createRepository(dir, { defaultBranch: 'main' })
  const locks = ['refs/heads/old.lock', 'packed-refs.lock']
  const received = ['objects/pack/tmp_pack_x', 'objects/tmp_objdir-incoming-x']
  const abandoned = ['objects/pack/tmp_pack_y', 'objects/tmp_objdir-staging-y']
  const young = ['refs/heads/young.lock']
  const ofLaterClock = ['refs/heads/later.lock']
  await mkdir(join(dir, 'refs/heads'), { recursive: true })
  for (const name of [...locks, ...received, ...abandoned, ...young, ...ofLaterClock]) {
    await writeFile(join(dir, name), '')
  }
  const before = async (names: string[], ms: number) => {
    const time = new Date(Date.now() - ms)
    for (const name of names) await utimes(join(dir, name), time, time)
  }
  await before([...locks, ...received], 3_600_000)
  await before(abandoned, 26 * 3_600_000)
  await before(young, -4_000)
  await before(ofLaterClock, -3_600_000)
  const journal = await world(join(root, 'pushes')).open('a')
  await journal.clean(dir)
  const left = await readdir(dir, { recursive: true })
  for (const name of [...locks, ...abandoned, ...ofLaterClock]) t.notOk(left.includes(name), name)
  for (const name of [...received, ...young]) t.ok(left.includes(name), name)
  t.notOk(left.some((name) => name.includes('tmp_time')))
  await journal.clean(join(root, 'deleted.git'))
})
