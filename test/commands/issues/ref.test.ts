import t from 'tap'
import { statusOf } from '../../start-server.ts'
import { startIssues } from './setup.ts'

const { server, alice, bob, repository } = await startIssues(t)

t.test('ref of an issue: set when it is opened, changed and removed, and in its timeline', async (t) => {
  const { events } = await repository('refs')
  const open = (ref?: string) =>
    alice.repos.issueCreateIssue('alice', 'refs', { title: 'One', ...(ref !== undefined && { ref }) })
  const { data: issue } = await open(' release/1.0 ')
  const index = issue.number ?? 0
  t.equal(issue.ref, 'release/1.0')
  t.equal((await server.anonymous.repos.issueGetIssue('alice', 'refs', index)).data.ref, 'release/1.0')
  t.equal((await open()).data.ref, '')
  t.equal((await open('')).data.ref, '', 'clients send it as a default')

  const edit = async (ref: string, by = alice) =>
    (await by.repos.issueEditIssue('alice', 'refs', index, { ref })).data.ref
  t.equal(await edit('refs/heads/main'), 'refs/heads/main')
  t.equal(await edit('refs/heads/main'), 'refs/heads/main')
  t.equal(await edit(''), '')
  const types = (await events(index)).map(({ type }) => type)
  t.same(types, ['IssueOpened', 'IssueRefChanged', 'IssueRefChanged'])
  const { data: timeline } = await alice.repos.issueGetCommentsAndTimeline('alice', 'refs', index)
  t.match(timeline, [
    { type: 'change_issue_ref', old_ref: 'release/1.0', new_ref: 'refs/heads/main' },
    { type: 'change_issue_ref', old_ref: 'refs/heads/main', new_ref: '' },
  ])

  for (const bad of ['a..b', 'a b', '-x', 'x'.repeat(256), 'a\u0000b']) {
    t.equal(await statusOf(open(bad)), 422, JSON.stringify(bad).slice(0, 20))
    t.equal(await statusOf(alice.repos.issueEditIssue('alice', 'refs', index, { ref: bad })), 422)
  }
  t.equal(await statusOf(bob.repos.issueEditIssue('alice', 'refs', index, { ref: 'main' })), 403)
  t.same(
    (await events(index)).map(({ type }) => type),
    types,
    'nothing of that changed anything',
  )
})
