import t from 'tap'
import { commitOfTagOrId } from '../../../src/git/commits/revision.ts'
import { gitRefs } from '../../../src/git/refs/ref-source.ts'
import { workTree } from '../../git-client.ts'

t.test('a name of a tag or an id gives a commit', async (t) => {
  const work = await workTree(t)
  const dir = `${work.dir}/.git`
  const first = await work.commit('First', { 'a.txt': 'a\n' })
  await work.git('tag', 'light')
  const second = await work.commit('Second', { 'a.txt': 'b\n' })
  await work.git('tag', '-a', '-m', 'Annotated', 'v/1.0')
  await work.git('tag', first.slice(0, 7))
  await work.git('tag', 'tree', 'HEAD^{tree}')

  await t.test('a tag gives its commit, annotated or not', async (t) => {
    t.equal(await commitOfTagOrId(gitRefs(dir), 'light'), first)
    t.equal(await commitOfTagOrId(gitRefs(dir), 'v/1.0'), second)
  })

  await t.test('an id gives its commit, also abbreviated and in upper case', async (t) => {
    t.equal(await commitOfTagOrId(gitRefs(dir), second), second)
    t.equal(await commitOfTagOrId(gitRefs(dir), second.toUpperCase()), second)
    t.equal(await commitOfTagOrId(gitRefs(dir), second.slice(0, 12)), second)
    t.equal(await commitOfTagOrId(gitRefs(dir), second.slice(0, 6)), undefined, 'too short')
    await work.git('tag', '-f', first.slice(0, 7), second)
    t.equal(await commitOfTagOrId(gitRefs(dir), first.slice(0, 7)), second, 'a tag wins over an id')
  })

  await t.test(
    'an object that is not a commit, an unknown name, or a revision expression gives nothing',
    async (t) => {
      const blob = await work.git('rev-parse', 'HEAD:a.txt')
      const names = [
        ...[blob, blob.slice(0, 10), 'tree', 'nothing', 'a'.repeat(40), '0'.repeat(40), 'a'.repeat(39)],
        ...['', ' ', 'main', 'HEAD', 'light~1', 'light^{commit}', ':/First', '@{-1}', 'light:a.txt'],
        ...['--help', '-n', '../../HEAD', `light\n${second}`, 'light\0', 'refs/tags/light', 'é'.repeat(600)],
      ]
      // git itself would parse these as an id, and as a branch of this name.
      names.push(`v1-1-g${second.slice(0, 10)}`, 'shadow')
      await work.git('update-ref', 'refs/heads/refs/tags/shadow', second)
      for (const name of names)
        t.equal(await commitOfTagOrId(gitRefs(dir), name), undefined, JSON.stringify(name))
    },
  )
})
