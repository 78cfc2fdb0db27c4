import t, { type Test } from 'tap'
import { commitFacts, commitsWithin, fromCommits, parseSignature } from '../../../src/git/commits/commits.ts'
import { diffStat, isAncestor, mergeBase } from '../../../src/git/commits/history.ts'
import { commitTree, createFirstCommit } from '../../../src/git/commits/new-commit.ts'
import { mergeTrees } from '../../../src/git/merge/merge.ts'
import { storeObject } from '../../../src/git/objects/loose-objects.ts'
import { EMPTY_TREE } from '../../../src/git/refs/names.ts'
import { fromTags } from '../../../src/git/refs/tags.ts'
import { createRepository, deleteRepository } from '../../../src/git/repository/repository.ts'
import { exists } from '../../../src/storage/disk.ts'
import { commit, userGit } from '../client.ts'

const ann = { name: 'Ann Ä', email: 'ann@example.org', date: '2024-05-01T10:00:00+02:00' }
const bob = { name: 'Bob', email: 'bob@example.org', date: '2024-05-02T23:59:59-03:30' }

async function setUp(t: Test): Promise<string> {
  const dir = `${t.testdir()}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  return dir
}

/** Stores bytes as a commit that git itself would not write. */
function rawCommit(dir: string, content: string | Buffer): Promise<string> {
  return userGit(dir, ['hash-object', '-t', 'commit', '-w', '--literally', '--stdin'], content)
}

t.test('a commit with very many parents has its first hundred parents, and no truncated id', async (t) => {
  const dir = await setUp(t)
  const author = 'Ann <ann@example.org> 1714550400 +0000'
  const parents = (count: number) =>
    Array.from({ length: count }, (_, i) => `parent ${(i + 1).toString(16).padStart(40, '0')}\n`).join('')
  const withParents = (count: number) =>
    rawCommit(dir, `tree ${EMPTY_TREE}\n${parents(count)}author ${author}\ncommitter ${author}\n\nmany\n`)
  for (const [count, known] of [
    [99, 99],
    [100, 100],
    [5000, 100],
    [60_000, 100],
  ] as const) {
    const sha = await withParents(count)
    const facts = (await commitFacts(dir, [sha])).get(sha)
    t.equal(facts?.parents.length, known, `${count} parents`)
    t.ok(facts?.parents.every((id) => id.length === 40))
    if (count < 10_000) t.match(facts, { author: { name: 'Ann' }, message: 'many\n' })
  }
  // The head ends with the first half of an id when only the beginning of a commit is read.
  const filler = `x-filler ${'x'.repeat(1024 * 1024 - 85)}\n`
  const sha = await rawCommit(
    dir,
    `tree ${EMPTY_TREE}\n${filler}${parents(2)}author ${author}\ncommitter ${author}\n\n`,
  )
  t.same((await commitFacts(dir, [sha])).get(sha)?.parents, [])
})

t.test('a new commit has the given content', async (t) => {
  const dir = await setUp(t)
  const { sha: first } = await createFirstCommit(dir, {
    branch: 'main',
    files: new Map([['README.md', '# Hi\n']]),
    message: 'first',
    author: ann,
    committer: ann,
  })
  const tree = await userGit(dir, ['rev-parse', 'main^{tree}'])
  const message = 'Merge ü\n\nbody\n'
  const sha = await commitTree(dir, { tree, parents: [first], message, author: ann, committer: bob })
  t.same((await commitFacts(dir, [sha])).get(sha), {
    sha,
    tree,
    parents: [first],
    author: ann,
    committer: bob,
    message,
  })
  t.equal(
    await userGit(dir, ['log', '-1', '--format=%an|%ae|%aI|%cn|%ce|%cI', sha]),
    'Ann Ä|ann@example.org|2024-05-01T10:00:00+02:00|Bob|bob@example.org|2024-05-02T23:59:59-03:30',
  )
  t.equal(await userGit(dir, ['show', 'main:README.md']), '# Hi')
  t.equal(await userGit(dir, ['fsck', '--strict', '--no-dangling']), '')
})

t.test('repeating the same first commit gives stale and the same id', async (t) => {
  const dir = await setUp(t)
  const first = {
    branch: 'main',
    files: new Map([
      ['README.md', 'x'],
      ['LICENSE', 'y'],
    ]),
    message: 'first',
    author: ann,
    committer: ann,
  }
  const { sha, outcome } = await createFirstCommit(dir, first)
  t.equal(outcome, 'moved')
  t.same(await createFirstCommit(dir, first), { sha, outcome: 'stale' })
  t.equal(await userGit(dir, ['ls-tree', '--name-only', 'main']), 'LICENSE\nREADME.md')
})

t.test('names, dates and messages that would break a commit are cleaned or refused', async (t) => {
  const dir = await setUp(t)
  const made = async (author: typeof ann, message = 'x') => {
    const sha = await commitTree(dir, { tree: EMPTY_TREE, parents: [], message, author, committer: ann })
    return (await commitFacts(dir, [sha])).get(sha)
  }
  t.match(await made({ ...ann, name: 'Evil <x@y> 1 +0000\nparent 0' }), {
    author: { name: 'Evil  x@y  1 +0000 parent 0' },
  })
  t.match(await made({ ...ann, name: '' }), { author: { name: 'ann@example.org' } })
  t.match(await made({ ...ann, name: '...', email: '' }), { author: { name: 'unknown', email: '' } })
  t.match(await made({ ...ann, name: 'n'.repeat(200_000) }), { author: { name: 'n'.repeat(500) } })
  t.match(await made({ ...ann, date: '2024-01-01T00:00:00.789Z' }), {
    author: { date: '2024-01-01T00:00:00+00:00' },
  })
  t.match(await made(ann, ''), { message: '\n' })
  await t.rejects(made({ ...ann, date: 'yesterday' }), { name: 'InvalidGitArgument', field: 'date' })
  await t.rejects(made(ann, 'a\0b'), { name: 'InvalidGitArgument', field: 'message' })
})

t.test('unusual commits are parsed without errors', async (t) => {
  const dir = await setUp(t)
  const head = `tree ${EMPTY_TREE}\n`
  const odd = {
    latin1: await rawCommit(
      dir,
      Buffer.from(
        `${head}author J\xfcrgen <j@x> 1700000000 +0100\ncommitter J <j@x> 1700000000 +0100\nencoding ISO-8859-1\n\ngr\xfc\xdfe\n`,
        'latin1',
      ),
    ),
    signed: await rawCommit(
      dir,
      `${head}author A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\ngpgsig -----BEGIN\n author no\n -----END\n\nmsg`,
    ),
    broken: await rawCommit(dir, `${head}author nobody\ncommitter <> 99999999999999999999 +9999\n`),
    unknownEncoding: await rawCommit(
      dir,
      `${head}author A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\nencoding klingon\n\nü`,
    ),
    huge: await rawCommit(
      dir,
      `${head}author A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\n${'m'.repeat(3_000_000)}`,
    ),
  }
  const facts = await commitFacts(dir, Object.values(odd))
  t.match(facts.get(odd.latin1), {
    author: { name: 'Jürgen', date: '2023-11-14T23:13:20+01:00' },
    message: 'grüße\n',
  })
  t.match(facts.get(odd.signed), { author: { name: 'A', email: 'a@x' }, message: 'msg', parents: [] })
  t.match(facts.get(odd.broken), {
    author: { name: 'nobody', email: '', date: '1970-01-01T00:00:00+00:00' },
    committer: { date: '1970-01-01T00:00:00+00:00' },
    message: '',
  })
  t.match(facts.get(odd.unknownEncoding), { message: 'ü' })
  const length = facts.get(odd.huge)?.message.length ?? 0
  t.ok(length > 250_000 && length <= 256 * 1024, 'a huge message is cut')
})

t.test('a name may have any line separator but a newline', async (t) => {
  const dir = await setUp(t)
  const sha = await commitTree(dir, {
    ...{ tree: EMPTY_TREE, parents: [], message: 'x', committer: bob },
    author: { ...ann, name: 'Ann\u2028of\u2029lines' },
  })
  t.match((await commitFacts(dir, [sha])).get(sha), { author: { ...ann, name: 'Ann\u2028of\u2029lines' } })
  t.match(parseSignature('Ann\rof <a@x> 1 +0000'), { name: 'Ann\rof', email: 'a@x' })
})

t.test('a time has a year of four digits in its time zone, or it is the epoch', (t) => {
  const epoch = '1970-01-01T00:00:00+00:00'
  const dates = {
    '-1 +0000': '1969-12-31T23:59:59+00:00',
    '-62167219200 +0000': '0000-01-01T00:00:00+00:00',
    '-62167219200 -0001': epoch,
    '-253402214399 +0000': epoch,
    '253402300799 +0000': '9999-12-31T23:59:59+00:00',
    '253402300799 -0100': '9999-12-31T22:59:59-01:00',
    '253402300799 +0001': epoch,
    '99999999999999999999 +0000': epoch,
    '1 +2400': epoch,
    '1 +0060': epoch,
  }
  for (const [written, date] of Object.entries(dates)) {
    t.equal(parseSignature(`A <a@x> ${written}`).date, date, written)
  }
  t.end()
})

// A search from each of them takes ten minutes, and blocks the event loop.
t.test('a commit by a megabyte of `<` does not block the loop', async (t) => {
  const dir = await setUp(t)
  const by = '<'.repeat(1_000_000)
  const sha = await rawCommit(dir, `tree ${EMPTY_TREE}\nauthor ${by}\ncommitter A <a@x> 1 +0000\n\nmessage`)
  t.match((await commitFacts(dir, [sha])).get(sha), {
    author: { email: '', date: '1970-01-01T00:00:00+00:00' },
    committer: { name: 'A', email: 'a@x' },
    message: 'message',
  })
})

t.test('of sixty commits with huge signatures only the beginnings are kept', async (t) => {
  const dir = await setUp(t)
  const signature = `gpgsig -----BEGIN\n${` ${'s'.repeat(70)}\n`.repeat(3000)} -----END\n`
  const shas = await Promise.all(
    Array.from({ length: 60 }, (_, i) => {
      const content = `tree ${EMPTY_TREE}\nauthor A <a@x> ${i} +0000\ncommitter A <a@x> 1 +0000\n${signature}`
      return storeObject(dir, 'commit', Buffer.from(`${content}\n${'m'.repeat(i % 2 ? 40_000 : 60_000)}`))
    }),
  )
  const facts = await commitFacts(dir, shas)
  t.equal(facts.size, 60)
  for (const { signed, message } of facts.values()) {
    t.equal(signed?.signature.length, 64 * 1024)
    t.match(message, /^m{40000,60000}$/, 'what comes after it is whole')
  }
  const times = await fromCommits(dir, [...shas, ...shas], ({ author }) => author.date)
  t.same([...times.keys()], shas, 'each of them once, however many are held at a time')
  t.equal((await commitsWithin(dir, shas, 1024 * 1024)).length, 3, 'so many fit into a megabyte')
  t.equal((await commitsWithin(dir, shas, 1)).length, 1)
  t.equal((await commitsWithin(dir, shas, 60 * 300 * 1024)).length, 60)
})

t.test(
  'ids without a commit in this repository are left out, even if another repository has them',
  async (t) => {
    const dir = await setUp(t)
    const other = `${dir}/../2.git`
    await createRepository(other, { defaultBranch: 'main' })
    const a = await commit(dir, 'a', { f: 'tree' }, [])
    const tree = await userGit(dir, ['rev-parse', `${a}^{tree}`])
    t.same([...(await commitFacts(dir, [tree, a, 'b'.repeat(40)])).keys()], [a])
    t.same([...(await commitFacts(other, [a])).keys()], [])
    t.same([...(await commitFacts(dir, [])).keys()], [])
    await t.rejects(commitFacts(dir, ['HEAD']), { name: 'InvalidGitArgument' })
  },
)

t.test('a thousand commits are read in one call, and cached commits are not read again', async (t) => {
  const dir = await setUp(t)
  const stream: string[] = []
  for (let i = 1; i <= 1000; i++) {
    stream.push(
      `commit refs/heads/main\nmark :${i}\ncommitter C <c@x> ${1_700_000_000 + i} +0000\ndata <<E\nnumber ${i}\nE\n`,
    )
  }
  await userGit(dir, ['fast-import', '--quiet'], stream.join(''))
  const shas = (await userGit(dir, ['rev-list', 'main'])).split('\n')
  const facts = await commitFacts(dir, shas)
  t.equal(facts.size, 1000)
  t.equal(facts.get(shas[0] ?? '')?.message, 'number 1000\n')
  await deleteRepository(dir)
  t.equal((await commitFacts(dir, shas)).size, 1000, 'the second time comes from the cache')
})

t.test('merge bases, ancestors and counts of changes', async (t) => {
  const dir = await setUp(t)
  const a = await commit(dir, 'a', { f: '1\n2\n3\n' }, [])
  const b = await commit(dir, 'b', { f: '1\n2\n3\n4\n' }, [a])
  const c = await commit(dir, 'c', { f: '1\n2\n3\n', g: 'x\ny\n' }, [a])
  const d = await commit(dir, 'd', { h: '1\n2\n3\n', g: 'x\n' }, [c])
  const alone = await commit(dir, 'alone', { f: '0\n' }, [])

  t.equal(await mergeBase(dir, b, d), a)
  t.equal(await mergeBase(dir, b, alone), undefined)
  t.equal(await isAncestor(dir, a, d), true)
  t.equal(await isAncestor(dir, d, a), false)
  t.equal(await isAncestor(dir, d, d), true)
  t.same(await diffStat(dir, a, b), { additions: 1, deletions: 0, changedFiles: 1 })
  t.same(
    await diffStat(dir, c, d),
    { additions: 0, deletions: 1, changedFiles: 2 },
    'a renamed file counts once',
  )
  t.same(await diffStat(dir, a, a), { additions: 0, deletions: 0, changedFiles: 0 })
  t.same(await diffStat(dir, EMPTY_TREE, a), { additions: 3, deletions: 0, changedFiles: 1 })

  const missing = 'e'.repeat(40)
  for (const ask of [mergeBase, isAncestor, diffStat]) {
    await t.rejects(async () => void (await ask(dir, a, missing)), { name: 'GitFailed' })
    await t.rejects(async () => void (await ask(dir, a, '--help')), { name: 'InvalidGitArgument' })
  }
  await deleteRepository(dir)
  t.equal(await mergeBase(dir, b, d), a, 'the answer is cached')
  t.equal(await mergeBase(dir, b, alone), undefined, 'the absence of a merge base is cached too')
  await t.rejects(mergeBase(dir, a, missing), { name: 'RepositoryMissing' }, 'an error is not cached')
})

t.test('two commits merge cleanly, with conflicts that name the files, or not at all', async (t) => {
  const dir = await setUp(t)
  const a = await commit(dir, 'a', { f: '1\n', g: '1\n', 'ü ".txt': '1\n' }, [])
  const b = await commit(dir, 'b', { f: '2\n', g: '1\n', 'ü ".txt': '2\n' }, [a])
  const c = await commit(dir, 'c', { f: '1\n', g: '2\n', 'ü ".txt': '1\n' }, [a])
  const d = await commit(dir, 'd', { f: '3\n', g: '1\n', 'ü ".txt': '3\n' }, [a])
  const alone = await commit(dir, 'alone', { f: '0\n' }, [])

  const clean = await mergeTrees(dir, b, c)
  t.match(clean, { kind: 'clean', tree: /^[0-9a-f]{40}$/ })
  if (clean.kind === 'clean')
    t.equal(await userGit(dir, ['show', `${clean.tree}:f`, `${clean.tree}:g`]), '2\n2')
  t.same(await mergeTrees(dir, b, d), { kind: 'conflicts', files: ['f', 'ü ".txt'] })
  t.same(await mergeTrees(dir, b, alone), { kind: 'unrelated' })
  t.same(await mergeTrees(dir, a, b), {
    kind: 'clean',
    tree: await userGit(dir, ['rev-parse', `${b}^{tree}`]),
  })
  await t.rejects(mergeTrees(dir, a, 'e'.repeat(40)), { name: 'GitFailed' })
  await t.rejects(mergeTrees(dir, a, 'main'), { name: 'InvalidGitArgument' })
})

t.test('new objects equal those that git itself writes', async (t) => {
  const dir = await setUp(t)
  const files = new Map<string, string | Uint8Array>([
    ['a', 'x'],
    ['é', ''],
    ['B', Buffer.from([0, 255, 10])],
    ['a.b', '2'],
    ['a-b', '3'],
  ])
  const first = { branch: 'main', files, message: 'first', author: ann, committer: bob }
  const { sha } = await createFirstCommit(dir, first)
  t.equal(await userGit(dir, ['ls-tree', '-z', '--name-only', sha]), 'B\0a\0a-b\0a.b\0é\0')
  t.equal(await userGit(dir, ['cat-file', '-s', `${sha}:B`]), '3')
  const tree = await userGit(dir, ['rev-parse', `${sha}^{tree}`])
  const entries = await userGit(dir, ['ls-tree', '-z', sha])
  t.equal(await userGit(dir, ['mktree', '-z'], entries), tree)
  const people = { author: ann, committer: ann }
  const again = await commitTree(dir, { tree, parents: [sha, sha], message: 'x', ...people })
  t.same((await commitFacts(dir, [again])).get(again)?.parents, [sha], 'a repeated parent counts once')
  t.equal(
    await commitTree(dir, { tree, parents: [sha], message: 'x', ...people }),
    again,
    'writing the same commit twice gives the same id',
  )
  t.equal(await userGit(dir, ['fsck', '--strict', '--no-dangling']), '')
})

t.test('a new commit needs an existing tree, existing parents and an existing repository', async (t) => {
  const dir = await setUp(t)
  const parent = await commit(dir, 'a', { f: '1' }, [])
  const tree = await userGit(dir, ['rev-parse', `${parent}^{tree}`])
  const rest = { message: 'x', author: ann, committer: ann }
  const failed = { name: 'GitFailed' }
  await t.rejects(commitTree(dir, { tree: 'e'.repeat(40), parents: [], ...rest }), failed)
  await t.rejects(commitTree(dir, { tree: parent, parents: [], ...rest }), failed, 'no tree')
  await t.rejects(commitTree(dir, { tree, parents: [parent, tree], ...rest }), failed, 'no commit')
  await t.rejects(commitTree(dir, { tree, parents: ['e'.repeat(40)], ...rest }), failed)
  await t.resolves(commitTree(dir, { tree: EMPTY_TREE, parents: [parent], ...rest }))
  await deleteRepository(dir)
  await t.rejects(commitTree(dir, { tree, parents: [parent], ...rest }), { name: 'RepositoryMissing' })
  await t.rejects(storeObject(dir, 'blob', Buffer.from('x')), { name: 'RepositoryMissing' })
  t.equal(await exists(dir), false, 'the deleted repository does not reappear')
})

t.test('tags of more than 256 KiB are skipped, and many tags are read in parts', async (t) => {
  const dir = await setUp(t)
  const tag = (i: number, length: number) =>
    storeObject(
      dir,
      'tag',
      Buffer.from(
        `object ${EMPTY_TREE}\ntype tree\ntag t${i}\ntagger A <a@x> ${i} +0000\n\n${'m'.repeat(length)}\n`,
      ),
    )
  const small = await Promise.all(Array.from({ length: 60 }, (_, i) => tag(i, 250_000)))
  const large = await tag(60, 300_000)
  t.same([...(await fromTags(dir, [...small, large], ({ message }) => message.length)).keys()], small)
})
