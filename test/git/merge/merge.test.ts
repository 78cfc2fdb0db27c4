import { rm } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { type MergeResult, mergeTrees, mergeTreesAll } from '../../../src/git/merge/merge.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { commit, userGit } from '../client.ts'

async function setUp(t: Test) {
  const dir = `${t.testdir()}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  const text = '1\n2\n3\n4\n5\n6\n7\n8\n'
  const root = await commit(dir, 'root', { f: text, g: 'g\n', 'ü ".txt': '1\n', 'new\nline': '1\n' }, [])
  const commits = {
    root,
    ours: await commit(dir, 'ours', { f: text, g: 'ours\n', 'ü ".txt': '2\n', 'new\nline': '2\n' }, [root]),
    theirs: await commit(dir, 'theirs', { f: text, g: 'g\n', 'ü ".txt': '3\n', 'new\nline': '3\n' }, [root]),
    edited: await commit(dir, 'edited', { f: `0\n${text}`, g: 'g\n', 'ü ".txt': '1\n', 'new\nline': '1\n' }, [
      root,
    ]),
    renamed: await commit(dir, 'renamed', { e: text, g: 'g\n', 'ü ".txt': '1\n', 'new\nline': '1\n' }, [
      root,
    ]),
    removed: await commit(dir, 'removed', { g: 'g\n', 'ü ".txt': '1\n', 'new\nline': '1\n' }, [root]),
    alone: await commit(dir, 'alone', { f: '0\n' }, []),
  }
  return { dir, ...commits, all: Object.values(commits) }
}

async function oneByOne(
  dir: string,
  pairs: readonly { ours: string; theirs: string }[],
): Promise<MergeResult[]> {
  const results: MergeResult[] = []
  for (const { ours, theirs } of pairs) results.push(await mergeTrees(dir, ours, theirs))
  return results
}

t.test(
  'many merges in one call give the results of single merges, in order, also for unrelated commits',
  async (t) => {
    const { dir, all } = await setUp(t)
    const pairs = all.flatMap((ours) => all.map((theirs) => ({ ours, theirs })))
    // These first, because results of pairs are cached.
    const single = await oneByOne(dir, pairs)
    const results = await mergeTreesAll(dir, pairs)
    t.same(results, single)
    t.same(new Set(results.map(({ kind }) => kind)), new Set(['clean', 'conflicts', 'unrelated']))
  },
)

t.test('conflicts in files with unusual names and in renamed files are listed', async (t) => {
  const { dir, ours, theirs, edited, renamed, removed } = await setUp(t)
  const results = await mergeTreesAll(dir, [
    { ours, theirs },
    { ours: edited, theirs: renamed },
    { ours: edited, theirs: removed },
  ])
  t.match(results, [
    { kind: 'conflicts', files: ['new\nline', 'ü ".txt'] },
    { kind: 'clean' },
    { kind: 'conflicts', files: ['f'] },
  ])
  const [, merged] = results
  if (merged?.kind === 'clean') t.match(await userGit(dir, ['show', `${merged.tree}:e`]), /^0\n1\n/)
})

t.test('names of files in conflict that are not UTF-8 keep their bytes', async (t) => {
  const dir = `${t.testdir()}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  const on = (branch: string, from: string, content: string) =>
    [
      `commit refs/heads/${branch}\ncommitter T <t@x> 1700000000 +0000\ndata 2\nx\n${from}`,
      `M 100644 inline caf\xe9\ndata 1\n${content}\nM 100644 inline caf\xe8\ndata 1\n${content}\n\n`,
    ].join('')
  const base = 'from refs/heads/base\n'
  const history = on('base', '', '0') + on('ours', base, '1') + on('theirs', base, '2')
  await userGit(dir, ['fast-import', '--quiet'], Buffer.from(history, 'latin1'))
  const [ours, theirs] = [
    await userGit(dir, ['rev-parse', 'ours']),
    await userGit(dir, ['rev-parse', 'theirs']),
  ]
  const [result] = await mergeTreesAll(dir, [{ ours, theirs }])
  t.same(result, { kind: 'conflicts', files: ['caf\u{10fee8}', 'caf\u{10fee9}'] })
})

