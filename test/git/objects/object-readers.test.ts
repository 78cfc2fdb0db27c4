import { spawn } from 'node:child_process'
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { createSemaphore } from '../../../src/concurrency/semaphore.ts'
import type { ObjectHeader } from '../../../src/git/objects/batch-answers.ts'
import { startObjectReader } from '../../../src/git/objects/object-reader.ts'
import {
  createObjectReaders,
  type ObjectReaders,
  type ReaderLimits,
} from '../../../src/git/objects/object-readers.ts'
import { createRepository, deleteRepository } from '../../../src/git/repository/repository.ts'
import { program } from '../../program.ts'
import { until } from '../../until.ts'
import { commit, userGit } from '../client.ts'
import { readersBelow } from '../reader-processes.ts'

async function setUp(t: Test, limits: ReaderLimits = {}) {
  const root = t.testdir()
  const readers = createObjectReaders(limits)
  t.teardown(() => readers.close(root))
  const repository = async (name = '1.git') => {
    const dir = `${root}/${name}`
    await createRepository(dir, { defaultBranch: 'main' })
    return dir
  }
  const dir = await repository()
  return { root, dir, readers, repository }
}

const blob = (dir: string, content: string | Uint8Array) =>
  userGit(dir, ['hash-object', '-w', '--stdin'], content)

const typesOf = async (readers: ObjectReaders, dir: string, ids: string[]) =>
  (await readers.headers(dir, ids)).map((header) => header?.type)

async function contentsOf(readers: ObjectReaders, dir: string, ids: string[]) {
  const result = new Map<string, string>()
  const headers = (await readers.headers(dir, ids)).filter((header) => header !== undefined)
  const found = ({ sha }: ObjectHeader, content: Buffer) => result.set(sha, content.toString())
  await readers.contents(dir, headers, found)
  return result
}

/** The id of the only process that reads this repository. */
async function readerOf(dir: string): Promise<number> {
  const [pid, ...more] = await readersBelow(dir)
  if (pid === undefined || more.length > 0) throw new Error('not exactly one process reads the repository')
  return pid
}

const noneBelow = (root: string) =>
  until('no process reads the repository', async () => (await readersBelow(root)).length === 0)

t.test('objects of every type are found by their ids, and tags are peeled to commits', async (t) => {
  const { dir, readers } = await setUp(t)
  const id = await commit(dir, 'message', { f: 'content' }, [])
  const tree = await userGit(dir, ['rev-parse', `${id}^{tree}`])
  const file = await userGit(dir, ['rev-parse', `${id}:f`])
  const empty = await blob(dir, '')
  await userGit(dir, ['tag', '-a', '-m', 'one', 'one', id])
  await userGit(dir, ['tag', '-a', '-m', 'two', 'two', 'one'])
  await userGit(dir, ['tag', '-a', '-m', 'of a tree', 'tree', tree])
  const tags = await Promise.all(['two', 'tree'].map((tag) => userGit(dir, ['rev-parse', tag])))
  const all = [id, 'e'.repeat(40), tree, file, ...tags]
  t.same(await typesOf(readers, dir, all), ['commit', undefined, 'tree', 'blob', 'tag', 'tag'])
  const peeled = await readers.headers(dir, all, { peel: true })
  t.same(
    peeled.map((header) => header?.sha),
    [id, undefined, undefined, undefined, id, undefined],
  )
  t.same(await readers.headers(dir, []), [])
  const contents = await contentsOf(readers, dir, [file, id, empty, file])
  t.equal(contents.get(file), 'content')
  t.equal(contents.get(empty), '')
  t.match(contents.get(id), /^tree [0-9a-f]{40}\nauthor .*\n\nmessage\n?$/s)
})

