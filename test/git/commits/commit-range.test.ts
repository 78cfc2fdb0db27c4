import { rename } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { commitChanges, commitRange } from '../../../src/git/commits/commit-range.ts'
import { commitFacts } from '../../../src/git/commits/commits.ts'
import { commit, userGit } from '../client.ts'

async function setUp(t: Test): Promise<string> {
  const dir = `${t.testdir()}/1.git`
  await userGit('/', ['init', '-q', '--bare', dir])
  return dir
}

t.test('a range lists the commits of git log, newest first, in pages', async (t) => {
  const dir = await setUp(t)
  const root = await commit(dir, 'root', { f: '0' }, [])
  let tip = root
  for (let i = 1; i <= 7; i++) tip = await commit(dir, `${i}`, { f: `${i}` }, [tip])
  const side = await commit(dir, 'side', { f: '0', s: '1' }, [root])
  const merge = await commit(dir, 'merge', { f: '7', s: '1' }, [tip, side])
  const log = (await userGit(dir, ['log', '--format=%H', merge, `^${root}`])).split('\n')
  const range = await commitRange(dir, root, merge)
  t.equal(range.total, 9)
  t.strictSame(range.page(0, 50), log)
  t.strictSame(range.page(3, 2), log.slice(3, 5))
  t.strictSame(range.page(8, 5), log.slice(8))
  t.strictSame(range.page(9, 5), [])
  t.strictSame(range.page(Number.MAX_SAFE_INTEGER - 50, 50), [])
  t.equal((await commitRange(dir, merge, root)).total, 0)
  t.equal((await commitRange(dir, merge, merge)).total, 0)
  await t.rejects(commitRange(dir, root, 'ab'.repeat(20)), { name: 'GitFailed' })
  await t.rejects(commitRange(dir, '--all', root), { name: 'InvalidGitArgument' })
})

t.test("a commit's changes are relative to its first parent; one command reads a whole page", async (t) => {
  const dir = await setUp(t)
  const long = 'line\n'.repeat(20)
  const root = await commit(dir, 'root', { 'old\nname': long, keep: 'a\n', gone: 'x\n' }, [])
  const next = await commit(dir, 'next', { 'new name': `${long}more\n`, keep: 'b\n', '-x': '1\n2\n' }, [root])
  const side = await commit(dir, 'side', { 'old\nname': long, keep: 'a\n', gone: 'x\n', side: 's\n' }, [root])
  const merge = await commit(
    dir,
    'merge',
    { 'new name': `${long}more\n`, keep: 'b\n', '-x': '1\n2\n', side: 's\n' },
    [next, side],
  )
  const empty = await commit(
    dir,
    'empty',
    { 'new name': `${long}more\n`, keep: 'b\n', '-x': '1\n2\n', side: 's\n' },
    [merge],
  )
  const facts = await commitFacts(dir, [empty, merge, next, root])
  const changes = await commitChanges(dir, facts.values(), 100)
  t.strictSame(Object.fromEntries(changes), {
    [empty]: { additions: 0, deletions: 0, files: [] },
    [merge]: { additions: 1, deletions: 0, files: [{ name: 'side', status: 'added' }] },
    [next]: {
      additions: 4,
      deletions: 2,
      files: [
        { name: '-x', status: 'added' },
        { name: 'gone', status: 'removed' },
        { name: 'keep', status: 'modified' },
        { name: 'old\nname', status: 'removed' },
        { name: 'new name', status: 'added' },
      ],
    },
    [root]: {
      additions: 22,
      deletions: 0,
      files: [
        { name: 'gone', status: 'added' },
        { name: 'keep', status: 'added' },
        { name: 'old\nname', status: 'added' },
      ],
    },
  })
  const few = await commitChanges(dir, facts.values(), 2)
  t.match(few.get(next), { additions: 4, deletions: 2 }, 'all lines are counted')
  t.equal(few.get(next)?.files.length, 2, 'the list of files stops at the limit')

  await rename(dir, `${dir}.away`)
  t.strictSame(await commitChanges(dir, facts.values(), 100), changes, 'the second time comes from the cache')
  await t.rejects(commitChanges(dir, [{ sha: side, parents: [root] }], 100), { name: 'RepositoryMissing' })
})

t.test('a signed commit has its signature and the text that was signed', async (t) => {
  const dir = await setUp(t)
  const plain = await commit(dir, 'plain', { f: '1' }, [])
  const content = `${await userGit(dir, ['cat-file', 'commit', plain])}\n`
  const signature = '-----BEGIN SSH SIGNATURE-----\nabc\n\ndef\n-----END SSH SIGNATURE-----\n'
  const header = `gpgsig ${signature.trimEnd().replaceAll('\n', '\n ')}\n`
  for (const encoding of ['', 'encoding UTF-8\n']) {
    const [headers, message] = [`${content.slice(0, content.indexOf('\n\n') + 1)}`, '\nplain\n']
    const signed = await userGit(
      dir,
      ['hash-object', '-t', 'commit', '-w', '--stdin', '--literally'],
      `${headers}${header}${encoding}${message}`,
    )
    const facts = (await commitFacts(dir, [signed, plain])).get(signed)
    t.strictSame(facts?.signed, { signature, payload: `${headers}${encoding}${message}` })
    t.match(facts, { message: 'plain\n', author: { name: 'Ann Author' } })
  }
  t.equal((await commitFacts(dir, [plain])).get(plain)?.signed, undefined)
})
