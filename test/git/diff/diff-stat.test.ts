import { rm } from 'node:fs/promises'
import t from 'tap'
import { countDifference } from '../../../src/git/diff/diff-stat.ts'
import { EMPTY_TREE } from '../../../src/git/refs/names.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { commit, userGit } from '../client.ts'

const missing = 'a'.repeat(40)
const stat = (additions: number, deletions: number, changedFiles: number) => ({
  additions,
  deletions,
  changedFiles,
})

t.test('concurrent requests get the same answers as single ones', async (t) => {
  const dir = `${t.testdir()}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  const text = 'one\ntwo\nthree\nfour\nfive\n'
  const a = await commit(dir, 'a', { f: text, g: 'x\n' }, [])
  const added = await commit(dir, 'b', { f: text, g: 'x\n', '=': '=\n=\n' }, [a])
  const renamed = await commit(dir, 'c', { moved: `${text}six\n`, g: 'x\n' }, [a])
  const removed = await commit(dir, 'd', { f: text }, [a])
  const merged = await commit(dir, 'm', { moved: `${text}six\n`, g: 'x\n', '=': '=\n' }, [added, renamed])
  const binary = await commit(dir, 'e', { f: text, g: 'x\n', h: '\0\x01' }, [a])
  const [tree, other] = await Promise.all(
    [a, removed].map((sha) => userGit(dir, ['rev-parse', `${sha}^{tree}`])),
  )
  const pairs: [from: string, to: string, ReturnType<typeof stat> | 'fails'][] = [
    [a, added, stat(2, 0, 1)],
    [added, a, stat(0, 2, 1)],
    [a, renamed, stat(1, 0, 1)],
    [a, removed, stat(0, 1, 1)],
    [a, merged, stat(2, 0, 2)],
    [merged, added, stat(1, 1, 2)],
    [a, binary, stat(0, 0, 1)],
    [a, a, stat(0, 0, 0)],
    [a, missing, 'fails'],
    [missing, a, 'fails'],
    [EMPTY_TREE, a, stat(6, 0, 2)],
    [tree ?? '', other ?? '', stat(0, 1, 1)],
    [other ?? '', tree ?? '', stat(1, 0, 1)],
  ]
  const many = [...pairs, ...pairs, ...pairs]
  const together = await Promise.allSettled(many.map(([from, to]) => countDifference(dir, from, to)))
  for (const [i, [from, to, expected]] of many.entries()) {
    const answer = together[i]
    const what = `${from.slice(0, 7)} to ${to.slice(0, 7)}`
    if (answer?.status === 'fulfilled') t.same(answer.value, expected, what)
    else t.match([answer?.reason, expected], [{ name: 'GitFailed' }, 'fails'], what)
  }
  for (const [from, to, expected] of pairs.slice(0, 6)) t.same(await countDifference(dir, from, to), expected)
})

t.test(
  'after the deletion of the repository, all waiting requests fail, and the next one is answered',
  async (t) => {
    const base = t.testdir()
    const [gone, dir] = [`${base}/1.git`, `${base}/2.git`]
    for (const path of [gone, dir]) await createRepository(path, { defaultBranch: 'main' })
    const [a, b] = [await commit(dir, 'a', { f: '1\n' }, []), await commit(dir, 'b', { f: '2\n' }, [])]
    await rm(gone, { recursive: true })
    const asked = Array.from({ length: 20 }, () => countDifference(gone, a, b))
    for (const answer of await Promise.allSettled(asked)) {
      t.match(answer, { status: 'rejected', reason: { name: 'RepositoryMissing' } })
    }
    t.same(await countDifference(dir, a, b), stat(1, 1, 1))
  },
)
