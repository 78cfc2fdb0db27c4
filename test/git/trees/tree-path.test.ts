import t from 'tap'
import { newPathProblem, partsOf, withoutSlashes } from '../../../src/git/trees/tree-path.ts'

t.test('slashes at both ends of a path are ignored', async (t) => {
  for (const path of ['', '/', '//////']) t.equal(withoutSlashes(path), '')
  for (const path of ['a/b', '/a/b', 'a/b/', '///a/b//']) t.equal(withoutSlashes(path), 'a/b')
  t.same(partsOf('//a/b/'), ['a', 'b'])
  t.same(partsOf('//'), [])
  t.equal(partsOf('a//b'), undefined)
})

// A search that restarts at each of them takes hours, and blocks the event loop.
t.test('a path of millions of slashes, dots or blanks does not block the loop', async (t) => {
  for (const character of ['/', '.', ' ']) {
    const path = `a${character.repeat(4_000_000)}a`
    t.equal(partsOf(path), undefined)
    t.equal(withoutSlashes(path), path)
    t.type(newPathProblem(path), 'string')
  }
  t.equal(partsOf(`${'/'.repeat(4_000_000)}a`)?.length, 1)
})
