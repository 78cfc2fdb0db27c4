// In a process of its own: it measures the memory.
import { randomBytes } from 'node:crypto'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { type ChangedFilesOptions, changedFiles, isWhitespace } from '../../../src/git/diff/changed-files.ts'
import { readDiff } from '../../../src/git/diff/diff-reader.ts'
import { initWork, userGit } from '../client.ts'

const bounds = { maxLines: 20_000, maxFiles: 3000, maxLineCharacters: 5000 }
const plain: ChangedFilesOptions = { whitespace: 'show-all', skipTo: '', bounds }

type Files = Record<string, string | Buffer>

async function setUp(t: Test) {
  const work = t.testdir()
  await initWork(work)
  const write = async (files: Files) => {
    for (const [name, content] of Object.entries(files)) {
      await mkdir(dirname(join(work, name)), { recursive: true })
      await writeFile(join(work, name), content)
    }
  }
  const commit = async (files: Files = {}) => {
    await write(files)
    await userGit(work, ['add', '-A'])
    await userGit(work, ['commit', '-q', '--allow-empty', '-m', 'x'])
    return await userGit(work, ['rev-parse', 'HEAD'])
  }
  return { work, dir: `${work}/.git`, commit }
}

t.test('every kind of change is listed, with its counts of lines', async (t) => {
  const { work, dir, commit } = await setUp(t)
  const long = Array.from({ length: 20 }, (_, i) => `line ${i}\n`).join('')
  const from = await commit({
    changed: 'a\nb\nc\n',
    deleted: '1\n2\n',
    'old/name': long,
    mode: 'm\n',
    kind: 'k\n',
    'no-newline': 'x',
    binary: Buffer.from([0, 1, 2]),
    '-- sneaky': '- x\n-- y\n--- z\n',
    same: 'same\n',
  })
  await rm(`${work}/deleted`)
  await rm(`${work}/kind`)
  await symlink('mode', `${work}/kind`)
  await userGit(work, ['mv', 'old/name', 'new name'])
  await userGit(work, ['update-index', '--chmod=+x', 'mode'])
  await userGit(work, ['config', 'core.fileMode', 'false'])
  const to = await commit({
    changed: 'a\nB\nc\nd\n',
    'new name': `${long}more\n`,
    'no-newline': 'x\n',
    binary: Buffer.from([0, 1, 3]),
    '-- sneaky': '+ x\n++ y\n+++ z\ndiff --git a/x b/x\n@@ -1 +1 @@\nrename from x\n',
    'added/empty': '',
    'added/file': 'one\ntwo',
  })
  t.strictSame(await changedFiles(dir, from, to, plain), [
    { name: '-- sneaky', change: 'modified', additions: 6, deletions: 3 },
    { name: 'added/empty', change: 'added', additions: 0, deletions: 0 },
    { name: 'added/file', change: 'added', additions: 2, deletions: 0 },
    { name: 'binary', change: 'modified', additions: 0, deletions: 0 },
    { name: 'changed', change: 'modified', additions: 2, deletions: 1 },
    { name: 'deleted', change: 'deleted', additions: 0, deletions: 2 },
    // As in git's own diff, a change of the file type is a deletion and an addition.
    { name: 'kind', change: 'deleted', additions: 0, deletions: 1 },
    { name: 'kind', change: 'added', additions: 1, deletions: 0 },
    { name: 'mode', change: 'modified', additions: 0, deletions: 0 },
    { name: 'new name', change: 'renamed', additions: 1, deletions: 0, previousName: 'old/name' },
    { name: 'no-newline', change: 'modified', additions: 1, deletions: 1 },
  ])
  t.strictSame(await changedFiles(dir, from, from, plain), [])
})

