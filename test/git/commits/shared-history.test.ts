import t from 'tap'
import { refsWithGainedCommits } from '../../../src/git/commits/shared-history.ts'
import { commit, userGit } from '../client.ts'

t.test('refs with a commit that a branch has gained are found, other refs are not', async (t) => {
  const dir = `${t.testdir()}/1.git`
  await userGit('/', ['init', '-q', '--bare', dir])
  const root = await commit(dir, 'root', { f: '0' }, [])
  const first = await commit(dir, 'first', { f: '0', a: '1' }, [root])
  const second = await commit(dir, 'second', { f: '0', a: '2' }, [first])
  const stacked = await commit(dir, 'stacked', { f: '0', a: '2', b: '1' }, [second])
  const partly = await commit(dir, 'partly', { f: '0', a: '1', c: '1' }, [first])
  const other = await commit(dir, 'other', { f: '0', d: '1' }, [root])
  const merge = await commit(dir, 'merge', { f: '0', a: '2' }, [root, second])
  const heads = { 1: second, 2: stacked, 3: partly, 4: other }
  for (const [index, id] of Object.entries(heads)) {
    await userGit(dir, ['update-ref', `refs/pull/${index}/head`, id])
  }
  await userGit(dir, ['update-ref', 'refs/heads/stacked', stacked])
  const sharing = await refsWithGainedCommits(dir, root, merge, 'refs/pull/')
  t.strictSame([...(sharing ?? [])].sort(), ['refs/pull/1/head', 'refs/pull/2/head', 'refs/pull/3/head'])
  t.strictSame(await refsWithGainedCommits(dir, merge, merge, 'refs/pull/'), new Set(), 'nothing gained')
  t.equal(
    await refsWithGainedCommits(dir, merge, root, 'refs/pull/'),
    undefined,
    'a rewritten branch: any ref may have some',
  )
  await t.rejects(refsWithGainedCommits(dir, 'HEAD', merge, 'refs/pull/'), { name: 'InvalidGitArgument' })
  await t.rejects(refsWithGainedCommits(dir, root, merge, '--all'), { name: 'InvalidGitArgument' })
})