t.test('only object ids reach git', async (t) => {
  const { dir, readers } = await setUp(t)
  const id = await commit(dir, 'a', { f: '1' }, [])
  const odd = ['HEAD', 'refs/heads/main', id.slice(0, 10), `${id}\n${id}`, `${id} `, `${id}^{tree}`, '']
  for (const name of odd) {
    await t.rejects(readers.headers(dir, [id, name]), { name: 'InvalidGitArgument' }, JSON.stringify(name))
  }
  t.same(await readersBelow(dir), [], 'no process was started')
})

t.test('objects that are written later are found, loose or packed, also after repacking', async (t) => {
  const { dir, readers } = await setUp(t)
  const first = await commit(dir, 'first', { f: '1' }, [])
  t.same(await typesOf(readers, dir, [first, 'e'.repeat(40)]), ['commit', undefined])
  const pid = await readerOf(dir)

  const loose = await commit(dir, 'loose', { f: '2' }, [first])
  t.same(await typesOf(readers, dir, [loose]), ['commit'])

  const stream = `commit refs/heads/packed\ncommitter C <c@x> 1700000000 +0000\ndata 1\nx\nM 100644 inline f\ndata 1\ny\n`
  await userGit(dir, ['-c', 'fastimport.unpackLimit=0', 'fast-import', '--quiet'], stream)
  const packed = await userGit(dir, ['rev-parse', 'refs/heads/packed'])
  t.notSame(await readdir(`${dir}/objects/pack`), [], 'the objects are in a pack')
  t.same(await typesOf(readers, dir, [packed]), ['commit'])

  await userGit(dir, ['update-ref', 'refs/heads/main', loose])
  for (const args of [
    ['repack', '-a', '-d', '-q'],
    ['gc', '--prune=now', '--quiet'],
  ]) {
    await userGit(dir, args)
    const contents = await contentsOf(readers, dir, [first, loose, packed])
    t.equal(contents.size, 3, args.join(' '))
  }
  const last = await commit(dir, 'last', { f: '3' }, [loose])
  await userGit(dir, ['update-ref', 'refs/heads/main', last])
  await userGit(dir, ['repack', '-a', '-d', '-f', '-q'])
  t.equal((await contentsOf(readers, dir, [first, loose, packed, last])).size, 4)
  t.equal(await readerOf(dir), pid, 'by the same process')
})

t.test('a deleted object is missing, and refs/replace does not replace an object', async (t) => {
  const { dir, readers } = await setUp(t)
  const [one, two] = [await blob(dir, 'one'), await blob(dir, 'two')]
  t.same(await typesOf(readers, dir, [one, two]), ['blob', 'blob'])
  await userGit(dir, ['replace', one, two])
  t.equal((await contentsOf(readers, dir, [one])).get(one), 'one')
  await rm(`${dir}/objects/${one.slice(0, 2)}/${one.slice(2)}`)
  t.same(await typesOf(readers, dir, [one, two]), [undefined, 'blob'])
})

t.test('many concurrent callers share one process, and each gets its own answers', async (t) => {
  const { dir, readers } = await setUp(t)
  const texts = Array.from({ length: 40 }, (_, i) => `${i}\n`.repeat(i * 50))
  const ids = await Promise.all(texts.map((text) => blob(dir, text)))
  await Promise.all(
    texts.map(async (text, i) => {
      const id = ids[i] ?? ''
      t.equal((await contentsOf(readers, dir, [id, 'e'.repeat(40)])).get(id), text)
    }),
  )
  await readerOf(dir)
  const many = await readers.headers(
    dir,
    Array.from({ length: 2500 }, (_, i) => ids[i % 40] ?? ''),
  )
  t.ok(many.every((header, i) => header?.sha === ids[i % 40]))
})

