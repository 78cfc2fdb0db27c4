import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { entriesAlongPaths, entryAt, readTree } from '../../../src/git/trees/trees.ts'
import { userGit } from '../client.ts'

const ID = '1'.repeat(40)

/** Writes a tree of these entries into a new repository. */
async function treeIn(dir: string, entries: [mode: string, name: string][]): Promise<string> {
  await userGit(dir, ['init', '-q', '--bare', '.'])
  const content = Buffer.concat(
    entries.flatMap(([mode, name]) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(ID, 'hex')]),
  )
  return (await userGit(dir, ['hash-object', '-t', 'tree', '-w', '--literally', '--stdin'], content)).trim()
}

t.test('the largest tree is read once, and then answered without git', async (t) => {
  const dir = t.testdir()
  const name = (i: number) => `${i}`.padStart(6, '0')
  const count = 300_000
  const tree = await treeIn(
    dir,
    Array.from({ length: count }, (_, i) => ['100644', name(i)]),
  )
  t.equal((await readTree(dir, tree)).size, count)
  await rm(join(dir, 'objects'), { recursive: true })
  const again = await readTree(dir, tree)
  const names = (skip: number, limit: number) => again.page(skip, limit).map((entry) => entry.name)
  t.same(names(0, 2), [name(0), name(1)])
  t.same(names(499, 3), [name(499), name(500), name(501)])
  t.same(names(count - 2, 5), [name(count - 2), name(count - 1)])
  t.same(names(count, 5), [])
  t.same(names(count + 1000, 5), [])
  t.same(await entryAt(dir, tree, [name(count - 1)]), { mode: '100644', name: name(count - 1), id: ID })
  t.equal(await entryAt(dir, tree, ['absent']), undefined)
  t.same([...(await entriesAlongPaths(dir, tree, [name(7), 'absent', name(9)])).keys()], [name(7), name(9)])
  t.equal((await again.all()).length, count)
})

t.test('a name within another name is not an entry', async (t) => {
  const dir = t.testdir()
  const tree = await treeIn(dir, [
    ['100644', 'a 100644 b'],
    ['100755', 'b'],
  ])
  t.match(await entryAt(dir, tree, ['b']), { mode: '100755' })
  t.match(await entryAt(dir, tree, ['a 100644 b']), { mode: '100644' })
})

t.test('modes are parsed as by git, including those of old or odd programs', async (t) => {
  const dir = t.testdir()
  const written = ['040000', '100664', '0100755', '100777', '120777', '0', '10644', '7777777', '160001']
  const tree = await treeIn(
    dir,
    written.map((mode, i) => [mode, `${i}`]),
  )
  const listed = (await userGit(dir, ['ls-tree', tree])).trim().split('\n')
  const modes = (await (await readTree(dir, tree)).all()).map(({ mode }) => mode.padStart(6, '0'))
  t.same(
    modes,
    listed.map((line) => line.split(' ', 1)[0]),
  )
  t.match(await entryAt(dir, tree, ['0']), { mode: '40000' })
})
