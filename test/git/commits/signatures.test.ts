import { chmod, copyFile, readFile, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { commitFacts } from '../../../src/git/commits/commits.ts'
import { commitTree } from '../../../src/git/commits/new-commit.ts'
import { signingKeyProblem, unsignedCommits } from '../../../src/git/commits/signatures.ts'
import { EMPTY_TREE } from '../../../src/git/refs/names.ts'
import { createRepository, deleteRepository } from '../../../src/git/repository/repository.ts'
import { commit, tryGit, userGit } from '../client.ts'
import { makeKey } from '../ssh-keys.ts'

const ann = { name: 'Ann Ä', email: 'ann@example.org', date: '2024-05-01T10:00:00+02:00' }

async function setUp(t: Test) {
  const root = t.testdir()
  const dir = `${root}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  const [mine, other] = [await makeKey(`${root}/mine`), await makeKey(`${root}/other`)]
  const make = (message: string, signingKey?: string) =>
    commitTree(dir, { tree: EMPTY_TREE, parents: [], message, author: ann, committer: ann, signingKey })
  return { root, dir, mine, other, make }
}

t.test('a commit created with a key has a signature that git verifies', async (t) => {
  const { dir, mine, other } = await setUp(t)
  const parent = await commit(dir, 'a', { f: '1' }, [])
  const tree = await userGit(dir, ['rev-parse', `${parent}^{tree}`])
  const made = { tree, parents: [parent], message: 'ü\n\nbody', author: ann, committer: ann }
  const sha = await commitTree(dir, { ...made, signingKey: mine.path })
  const verify = (signers: string) =>
    tryGit(dir, ['-c', `gpg.ssh.allowedSignersFile=${signers}`, 'verify-commit', '--raw', sha])
  t.match(await verify(mine.signers), { code: 0, stderr: /Good "git" signature for someone@example.org/ })
  t.match(await verify(other.signers), { code: 1 })
  t.equal(await userGit(dir, ['fsck', '--strict', '--no-dangling']), '')
  t.equal(await commitTree(dir, { ...made, signingKey: mine.path }), sha, 'the same commit again')
  t.not(await commitTree(dir, made), sha)

  const read = `${dir}/../2.git`
  await userGit('/', ['clone', '-q', '--bare', dir, read])
  await userGit(dir, ['push', '-q', read, `${sha}:refs/heads/x`])
  const facts = (await commitFacts(read, [sha])).get(sha)
  await deleteRepository(dir)
  t.same((await commitFacts(dir, [sha])).get(sha), facts, 'the cached commit equals the stored one')
  t.match(facts, { message: 'ü\n\nbody\n', parents: [parent], author: ann })
})

t.test('an invalid commit is refused even with a signature', async (t) => {
  const { dir, mine } = await setUp(t)
  const blank = { message: 'x', author: ann, committer: ann, signingKey: mine.path }
  const missing = 'e'.repeat(40)
  await t.rejects(commitTree(dir, { ...blank, tree: missing, parents: [] }), { name: 'GitFailed' })
  await t.rejects(commitTree(dir, { ...blank, tree: EMPTY_TREE, parents: [missing] }), { name: 'GitFailed' })
  await t.rejects(commitTree(dir, { ...blank, tree: EMPTY_TREE, parents: [EMPTY_TREE] }), {
    name: 'GitFailed',
  })
})

t.test('a key that cannot sign gives the reason, and no commit', async (t) => {
  const { root, make, mine } = await setUp(t)
  const locked = await makeKey(`${root}/locked`, 'a passphrase')
  await copyFile(mine.path, `${root}/open`)
  await chmod(`${root}/open`, 0o644)
  await writeFile(`${root}/text`, 'no key', { mode: 0o600 })
  const bad: [path: string, problem: RegExp][] = [
    [`${root}/none`, /No such file/],
    [locked.path, /has a passphrase/],
    [`${root}/open`, /bad permissions/],
    [`${root}/text`, /invalid format|error in libcrypto/],
    ['mine', /No such file/],
    [root, /./],
  ]
  t.equal(await signingKeyProblem(mine.path), undefined)
  for (const [path, problem] of bad) {
    t.match(await signingKeyProblem(path), problem)
    await t.rejects(make('x', path), { name: 'SigningFailed' }, path)
  }
})

t.test('only commits with a good signature by a trusted key count as signed', async (t) => {
  const { root, dir, mine, other, make } = await setUp(t)
  const byMine = await make('mine', mine.path)
  const byOther = await make('other', other.path)
  const unsigned = await make('unsigned')
  const content = (await userGit(dir, ['cat-file', 'commit', byMine])).replace(/mine$/, 'forged')
  const forged = await userGit(dir, ['hash-object', '-t', 'commit', '-w', '--stdin'], `${content}\n`)
  const pgp = await userGit(
    dir,
    ['hash-object', '-t', 'commit', '-w', '--stdin'],
    content.replaceAll('SSH SIGNATURE', 'PGP SIGNATURE'),
  )
  const missing = 'e'.repeat(40)
  const all = [missing, forged, byMine, unsigned, byOther, pgp, EMPTY_TREE]
  const without = (...good: string[]) => all.filter((sha) => !good.includes(sha))

  t.same(await unsignedCommits(dir, all, { signingKey: mine.path }), without(byMine))
  t.same(await unsignedCommits(dir, all, { allowedSigners: other.signers }), without(byOther))
  const both = { allowedSigners: other.signers, signingKey: mine.path }
  t.same(await unsignedCommits(dir, all, both), without(byMine, byOther))
  t.same(await unsignedCommits(dir, all, {}), all)
  t.same(await unsignedCommits(dir, [], both), [])
  t.same(await unsignedCommits(dir, [byOther, byMine], both), [])

  const line = (await readFile(other.signers, 'utf8')).trim()
  const [who = '', ...key] = line.split(' ')
  await writeFile(`${root}/files`, `# a comment\n\n${who} namespaces="file" ${key.join(' ')}`)
  t.same(
    await unsignedCommits(dir, all, { allowedSigners: `${root}/files` }),
    all,
    'a key for another purpose',
  )

  await t.rejects(unsignedCommits(dir, all, { allowedSigners: `${root}/none` }), { name: 'GitUnavailable' })
  await t.rejects(unsignedCommits(dir, all, { signingKey: `${root}/none` }), { name: 'SigningFailed' })
  await t.rejects(unsignedCommits(dir, ['main'], both), { name: 'InvalidGitArgument' })
  await t.rejects(unsignedCommits(`${dir}x`, [byMine], both), { name: 'RepositoryMissing' })
})
