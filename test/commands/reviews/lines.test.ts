import t from 'tap'
import { until } from '../../until.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'

const { server, repository } = await startPulls(t)
const numbered = (from: number, to: number, more: Record<number, string> = {}) =>
  Array.from({ length: to - from + 1 }, (_, i) => `${more[from + i] ?? `line ${from + i}`}\n`).join('')

t.test('comments keep their line as the head moves; a line that changes is outdated', async (t) => {
  const { branch, open, call, get } = await repository(t, 'moving', { writers: ['bob'] })
  await branch(
    'main',
    { 'a.txt': numbered(1, 20), 'same.txt': 'x\n', 'odd "é\\.txt': numbered(1, 3) },
    'main',
  )
  const old = await branch('topic', { 'a.txt': numbered(1, 20, { 10: 'ten', 15: 'fifteen' }) }, 'main')
  const index = await open('topic')
  const comment = (path: string, line: object) => ({ path, body: `on ${path}`, ...line })
  const { body: review } = await call('bob', 'POST', `pulls/${index}/reviews`, {
    event: 'COMMENT',
    comments: [
      comment('a.txt', { new_position: 10 }),
      comment('a.txt', { new_position: 15 }),
      comment('a.txt', { old_position: 10 }),
      comment('same.txt', { new_position: 1 }),
      comment('odd "é\\.txt', { new_position: 2 }),
      comment('a.txt', {}),
    ],
  })
  const places = async () => {
    const { body } = await call('alice', 'GET', `pulls/${index}/reviews/${review.id}/comments`)
    return body.map((one: Record<string, unknown>) => [
      one.position,
      one.original_position,
      one.commit_id === old ? 'old' : 'head',
    ])
  }
  t.strictSame(await places(), [
    [10, 0, 'old'],
    [15, 0, 'old'],
    [0, 10, 'old'],
    [1, 0, 'old'],
    [2, 0, 'old'],
    [0, 0, 'old'],
  ])
  const { body: comments } = await call('alice', 'GET', `pulls/${index}/reviews/${review.id}/comments`)
  t.equal(comments[0].diff_hunk, '@@ -8,3 +8,3 @@\n line 8\n line 9\n-line 10\n+ten')
  t.equal(comments[2].diff_hunk, '@@ -7,4 +7,3 @@\n line 7\n line 8\n line 9\n-line 10')
  await branch(
    'topic',
    {
      'a.txt': `new\nnew\n${numbered(1, 20, { 10: 'ten', 15: 'other' })}`,
      'odd "é\\.txt': `new\n${numbered(1, 3)}`,
    },
    (await get(index)).head?.sha,
  )
  t.strictSame(await places(), [
    [12, 0, 'head'],
    [0, 15, 'old'],
    [0, 10, 'old'],
    [1, 0, 'head'],
    [3, 0, 'head'],
    [0, 0, 'head'],
  ])
  const page = await call('alice', 'GET', `pulls/${index}/reviews/${review.id}/comments?page=2&limit=1`)
  t.match(page.body, [{ position: 0, original_position: 15, original_commit_id: old }])
})

t.test('erased texts of reviews are gone everywhere, also of drafts', async (t) => {
  const { branches, open, call } = await repository(t, 'erased', { writers: ['bob'] })
  await branches('topic')
  const index = await open('topic')
  const reviews = `pulls/${index}/reviews`
  const body = (words: string) => ({
    body: `${words} body`,
    comments: [{ path: 'topic', body: `${words} comment`, new_position: 1 }],
  })
  const { body: review } = await call('bob', 'POST', reviews, { event: 'REQUEST_CHANGES', ...body('first') })
  await call('alice', 'POST', `${reviews}/${review.id}/dismissals`, { message: 'first message' })
  const { body: draft } = await call('bob', 'POST', reviews, body('first'))
  t.equal((await call('alice', 'POST', `issues/${index}/erase`, { all: true })).status, 204)
  for (const path of [
    `${reviews}`,
    `${reviews}/${review.id}/comments`,
    `${reviews}/${draft.id}`,
    `${reviews}/${draft.id}/comments`,
    `issues/${index}/timeline`,
    `pulls/${index}/history`,
  ]) {
    const { status, text } = await call('bob', 'GET', path)
    t.equal(status, 200, path)
    t.notMatch(text, /first/, path)
    if (!path.includes('history')) t.match(text, /erased by alice/, path)
  }
  const { body: later } = await call('bob', 'POST', reviews, { event: 'COMMENT', body: 'second body' })
  const { body: comments } = await call('bob', 'GET', `${reviews}/${later.id}/comments`)
  t.match(comments, [{ body: /erased by alice/ }], 'what was drafted before stays erased')
  t.equal((await call('alice', 'POST', `issues/${index}/erase`, { comment: later.id })).status, 204)
  t.match((await call('bob', 'GET', `${reviews}/${later.id}`)).body, { body: /erased by alice/ })
})

t.test('a reviewer who is deleted stays as a ghost, and is asked no more', async (t) => {
  const { branches, open, call, get, writer } = await repository(t, 'ghosts')
  await branches('topic')
  const index = await open('topic')
  await server.as('gone')
  await writer('gone')
  await call('gone', 'POST', `pulls/${index}/reviews`, { event: 'APPROVED' })
  await call('alice', 'POST', `pulls/${index}/requested_reviewers`, { reviewers: ['gone'] })
  t.match((await get(index)).requested_reviewers, [{ login: 'gone' }])
  const search = '/api/v1/repos/issues/search?review_requested=true'
  const found = async (query = '') => (await server.fetch('gone', search + query)).json()
  t.match(await found(), [{ number: index }])
  t.match(await found('&reviewed=true'), [{ number: index }])
  const { status } = await server.fetch('admin', '/api/v1/admin/users/gone', { method: 'DELETE' })
  t.equal(status, 204)
  await until('nobody asks a ghost', async () => (await get(index)).requested_reviewers?.length === 0)
  const { body } = await call('alice', 'GET', `pulls/${index}/reviews`)
  t.match(body, [{ state: 'APPROVED', user: { id: -1 } }])
})