t.test('large objects are refused, and many small ones are read in batches', async (t) => {
  const { dir, readers } = await setUp(t)
  const megabyte = 1024 * 1024
  const large = await blob(dir, Buffer.alloc(megabyte + 1))
  const [header] = await readers.headers(dir, [large])
  t.equal(header?.size, megabyte + 1)
  await t.rejects(contentsOf(readers, dir, [large]), { name: 'GitOutputTooLarge' })
  const ids: string[] = []
  for (let i = 0; i < 6; i++) ids.push(await blob(dir, Buffer.alloc(megabyte, `${i}`)))
  const contents = await contentsOf(readers, dir, ids)
  for (const [i, id] of ids.entries()) t.equal(contents.get(id), `${i}`.repeat(megabyte))
})

t.test('a slow consumer of a list of objects pauses in slices, and other work continues', async (t) => {
  const { dir, readers } = await setUp(t)
  const ids = await Promise.all(['a', 'b', 'c', 'd'].map((text) => blob(dir, text)))
  const headers = (await readers.headers(dir, ids)).filter((header) => header !== undefined)
  const done: string[] = []
  await readers.contents(dir, headers, (_header, content) => {
    done.push(content.toString())
    setImmediate(() => done.push('others'))
    for (const began = performance.now(); performance.now() - began < 5; );
  })
  t.ok(done.indexOf('others') < done.indexOf('b'))
  t.ok(done.slice(0, done.indexOf('d')).filter((who) => who === 'others').length >= 2, done.join(' '))
})

t.test('the number of processes is limited, and all callers get answers', async (t) => {
  const { root, readers, repository } = await setUp(t, { processes: 2 })
  const dirs = await Promise.all(Array.from({ length: 6 }, (_, i) => repository(`many-${i}.git`)))
  const ids = await Promise.all(dirs.map((dir) => blob(dir, dir)))
  let most = 0
  let isDone = false
  const watching = (async () => {
    while (!isDone) most = Math.max(most, (await readersBelow(root)).length)
  })()
  for (let round = 0; round < 3; round++) {
    const found = await Promise.all(dirs.map((dir, i) => contentsOf(readers, dir, [ids[i] ?? ''])))
    t.same(
      found.map((contents, i) => contents.get(ids[i] ?? '')),
      dirs,
    )
  }
  isDone = true
  await watching
  t.ok(most <= 2, `${most} processes`)
})

t.test('an idle process ends, and an old one is replaced', async (t) => {
  const { dir, readers } = await setUp(t, { idle: 1 })
  const id = await blob(dir, 'x')
  t.same(await typesOf(readers, dir, [id]), ['blob'])
  await noneBelow(dir)
  t.same(await typesOf(readers, dir, [id]), ['blob'])

  const old = createObjectReaders({ age: 0 })
  t.same(await typesOf(old, dir, [id]), ['blob'])
  t.same(await typesOf(old, dir, [id]), ['blob'])
  await old.close(dir)
  await noneBelow(dir)
})

t.test('when the process dies, waiting callers get an error', async (t) => {
  const { dir } = await setUp(t)
  const id = await blob(dir, 'x')
  let isRetired = false
  const onRetired = () => {
    isRetired = true
  }
  // A reader does not keep the test's process alive.
  const alive = setInterval(() => undefined, 60_000)
  t.teardown(() => clearInterval(alive))
  // Without the pool, which looks at the directory first: a question is asked before the process is killed.
  const reader = startObjectReader(dir, { slots: createSemaphore({ size: 1 }), idle: 60_000, onRetired })
  const questions = [{ command: 'info', name: id }] as const
  t.match(await reader.ask(questions), [{ type: 'blob' }])
  const pid = await readerOf(dir)
  process.kill(pid, 'SIGSTOP')
  const told = [reader.ask(questions), reader.ask(questions)].map((one) =>
    t.rejects(one, { name: 'GitUnavailable' }),
  )
  process.kill(pid, 'SIGKILL')
  await Promise.all(told)
  t.ok(isRetired, 'and the reader takes no more questions')
  await reader.ended
})

