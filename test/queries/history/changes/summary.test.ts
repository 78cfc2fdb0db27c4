import t from 'tap'
import { differenceOf, summaryOf } from '../../../../src/queries/history/changes/summary.ts'

t.test('a summary leaves out addresses and counters, and names nested resources', async (t) => {
  const pull = {
    number: 1,
    title: 'T',
    url: 'http://x/1',
    html_url: 'http://x/1',
    updated_at: '2026-01-01T00:00:00Z',
    user: { id: 1, login: 'alice' },
    labels: [{ id: 3, name: 'bug', color: 'ff0000' }],
    milestone: { id: 4, title: 'v1', open_issues: 3 },
    base: { ref: 'main', sha: 'a', repo: { id: 7, name: 'r', full_name: 'alice/r', stars_count: 9 } },
    comments: 2,
  }
  t.strictSame(summaryOf(pull), {
    number: 1,
    title: 'T',
    user: 'alice',
    labels: ['bug'],
    milestone: 'v1',
    base: { ref: 'main', sha: 'a', repo: 'alice/r' },
    comments: 2,
  })
  t.strictSame(summaryOf({ name: 'r', stars_count: 1, open_pr_counter: 2, size: 3, permissions: {} }), {
    name: 'r',
  })
})

t.test('a changed resource has the fields that differ', async (t) => {
  const before = { title: 'T', state: 'open', labels: [{ name: 'bug' }], base: { ref: 'main', sha: 'a' } }
  const after = { title: 'T', state: 'closed', labels: [], base: { ref: 'main', sha: 'b' } }
  t.strictSame(differenceOf(before, after), {
    change: 'changed',
    fields: [
      { field: 'state', before: 'open', after: 'closed' },
      { field: 'labels', before: ['bug'], after: [] },
      { field: 'base.sha', before: 'a', after: 'b' },
    ],
  })
  t.strictSame(differenceOf(before, before), { change: 'changed', fields: [] })
})

t.test('a created or deleted resource has its set fields', async (t) => {
  const branch = { name: 'b', sha: 'a', protected: false, message: '' }
  t.strictSame(differenceOf(undefined, branch), {
    change: 'created',
    fields: [
      { field: 'name', before: null, after: 'b' },
      { field: 'sha', before: null, after: 'a' },
    ],
  })
  t.strictSame(differenceOf(branch, undefined).change, 'deleted')
  t.strictSame(differenceOf(undefined, undefined), { change: 'created_and_deleted', fields: [] })
})
