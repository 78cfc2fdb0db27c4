import t from 'tap'
import { decode, schemaOf, UnreadableEvent } from '../../src/events/codec.ts'
import type { RecordedEvent } from '../../src/events/event-store.ts'

/** An event as an older or a newer version of Mergelog may have stored it. */
function stored(type: string, schema: number, data: object): RecordedEvent {
  const at = '2026-01-02T03:04:05.000Z'
  const metadata = { actor: null, at, correlationId: 'c', causationId: 'c', schema }
  return { id: 'e', stream: 'pull-5.1', revision: 0, position: 1, type, data, metadata }
}

t.test('an event of the current schema is read as it is', async (t) => {
  const event = stored('LabelDeleted', 1, { id: 3, scope: { kind: 'repository', repoId: 5 }, name: 'bug' })
  t.equal(decode(event), event)
})

t.test('an upcaster adds what older events lack, and keeps the rest', async (t) => {
  const alice = { id: 1, login: 'alice' }
  const main = { repoId: 5, branch: 'main', sha: 'a' }
  const opened = {
    id: 7,
    poster: alice,
    title: 'a title',
    body: '',
    head: { ...main, branch: 'topic' },
    base: main,
    mergeBase: 'a',
    diff: { additions: 1, deletions: 0, changedFiles: 1 },
    mergeable: true,
  }
  const started = {
    style: 'merge',
    baseBranch: 'main',
    from: 'a',
    head: 'b',
    commit: 'c',
    message: '',
    by: alice,
  }
  const scheduled = { style: 'merge', title: '', message: '', deleteBranch: false, by: alice }
  const merged = { commit: 'c', head: 'b', mergedBy: alice }
  const older = [
    ['PullRequestOpened', opened, { labels: [], milestone: null, assignees: [], deadline: null }],
    ['MergeStarted', started, { mergeBase: null, deleteBranch: false }],
    ['MergeScheduled', scheduled, { expectedHead: null }],
    ['PullRequestMerged', merged, { style: 'merge', mergeBase: null, milestone: null, deleteBranch: false }],
  ] as const
  for (const [type, then, added] of older) {
    const event = decode(stored(type, 1, { repoId: 5, index: 1, ...then }))
    t.strictSame(event.data, { repoId: 5, index: 1, ...then, ...added }, type)
    t.equal(event.metadata.schema, schemaOf[type], `${type} has the current schema`)
  }
})

t.test('a push that was recorded with a commit in each update is read with each commit once', async (t) => {
  const by = { name: 'Alice', email: 'alice@example.org', date: '2026-01-01T00:00:00Z' }
  const commit = { sha: 'a', message: 'm', author: by, committer: by }
  const refs = [
    { ref: 'refs/heads/x', from: null, to: 'a', commit },
    { ref: 'refs/heads/y', from: 'b', to: 'a', commit },
    { ref: 'refs/tags/v1', from: null, to: 'a', commit: null },
  ]
  t.strictSame(decode(stored('RefsUpdated', 1, { repoId: 5, cause: 'push', refs })).data, {
    repoId: 5,
    cause: 'push',
    refs: refs.map(({ ref, from, to }) => ({ ref, from, to })),
    commits: [commit],
  })
})

t.test('an unknown type and a schema of the future are errors that name the event', async (t) => {
  for (const event of [
    stored('LabelPainted', 1, {}),
    stored('constructor', 1, {}),
    stored('LabelDeleted', schemaOf.LabelDeleted + 1, {}),
  ]) {
    t.throws(() => decode(event), UnreadableEvent, event.type)
    t.throws(() => decode(event), { message: new RegExp(`event 1 \\(${event.type} in pull-5\\.1\\)`) })
    const message = /^event 0 of stream pull-5\.1 .* "mergelog verify" says how$/
    const refusal = { refused: 'unavailable', message, lasts: true }
    t.match(refusalOf(event), refusal)
  }
})

t.test(
  'types of known events are checked where they are read: the error names the field and the reason',
  async (t) => {
    const issue = { repoId: 5, index: 1 }
    const label = { id: 3, scope: { kind: 'repository', repoId: 5 }, name: 'bug' }
    const changed = { ...issue, labels: [], added: [], removed: [] }
    const right = [
      stored('LabelDeleted', 1, label),
      stored('LabelDeleted', 1, { ...label, scope: { kind: 'organization', organizationId: 4 } }),
      stored('RepositoryEdited', 1, { repoId: 5, changes: { private: true } }),
      stored('LabelsChanged', 1, { ...changed, added: [{ id: 3, name: 'bug' }] }),
      stored('DeadlineChanged', 1, { ...issue, from: null, to: '2026-01-02T23:59:59Z' }),
    ]
    for (const event of right) t.equal(decode(event), event, event.type)
    const wrong: [event: RecordedEvent, problem: string][] = [
      [stored('LabelDeleted', 1, []), 'data.id is not a whole number'],
      [stored('LabelDeleted', 1, { ...label, id: '3' }), 'data.id is not a whole number'],
      [stored('LabelDeleted', 1, { ...label, scope: 'x' }), 'data.scope is not an object'],
      [stored('LabelDeleted', 1, { ...label, name: null }), 'data.name is not a text'],
      [
        stored('RepositoryEdited', 1, { repoId: 5, changes: { private: 1 } }),
        'data.changes.private is not true or false',
      ],
      [stored('LabelsChanged', 1, { ...changed, added: [{}] }), 'data.added[0].id is not a whole number'],
      [stored('LabelsChanged', 1, { ...changed, added: {} }), 'data.added is not a list'],
      [stored('IssueRead', 1, { ...issue, user: null }), 'data.user is not an object'],
    ]
    for (const [event, problem] of wrong) {
      t.throws(() => decode(event), {
        name: 'UnreadableEvent',
        message: new RegExp(RegExp.escape(problem)),
      })
    }
  },
)

/** Why a client is refused what needs the event. */
function refusalOf(event: Parameters<typeof decode>[0]): unknown {
  try {
    return decode(event)
  } catch (error) {
    return error instanceof UnreadableEvent ? error.refusal : error
  }
}