t.test('a commit that does not exist affects only its own pair', async (t) => {
  const { dir, root, ours, theirs } = await setUp(t)
  const missing = 'e'.repeat(40)
  const pairs = [
    { ours: missing, theirs: missing },
    { ours: root, theirs: ours },
    { ours, theirs: missing },
    { ours: missing, theirs },
    { ours, theirs },
  ]
  t.match(await mergeTreesAll(dir, pairs), [
    { kind: 'unrelated' },
    { kind: 'clean' },
    { kind: 'unrelated' },
    { kind: 'unrelated' },
    { kind: 'conflicts' },
  ])
  t.same(await mergeTreesAll(dir, []), [])
  await t.rejects(mergeTreesAll(dir, [{ ours: 'main', theirs }]), { name: 'InvalidGitArgument' })
  await t.rejects(mergeTreesAll(`${dir}x`, [{ ours, theirs }]), { name: 'RepositoryMissing' })
})

t.test('hundreds of merges with many files in conflict need one command', async (t) => {
  const { dir } = await setUp(t)
  const files = (content: string) =>
    Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`a file with a long name ${i}`, content]))
  const root = await commit(dir, 'r', files('1'), [])
  const ours = await commit(dir, 'o', files('2'), [root])
  const theirs = await commit(dir, 't', files('3'), [root])
  const results = await mergeTreesAll(
    dir,
    Array.from({ length: 300 }, () => ({ ours, theirs })),
  )
  t.equal(results.length, 300)
  t.ok(results.every((result) => result.kind === 'conflicts' && result.files.length === 40))
})

t.test('the result of a clean merge is cached, as long as the repository has its tree', async (t) => {
  const { dir, ours, edited } = await setUp(t)
  const fileOf = (id: string) => `${dir}/objects/${id.slice(0, 2)}/${id.slice(2)}`
  const [tried] = await mergeTreesAll(dir, [{ ours, theirs: edited }])
  // git itself could not merge them now.
  await rm(fileOf(edited))
  t.match(tried, { kind: 'clean' })
  t.same(await mergeTrees(dir, ours, edited), tried)
  await t.rejects(mergeTrees(dir, edited, ours), { name: 'GitFailed' }, 'another merge')
  if (tried?.kind === 'clean') await rm(fileOf(tried.tree))
  await t.rejects(mergeTrees(dir, ours, edited), { name: 'GitFailed' }, 'the tree is gone')
})

/** Commits of files that one side edits, and the other moves to other names with a change of its own. */
async function moved(dir: string, count: number) {
  const lines = (i: number) => Array.from({ length: 12 }, (_, line) => `${i} ${line * 7919 * (i + 1)}\n`)
  const sides: Record<string, (i: number) => { name: string; content: string[] }> = {
    base: (i) => ({ name: `a/${i}`, content: lines(i) }),
    ours: (i) => ({ name: `a/${i}`, content: ['edited\n', ...lines(i)] }),
    theirs: (i) => ({ name: `b/of-${i}`, content: [...lines(i), 'moved\n'] }),
  }
  const stream = Object.entries(sides).map(([side, file]) => {
    const files = Array.from({ length: count }, (_, i) => {
      const { name, content } = file(i)
      const text = content.join('')
      return `M 100644 inline ${name}\ndata ${text.length}\n${text}\n`
    })
    const from = side === 'base' ? '' : `from refs/heads/base-${count}\n`
    const head = `commit refs/heads/${side}-${count}\ncommitter T <t@x> 1 +0000\ndata 1\nx\n`
    return `${head}${from}deleteall\n${files.join('')}\n`
  })
  await userGit(dir, ['fast-import', '--quiet'], stream.join(''))
  const [ours = '', theirs = ''] = await Promise.all(
    ['ours', 'theirs'].map((side) => userGit(dir, ['rev-parse', `${side}-${count}`])),
  )
  return { ours: ours.trim(), theirs: theirs.trim() }
}

t.test('files that were moved and changed are found, but thousands are not compared pairwise', async (t) => {
  const dir = `${t.testdir()}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  const few = await moved(dir, 3)
  t.match(await mergeTrees(dir, few.ours, few.theirs), { kind: 'clean' })
  const many = await moved(dir, 1001)
  const result = await mergeTrees(dir, many.ours, many.theirs)
  t.equal(result.kind === 'conflicts' && result.files.length, 1001)
})