t.test('when the process has died, another one answers', async (t) => {
  const { dir, readers } = await setUp(t)
  const id = await blob(dir, 'x')
  await readers.headers(dir, [id])
  const pid = await readerOf(dir)
  process.kill(pid, 'SIGKILL')
  const typesOrNothing = () => typesOf(readers, dir, [id]).catch(() => [])
  await until('another process answers', async () => (await typesOrNothing())[0] === 'blob')
  t.not(await readerOf(dir), pid)
})

t.test('a caller that waits too long gets an error, and the next caller gets an answer', async (t) => {
  const { dir, readers } = await setUp(t, { deadline: 5000 })
  const impatient = createObjectReaders({ deadline: 300 })
  t.teardown(() => impatient.close(dir))
  const id = await blob(dir, 'x')
  await until('it has answered', () =>
    impatient.headers(dir, [id]).then(
      () => true,
      () => false,
    ),
  )
  const pid = await readerOf(dir)
  process.kill(pid, 'SIGSTOP')
  await t.rejects(impatient.headers(dir, [id]), { name: 'GitUnavailable', message: /more than 300 ms/ })
  await noneBelow(dir)
  t.same(await typesOf(readers, dir, [id]), ['blob'])
})

t.test(
  'a deleted repository is missing, and a new repository at the same path is not mistaken for it',
  async (t) => {
    const { root, dir, readers, repository } = await setUp(t)
    const id = await commit(dir, 'secret', { f: '1' }, [])
    await userGit(dir, ['update-ref', 'refs/heads/main', id])
    await userGit(dir, ['repack', '-a', '-d', '-q'])
    t.equal((await contentsOf(readers, dir, [id])).size, 1)
    await rename(dir, `${root}/elsewhere`)
    await t.rejects(readers.headers(dir, [id]), { name: 'RepositoryMissing' })
    await repository()
    t.same(await typesOf(readers, dir, [id]), [undefined])
    t.same(await typesOf(readers, `${root}/elsewhere`, [id]), ['commit'])
    await deleteRepository(dir)
    await t.rejects(readers.headers(dir, [id]), { name: 'RepositoryMissing' })
  },
)

t.test('a damaged object is an error for its caller, not for later callers', async (t) => {
  const { dir, readers } = await setUp(t)
  const [good, bad] = [await blob(dir, 'good'), await blob(dir, 'bad'.repeat(10_000))]
  const headers = (await readers.headers(dir, [good, bad])).filter((header) => header !== undefined)
  const file = `${dir}/objects/${bad.slice(0, 2)}/${bad.slice(2)}`
  const damaged = (await readFile(file)).subarray(0, 40)
  await rm(file)
  await writeFile(file, damaged)
  await t.rejects(
    readers.contents(dir, headers, () => undefined),
    { name: 'GitFailed' },
  )
  t.equal((await contentsOf(readers, dir, [good])).get(good), 'good')
})

t.test('closing first answers waiting callers, then ends the processes below a directory', async (t) => {
  const { root, dir, readers, repository } = await setUp(t)
  const other = await repository('2.git')
  const ids = await Promise.all([blob(dir, 'x'), blob(other, 'y')])
  await Promise.all([readers.headers(dir, ids), readers.headers(other, ids)])
  const waiting = typesOf(readers, dir, ids)
  // When this resolves, the request above was sent too: both wait for the same stat of the directory.
  await readers.headers(dir, ids)
  await readers.close(dir)
  t.same(await waiting, ['blob', undefined])
  t.same(await readersBelow(dir), [])
  t.equal((await readersBelow(root)).length, 1, "the other repository's process stays")
  await readers.close(root)
  t.same(await readersBelow(root), [])
})

t.test("readers do not keep the server's process alive, and end with it", async (t) => {
  const { dir } = await setUp(t)
  const id = await blob(dir, 'x')
  const child = spawn(process.execPath, [program('test/git/print-object-type'), dir, id])
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  const exitCode = await new Promise((resolve) => child.once('close', resolve))
  t.equal(output, 'blob\n')
  t.equal(exitCode, 0)
  await noneBelow(dir)
})
