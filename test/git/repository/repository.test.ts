import { mkdir, readdir, writeFile } from 'node:fs/promises'
import t from 'tap'
import { createFirstCommit } from '../../../src/git/commits/new-commit.ts'
import {
  createRepository,
  deleteRepository,
  setDefaultBranch,
  sweepRepositories,
} from '../../../src/git/repository/repository.ts'
import { userGit } from '../client.ts'

const ann = { name: 'Ann', email: 'ann@example.org', date: '2024-05-01T10:00:00+02:00' }

t.test('a repository is created once, bare, with its default branch, without leftovers', async (t) => {
  const parent = t.testdir()
  t.equal(await createRepository(`${parent}/1.git`, { defaultBranch: 'trunk' }), 'created')
  t.equal(await userGit(`${parent}/1.git`, ['symbolic-ref', 'HEAD']), 'refs/heads/trunk')
  t.equal(await userGit(`${parent}/1.git`, ['rev-parse', '--is-bare-repository']), 'true')
  t.same(await readdir(parent), ['1.git'])

  const { sha } = await createFirstCommit(`${parent}/1.git`, {
    branch: 'trunk',
    files: new Map([['README.md', '# x\n']]),
    message: 'first',
    author: ann,
    committer: ann,
  })
  t.equal(await createRepository(`${parent}/1.git`, { defaultBranch: 'main' }), 'exists')
  t.equal(await userGit(`${parent}/1.git`, ['rev-parse', 'trunk']), sha, 'the existing repository stays')
  t.same(await readdir(parent), ['1.git'])
})

t.test('when many callers create the same repository, exactly one succeeds', async (t) => {
  const parent = t.testdir()
  const made = await Promise.all(
    Array.from({ length: 5 }, () => createRepository(`${parent}/1.git`, { defaultBranch: 'main' })),
  )
  t.same(made.sort(), ['created', 'exists', 'exists', 'exists', 'exists'])
  t.same(await readdir(parent), ['1.git'])
})

t.test('an invalid default branch creates no repository', async (t) => {
  const parent = t.testdir()
  for (const defaultBranch of ['-x', 'a..b', '', '--bare']) {
    await t.rejects(createRepository(`${parent}/1.git`, { defaultBranch }), { name: 'InvalidGitArgument' })
  }
  t.same(await readdir(parent), [])
})

t.test('a deleted repository is gone immediately, and deleting it again does nothing', async (t) => {
  const parent = t.testdir()
  await createRepository(`${parent}/1.git`, { defaultBranch: 'main' })
  await deleteRepository(`${parent}/1.git`)
  t.same(await readdir(parent), [])
  await deleteRepository(`${parent}/1.git`)
  t.equal(await createRepository(`${parent}/1.git`, { defaultBranch: 'main' }), 'created')
})

t.test('leftovers of interrupted creations and deletions are removed, and no other files', async (t) => {
  const parent = t.testdir()
  const id = '0b9a1f3e-53f5-4f7d-b3c7-0f2ae1a4f2c1'
  for (const name of [`1.git.new-${id}`, `2.git.gone-${id}`, '3.git']) {
    await mkdir(`${parent}/${name}/objects`, { recursive: true })
    await writeFile(`${parent}/${name}/HEAD`, 'ref: refs/heads/main\n')
  }
  await sweepRepositories(parent)
  t.same(await readdir(parent), ['3.git'])
})

t.test('a repository in creation stays while other leftovers are removed', async (t) => {
  const parent = t.testdir()
  const dir = `${parent}/1.git`
  const fill = () => sweepRepositories(parent)
  t.equal(await createRepository(dir, { defaultBranch: 'main' }, fill), 'created')
  t.same(await readdir(parent), ['1.git'])
})

t.test('a clone checks out the configured default branch', async (t) => {
  const parent = t.testdir()
  const dir = `${parent}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  for (const branch of ['main', 'next']) {
    const files = new Map([['README.md', branch]])
    await createFirstCommit(dir, { branch, files, message: branch, author: ann, committer: ann })
  }
  await setDefaultBranch(dir, 'next')
  await userGit('/', ['clone', '-q', dir, `${parent}/work`])
  t.equal(await userGit(`${parent}/work`, ['branch', '--show-current']), 'next')
  await t.rejects(setDefaultBranch(dir, '../HEAD'), { name: 'InvalidGitArgument' })
})
