import t from 'tap'
import { changesBetween } from '../../../../src/queries/history/replay/changes.ts'

t.test('deeply equal objects have no changes', async (t) => {
  const thing = { a: 1, b: [{ c: null }], d: { e: { f: 'x' } } }
  t.strictSame(changesBetween(thing, structuredClone(thing)), [])
})

t.test('nested fields are named with dots; arrays are given whole', async (t) => {
  const before = { n: 1, list: [1, 2], head: { sha: 'a', repo: { id: 1, name: 'x', tags: [] } } }
  const after = { n: 2, list: [1, 3], head: { sha: 'b', repo: { id: 1, name: 'y', tags: ['z'] } } }
  t.strictSame(changesBetween(before, after), [
    { field: 'n', before: 1, after: 2 },
    { field: 'list', before: [1, 2], after: [1, 3] },
    { field: 'head.sha', before: 'a', after: 'b' },
    { field: 'head.repo.name', before: 'x', after: 'y' },
    { field: 'head.repo.tags', before: [], after: ['z'] },
  ])
})

t.test('an object with another id, and an object in place of null, is given whole', async (t) => {
  const first = { id: 1, title: 'first' }
  const second = { id: 2, title: 'second' }
  t.strictSame(changesBetween({ milestone: first, user: null }, { milestone: second, user: first }), [
    { field: 'milestone', before: first, after: second },
    { field: 'user', before: null, after: first },
  ])
  t.strictSame(changesBetween({ a: [1] }, { a: { 0: 1 }, b: 0 }), [
    { field: 'a', before: [1], after: { 0: 1 } },
    { field: 'b', before: null, after: 0 },
  ])
})
