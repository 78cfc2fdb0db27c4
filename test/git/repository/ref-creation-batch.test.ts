import { mkdir, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { makePackedRefs } from '../../../src/git/refs/packed-ref-writes.ts'
import { listRefs, readRefs } from '../../../src/git/refs/refs.ts'
import { commit, userGit } from '../client.ts'
import { serveWorkTree } from '../served-repository.ts'

const MAIN = 'refs/heads/main'
const NAMES = Array.from({ length: 60 }, (_, i) => `new-${i}`)
const ADDING = { all: false, lockMs: 0 }

/** A repository with `main`, and one tag that is packed. */
async function setUp(t: Test) {
  const { dir, work, server, push: pushTo } = await serveWorkTree(t)
  const a = await commit(work, 'a', { f: '1' }, [])
  const push = (...args: string[]) => pushTo('origin', ...args)
  t.match(await push(`${a}:${MAIN}`, `${a}:refs/tags/old`), { code: 0 })
  await userGit(dir, ['pack-refs', '--all'])
  server.recorded.splice(0)
  const loose = async () =>
    (await readdir(join(dir, 'refs'), { recursive: true })).filter((name) => /\d/.test(name))
  return { dir, work, server, a, push, loose }
}

const toTags = (sha: string) => NAMES.map((name) => `${sha}:refs/tags/${name}`)

t.test('many new refs of a push are created at once: packed, with the targets of their tags', async (t) => {
  const { dir, work, server, a, push, loose } = await setUp(t)
  await userGit(work, ['tag', '-a', '-m', 'one', 'annotated', a])
  const b = await commit(work, 'b', { f: '2' }, [a])
  t.match(await push(`${b}:${MAIN}`, ...toTags(b), 'annotated'), { code: 0 })
  t.same(await loose(), [], 'git has made none')
  t.equal((await listRefs(dir)).length, NAMES.length + 3)
  t.match(await readFile(join(dir, 'packed-refs'), 'latin1'), new RegExp(`refs/tags/annotated\\n\\^${a}\\n`))
  const made = ['refs/tags/annotated', MAIN, ...NAMES.map((name) => `refs/tags/${name}`)]
  t.same(server.recorded.map(({ ref }) => ref).sort(), made.sort())
  t.equal(await userGit(dir, ['fsck', '--no-dangling']), '')
  // git relies on the order of the file.
  const before = await readFile(join(dir, 'packed-refs'), 'latin1')
  await userGit(dir, ['pack-refs', '--all'])
  t.equal(
    before.replaceAll(/^.* refs\/heads\/main\n/gm, ''),
    (await readFile(join(dir, 'packed-refs'), 'latin1')).replaceAll(/^.* refs\/heads\/main\n/gm, ''),
  )
})

t.test('refs that git writes in another format are left to git, and created with the others', async (t) => {
  const { dir, work, a, push, loose } = await setUp(t)
  await userGit(work, ['tag', '-a', '-m', 'a tree', 'tree', `${a}^{tree}`])
  t.match(await push(...toTags(a), 'tree', `${a}^{tree}:refs/tags/plain-tree`), { code: 0 })
  t.equal((await listRefs(dir)).length, NAMES.length + 4)
  t.same(await loose(), [])
  t.same(await readdir(join(dir, 'refs/tags')), ['tree'])
})

t.test('conflicting names are refused by git, and the other refs are created', async (t) => {
  const { dir, a, push } = await setUp(t)
  const one = await push(...toTags(a), `${a}:refs/tags/old/more`)
  t.match(one, { code: 1, stderr: /old\/more \(failed to update ref\)/ })
  t.equal((await listRefs(dir)).length, NAMES.length + 2)
  const heads = NAMES.map((name) => `${a}:refs/heads/${name}`)
  t.match(await push('--atomic', ...heads, `${a}:refs/heads/main/x`), { code: 1 })
  t.equal((await listRefs(dir)).length, NAMES.length + 2, 'all or none')
  t.match(await push('--atomic', ...heads), { code: 0 })
  t.equal((await listRefs(dir)).length, 2 * NAMES.length + 2)
})

t.test('an existing or locked ref, and a locked file or one of another git, stay unchanged', async (t) => {
  const { dir, a, loose } = await setUp(t)
  const path = join(dir, 'packed-refs')
  const before = await readFile(path, 'latin1')
  const isLeft = async (refs: string[], reason: string) => {
    const made = await makePackedRefs(
      dir,
      refs.map((ref) => ({ ref, sha: a })),
      ADDING,
    )
    t.same([...made], [], reason)
    t.same(
      (await readdir(dir)).filter((name) => name.startsWith('packed-refs.')),
      [],
      reason,
    )
  }
  await isLeft(['refs/tags/new', 'refs/tags/old'], 'packed')
  await isLeft(['refs/tags/new', 'refs/tags/old/more'], 'below a packed one')
  await isLeft(['refs/tags/x', 'refs/tags/x/more'], 'in the way of each other')
  await userGit(dir, ['update-ref', 'refs/tags/deep/one', a])
  await isLeft(['refs/tags/new', 'refs/tags/deep/one'], 'a file')
  await isLeft(['refs/tags/new', 'refs/tags/deep'], 'above a file')
  await writeFile(join(dir, 'refs/tags/new.lock'), '')
  await isLeft(['refs/tags/new'], 'locked')
  await rm(join(dir, 'refs/tags/new.lock'))
  await isLeft([], 'none')
  t.equal(await readFile(path, 'latin1'), before)

  await (await open(`${path}.lock`, 'wx')).close()
  t.same([...(await makePackedRefs(dir, [{ ref: 'refs/tags/new', sha: a }], ADDING))], [])
  t.ok((await readdir(dir)).includes('packed-refs.lock'), 'the lock of somebody else stays')
  await rm(`${path}.lock`)

  for (const strange of [before.replace(' sorted', ''), `${before}?\n`, `${before}${a} refs/tags/cut-off`]) {
    await writeFile(path, strange)
    await isLeft(['refs/tags/new'], 'of another git')
    t.equal(await readFile(path, 'latin1'), strange)
  }
  await rm(path)
  await mkdir(path)
  await isLeft(['refs/tags/new'], 'a file that cannot be read')
  await rm(path, { recursive: true })
  t.same(await loose(), [])
  t.same([...(await makePackedRefs(dir, [{ ref: 'refs/tags/ä', sha: a }], ADDING))], ['refs/tags/ä'])
  t.same(await readRefs(dir, ['refs/tags/ä']), new Map([['refs/tags/ä', a]]))
})

t.test('the leftover of a crash beside the file is not a ref, and is not merged into it', async (t) => {
  const { dir, a } = await setUp(t)
  await writeFile(join(dir, 'packed-refs.new'), 'x'.repeat(10_000))
  t.same([...(await makePackedRefs(dir, [{ ref: 'refs/tags/new', sha: a }], ADDING))], ['refs/tags/new'])
  t.same(
    (await listRefs(dir)).map(({ ref }) => ref),
    [MAIN, 'refs/tags/new', 'refs/tags/old'],
  )
})