t.test('unusual file names come out unchanged', async (t) => {
  const { work, dir, commit } = await setUp(t)
  const names = [
    '-x',
    '--',
    '"quoted"',
    "it's",
    'new\nline',
    'tab\tand\\backslash',
    'a b/a',
    'x b/x b/x',
    'ä/日本/💩',
    '\u0001\u001b[31m',
    '*?[',
    ':(top)x',
  ]
  const from = await commit({ start: 'x' })
  const to = await commit(Object.fromEntries(names.map((name) => [name, 'x\n'])))
  const listed = await changedFiles(dir, from, to, plain)
  t.strictSame(listed.map(({ name }) => name).sort(), [...names].sort())
  t.ok(listed.every(({ additions, change }) => additions === 1 && change === 'added'))
  for (const { name } of listed) {
    const [first] = await changedFiles(dir, from, to, { ...plain, skipTo: name })
    t.equal(first?.name, name, `the list can begin at ${JSON.stringify(name)}`)
  }
  for (const name of names) await rename(join(work, name), join(work, `${name}~`))
  const moved = await changedFiles(dir, to, await commit(), plain)
  t.strictSame(moved.map(({ name }) => name).sort(), names.map((name) => `${name}~`).sort())
  t.ok(moved.every(({ change }) => change === 'renamed'))

  const latin1 = Buffer.from('caf\xe9', 'latin1')
  const blob = await userGit(work, ['hash-object', '-w', '--stdin'], 'x')
  const entry = Buffer.concat([Buffer.from(`100644 blob ${blob}\t`), latin1, Buffer.from('\0')])
  const tree = await userGit(work, ['mktree', '-z'], entry)
  const odd = await userGit(work, ['commit-tree', '-m', 'x', tree])
  const changes = await changedFiles(dir, from, odd, plain)
  t.match(
    changes.map(({ name }) => name),
    ['caf\u{10fee9}'],
  )
})

t.test('pulls.files.2: whitespace can be ignored in four ways', async (t) => {
  const { work, dir, commit } = await setUp(t)
  const from = await commit({
    all: 'a b\n',
    change: 'a b\n',
    eol: 'a\n',
    real: 'a\n',
    moved: 'a b\nc\nd\ne\n',
  })
  await userGit(work, ['mv', 'moved', 'gone'])
  const to = await commit({
    all: 'ab\n',
    change: 'a   b\n',
    eol: 'a  \n',
    real: 'b\n',
    gone: 'ab\nc\nd\ne\n',
  })
  const names = async (whitespace: ChangedFilesOptions['whitespace']) =>
    (await changedFiles(dir, from, to, { ...plain, whitespace })).map(({ name }) => name)
  t.strictSame(await names('show-all'), ['all', 'change', 'eol', 'gone', 'real'])
  t.strictSame(await names('ignore-eol'), ['all', 'change', 'gone', 'real'])
  t.strictSame(await names('ignore-change'), ['all', 'gone', 'real'])
  t.strictSame(await names('ignore-all'), ['gone', 'real'], 'a renamed file is always listed')
  t.notOk(isWhitespace('constructor'))
})

t.test('pulls.files.2: the list begins at skip-to, and is empty when that file did not change', async (t) => {
  const { dir, commit } = await setUp(t)
  const from = await commit({ a: '1', b: '1', c: '1', same: '1' })
  const to = await commit({ a: '2', b: '2', c: '2' })
  const names = async (skipTo: string, maxFiles = 3000) =>
    (await changedFiles(dir, from, to, { ...plain, skipTo, bounds: { ...bounds, maxFiles } })).map(
      ({ name }) => name,
    )
  t.strictSame(await names('b'), ['b', 'c'])
  t.strictSame(await names('b', 1), ['b'], 'the limit of files counts from skip-to')
  for (const none of ['same', 'bb', 'a\0', '\n', '--', 'b/', '../b'])
    t.strictSame(await names(none), [], none)
})

t.test('pulls.files.3: the numbers of files and of lines are limited', async (t) => {
  const { dir, commit } = await setUp(t)
  const from = await commit({ f05: '1\n'.repeat(30) })
  const files = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [`f${`${i}`.padStart(2, '0')}`, 'x\n'.repeat(i)]),
  )
  const to = await commit(files)
  const bounded = (more: Partial<typeof bounds>) =>
    changedFiles(dir, from, to, { ...plain, bounds: { ...bounds, ...more } })
  t.equal((await bounded({})).length, 40)
  t.strictSame(
    (await bounded({ maxFiles: 7 })).map(({ name }) => name),
    ['f00', 'f01', 'f02', 'f03', 'f04', 'f05', 'f06'],
  )
  t.equal(
    (await bounded({ maxFiles: 40 })).length,
    40,
    'all files are listed when the limit equals their number',
  )
  const few = await bounded({ maxLines: 10 })
  t.strictSame(
    [few[3]?.additions, few[10]?.additions, few[39]?.additions],
    [3, 10, 10],
    'at most ten lines of each file are counted',
  )
  t.equal((few[5]?.additions ?? 0) + (few[5]?.deletions ?? 0), 10)
  t.strictSame(
    await bounded({ maxLineCharacters: 1 }),
    await bounded({}),
    'the limit of characters does not change the counts',
  )
})

t.test('git is ended at the limit of files', async (t) => {
  const { work, dir, commit } = await setUp(t)
  const from = await commit({ a: 'x' })
  const noise = () => randomBytes(3e6).toString('base64').replace(/.{60}/g, '$&\n')
  const to = await commit({ a: 'y', b: noise(), c: noise(), last: 'z' })
  const blob = await userGit(work, ['rev-parse', 'HEAD:last'])
  await rm(`${dir}/objects/${blob.slice(0, 2)}/${blob.slice(2)}`)
  const bounded = (maxFiles: number) =>
    changedFiles(dir, from, to, { ...plain, bounds: { ...bounds, maxFiles } })
  await t.rejects(bounded(4), { name: 'GitFailed' }, 'the last file cannot be read')
  t.match(await bounded(1), [{ name: 'a' }], 'a file beyond the limit is not read')
})

t.test(
  'pulls.files.3: the characters held of one line are limited: a line of 300 MB takes no memory',
  async (t) => {
    const reader = readDiff({ ...bounds, maxLineCharacters: 5000 })
    const chunk = Buffer.alloc(64 * 1024, 'x')
    const header = 'diff --git a/long b/long\nindex 1..2 100644\n--- a/long\n+++ b/long\n@@ -1 +1,2 @@\n'
    const held = () => process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers
    reader.take(Buffer.from(`${header}-`))
    const before = held()
    let most = 0
    for (let i = 0; i < 4800; i++) {
      reader.take(chunk)
      most = Math.max(most, held() - before)
    }
    reader.take(Buffer.from('\n+'))
    for (let i = 0; i < 4800; i++) {
      reader.take(chunk)
      most = Math.max(most, held() - before)
    }
    reader.take(Buffer.from('\n+short\ndiff --git a/next b/next\nold mode 100644\nnew mode 100755\n'))
    t.ok(most < 40e6, `${most} bytes`)
    t.strictSame(reader.files(), [
      { name: 'long', change: 'modified', additions: 2, deletions: 1 },
      { name: 'next', change: 'modified', additions: 0, deletions: 0 },
    ])
  },
)

t.test('the result does not depend on how the output is split into chunks', async (t) => {
  const text =
    'diff --git "a/q\\"\\303\\244" "b/q\\"\\303\\244"\nnew file mode 100644\n--- /dev/null\n+++ "b/q"\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n' +
    'diff --git a/x b/y z\nsimilarity index 90%\nrename from x\nrename to y z\n@@ -1 +1 @@\n-a\n+b\n'
  const whole = readDiff(bounds)
  whole.take(Buffer.from(text))
  t.match(whole.files(), [
    { name: 'q"ä', change: 'added', additions: 2 },
    { name: 'y z', previousName: 'x', additions: 1, deletions: 1 },
  ])
  for (const size of [1, 2, 3, 7, 50]) {
    const reader = readDiff(bounds)
    for (let i = 0; i < text.length; i += size) reader.take(Buffer.from(text.slice(i, i + size)))
    t.strictSame(reader.files(), whole.files(), `${size} bytes at a time`)
  }
})

t.test('a repeated question is answered from the cache; missing commits are errors', async (t) => {
  const { work, dir, commit } = await setUp(t)
  const from = await commit({ a: '1' })
  const to = await commit({ a: '2' })
  const both = await Promise.all([changedFiles(dir, from, to, plain), changedFiles(dir, from, to, plain)])
  t.equal(both[0], both[1], 'concurrent callers share one answer')
  await rename(dir, `${work}/away`)
  t.equal(await changedFiles(dir, from, to, plain), both[0])
  await t.rejects(changedFiles(dir, to, from, plain), { name: 'RepositoryMissing' })
  await rename(`${work}/away`, dir)
  await t.rejects(changedFiles(dir, from, 'ab'.repeat(20), plain), { name: 'GitFailed' })
  t.equal((await changedFiles(dir, to, from, plain)).length, 1, 'an error is not cached')
  await t.rejects(changedFiles(dir, '--output=x', to, plain), { name: 'InvalidGitArgument' })
})
