import t from 'tap'
import { startPulls } from '../pull-requests/pull-repository.ts'

const { server, alice, repository } = await startPulls(t)

t.test('a review with comments on lines is made and read as Gitea shows it', async (t) => {
  const { branch, open, call, typesOf } = await repository(t, 'reviewed', { writers: ['bob'] })
  await branch('topic', { 'a.txt': 'one\ntwo\nthree\n' })
  const index = await open('topic')
  const { data: pull } = await alice.repos.repoGetPullRequest('alice', 'reviewed', index)
  const bob = await server.as('bob')
  const { data: review } = await bob.repos.repoCreatePullReview('alice', 'reviewed', index, {
    event: 'REQUEST_CHANGES',
    body: 'Not yet',
    comments: [
      { path: 'a.txt', body: 'Why two?', new_position: 2 },
      { path: 'other.txt', body: 'Not in the difference', new_position: 7 },
    ],
  })
  t.match(review, {
    state: 'REQUEST_CHANGES',
    body: 'Not yet',
    commit_id: pull.head?.sha,
    official: true,
    stale: false,
    dismissed: false,
    comments_count: 2,
    user: { login: 'bob' },
    html_url: `${server.url}/alice/reviewed/pulls/${index}#issuecomment-${review.id}`,
    pull_request_url: `${server.url}/alice/reviewed/pulls/${index}`,
  })
  const id = review.id ?? 0
  t.strictSame((await alice.repos.repoGetPullReview('alice', 'reviewed', index, id)).data, review)
  t.strictSame((await server.anonymous.repos.repoListPullReviews('alice', 'reviewed', index)).data, [review])
  const { data: comments } = await alice.repos.repoGetPullReviewComments('alice', 'reviewed', index, id)
  t.match(comments, [
    {
      path: 'a.txt',
      body: 'Why two?',
      position: 2,
      original_position: 0,
      commit_id: pull.head?.sha,
      original_commit_id: pull.head?.sha,
      diff_hunk: '@@ -0,0 +1,2 @@\n+one\n+two',
      pull_request_review_id: id,
      user: { login: 'bob' },
    },
    { path: 'other.txt', position: 7, diff_hunk: '' },
  ])
  t.strictSame(
    (await typesOf(index)).filter((type) => type.startsWith('Review')),
    ['ReviewSubmitted', 'ReviewCommentAdded', 'ReviewCommentAdded'],
  )
  t.equal((await call('alice', 'GET', `pulls/${index}/reviews/${id + 1000}`)).status, 404)
  t.equal((await call('alice', 'DELETE', `pulls/${index}/reviews/${id}`)).status, 403, "it is not alice's")
  t.equal((await call('bob', 'DELETE', `pulls/${index}/reviews/${id}`)).status, 204)
  t.equal((await call('alice', 'GET', `pulls/${index}/reviews/${id}`)).status, 404)
  t.strictSame((await alice.repos.repoListPullReviews('alice', 'reviewed', index)).data, [])
})

t.test('a locked pull request takes reviews of writers only (403), drafts too', async (t) => {
  const { branches, open, call, typesOf } = await repository(t, 'locked', { writers: ['bob'] })
  await branches('topic')
  const index = await open('topic')
  const reviews = `pulls/${index}/reviews`
  const body = { event: 'COMMENT', body: 'Hm' }
  await server.as('dora')
  const { status, body: draft } = await call('dora', 'POST', reviews, { body: 'A draft' })
  t.equal(status, 200)
  t.equal((await call('alice', 'PUT', `issues/${index}/lock`, {})).status, 204)
  const before = await typesOf(index)
  t.equal((await call('dora', 'POST', reviews, body)).status, 403)
  t.equal((await call('dora', 'POST', `${reviews}/${draft.id}`, body)).status, 403)
  t.strictSame(await typesOf(index), before, 'nothing is changed')
  t.equal((await call('bob', 'POST', reviews, body)).status, 200)
})

t.test('an invalid review is refused with the field, and changes nothing', async (t) => {
  const { branches, open, call, typesOf, close, tip } = await repository(t, 'refused', { writers: ['bob'] })
  await branches('topic')
  const index = await open('topic')
  const send = (login: string | null, body: object) => call(login, 'POST', `pulls/${index}/reviews`, body)
  for (const [login, body, message] of [
    ['alice', { event: 'APPROVED' }, /^event: .* approve your own/],
    ['alice', { event: 'REQUEST_CHANGES', body: 'No' }, /^event: .* reject your own/],
    ['bob', { event: 'APPROVE' }, /^event: must be one of/],
    ['bob', { event: 'constructor', body: 'b' }, /^event: must be one of/],
    ['bob', { event: 'REQUEST_CHANGES' }, /^body: .* requires a body/],
    ['bob', { event: 'COMMENT' }, /^body: .* requires a body or a comment/],
    ['bob', { body: ' ' }, /^body: /],
    ['bob', { event: 'APPROVED', commit_id: 'f'.repeat(40) }, /^commit_id: /],
    ['bob', { event: 'APPROVED', commit_id: 'main' }, /^commit_id: /],
    ['bob', { event: 'COMMENT', comments: [{ path: '../a', body: 'x' }] }, /^comments\[0\]\.path/],
    ['bob', { event: 'COMMENT', comments: [{ path: 'a', body: '' }] }, /^comments\[0\]\.body/],
    ['bob', { event: 'COMMENT', comments: [{ path: 'a', body: 'x', new_position: -1 }] }, /new_position/],
    ['bob', { event: 'COMMENT', comments: Array(101).fill({ path: 'a', body: 'x' }) }, /comments/],
  ] as const) {
    t.match(await send(login, body), { status: 422, message }, JSON.stringify(body).slice(0, 80))
  }
  t.equal((await send(null, { event: 'APPROVED' })).status, 401)
  t.notOk((await typesOf(index)).some((type) => type.startsWith('Review')))
  t.equal((await send('bob', { event: 'APPROVED', commit_id: await tip('topic') })).status, 200)
  await close(index)
  t.match(await send('bob', { event: 'APPROVED' }), { status: 422, message: /closed/ })
  t.equal((await send('bob', { event: 'COMMENT', body: 'Later' })).status, 200, 'but it is talked about')
})

t.test('a draft is for its reviewer and site admins until it is submitted', async (t) => {
  const { branches, open, call } = await repository(t, 'drafts', { writers: ['bob'] })
  await branches('topic')
  const index = await open('topic')
  const reviews = `pulls/${index}/reviews`
  const comment = (body: string) => [{ path: 'topic', body, new_position: 1 }]
  const { body: draft } = await call('bob', 'POST', reviews, {
    body: 'secret draft',
    comments: comment('one'),
  })
  t.match(draft, { state: 'PENDING', official: false, comments_count: 1 })
  const again = await call('bob', 'POST', reviews, {
    event: 'PENDING',
    body: 'second draft',
    comments: comment('two'),
  })
  t.match(again.body, { id: draft.id, body: 'second draft', comments_count: 2 })
  for (const login of ['alice', 'carol', null]) {
    t.equal((await call(login, 'GET', `${reviews}/${draft.id}`)).status, 404)
    t.equal((await call(login, 'GET', `${reviews}/${draft.id}/comments`)).status, 404)
    t.strictSame((await call(login, 'GET', reviews)).body, [])
  }
  t.equal((await call('admin', 'GET', reviews)).body.length, 1)
  const history = await call('alice', 'GET', `pulls/${index}/history`)
  t.notMatch(history.text, /draft"|"one"|"two"/, 'nor in the history')
  t.match(history.text, /ReviewDrafted/)
  t.equal((await call('alice', 'POST', `${reviews}/${draft.id}`, { event: 'APPROVED' })).status, 404)
  t.equal(
    (await call('bob', 'POST', `${reviews}/${draft.id}`, { body: 'x' })).status,
    422,
    'it would stay one',
  )
  const submitted = await call('bob', 'POST', `${reviews}/${draft.id}`, { event: 'APPROVED', body: 'Good' })
  t.match(submitted, { status: 200, body: { id: draft.id, state: 'APPROVED', official: true, body: 'Good' } })
  const comments = await call('carol', 'GET', `${reviews}/${draft.id}/comments`)
  t.match(
    comments.body.map(({ body }: { body: string }) => body),
    ['one', 'two'],
  )
  t.equal((await call('bob', 'POST', `${reviews}/${draft.id}`, { event: 'COMMENT', body: 'x' })).status, 422)
  const other = await call('bob', 'POST', reviews, { body: 'Third' })
  t.equal((await call('bob', 'DELETE', `${reviews}/${other.body.id}`)).status, 204)
  t.equal((await call('bob', 'GET', `${reviews}/${other.body.id}`)).status, 404)
})

t.test('a search finds the words of submitted reviews and of their comments, and of no draft', async (t) => {
  const { branches, open, call } = await repository(t, 'searched', { writers: ['bob'] })
  await branches('topic')
  const index = await open('topic')
  const found = async (q: string) =>
    (await call('alice', 'GET', `issues?type=pulls&q=${encodeURIComponent(q)}`)).body.length
  const comments = [{ path: 'topic', body: 'Mind the İstanbul office', new_position: 1 }]
  const { body: draft } = await call('bob', 'POST', `pulls/${index}/reviews`, { body: 'Zebra', comments })
  t.same([await found('zebra'), await found('istanbul')], [0, 0])
  await call('bob', 'POST', `pulls/${index}/reviews/${draft.id}`, {
    event: 'COMMENT',
    body: 'Zebra crossing',
  })
  t.same([await found('zebra'), await found('istanbul zebra')], [1, 1])
  t.equal((await call('bob', 'DELETE', `pulls/${index}/reviews/${draft.id}`)).status, 204)
  t.same([await found('zebra'), await found('istanbul')], [0, 0])
})

t.test('a request with an Idempotency-Key makes one review', async (t) => {
  const { branches, open, call } = await repository(t, 'repeated')
  await branches('topic')
  const index = await open('topic')
  const body = {
    event: 'COMMENT',
    body: 'Once',
    comments: [{ path: 'topic', body: 'Here', new_position: 1 }],
  }
  const send = () => call('bob', 'POST', `pulls/${index}/reviews`, body, { 'idempotency-key': 'k1' })
  const [first, second] = [await send(), await send()]
  t.equal(first.status, 200)
  t.strictSame(second.body, first.body)
  t.equal((await call('bob', 'GET', `pulls/${index}/reviews`)).body.length, 1)
})

t.test('verdicts are dismissed by admins, and a new one takes the place of the old', async (t) => {
  const { branches, open, call, close } = await repository(t, 'dismissed', { writers: ['bob', 'carol'] })
  await branches('topic')
  const index = await open('topic')
  const reviews = `pulls/${index}/reviews`
  const review = async (event: string) => (await call('bob', 'POST', reviews, { event, body: 'x' })).body
  const first = await review('REQUEST_CHANGES')
  const comment = await review('COMMENT')
  const second = await review('APPROVED')
  t.match((await call('alice', 'GET', `${reviews}/${first.id}`)).body, { official: false, dismissed: true })
  t.equal((await call('carol', 'POST', `${reviews}/${second.id}/dismissals`, {})).status, 403)
  t.equal((await call('alice', 'POST', `${reviews}/${comment.id}/dismissals`, {})).status, 403)
  const dismiss = () => call('alice', 'POST', `${reviews}/${second.id}/dismissals`, { message: 'Old' })
  t.match(await dismiss(), { status: 200, body: { dismissed: true, official: true } })
  t.match(await dismiss(), { status: 200, body: { dismissed: true } }, 'once is enough')
  t.match((await call('alice', 'POST', `${reviews}/${second.id}/undismissals`)).body, { dismissed: false })
  await close(index)
  t.equal((await dismiss()).status, 403)
})

t.test('users are requested as reviewers until they answer', async (t) => {
  const { branches, open, call, get } = await repository(t, 'asked', { writers: ['bob'] })
  await branches('topic')
  const index = await open('topic')
  const path = `pulls/${index}/requested_reviewers`
  const asked = async () => ((await get(index)).requested_reviewers ?? []).map(({ login }) => login)
  for (const [body, status, message] of [
    [{ reviewers: ['nobody-here'] }, 404, /user not found/],
    [{ reviewers: ['alice'] }, 422, /alice has opened/],
    [{ team_reviewers: ['x'] }, 422, /team_reviewers/],
  ] as const) {
    t.match(await call('alice', 'POST', path, body), { status, message })
  }
  t.equal((await call('carol', 'POST', path, { reviewers: ['bob'] })).status, 403, 'nor by anyone')
  const made = await call('alice', 'POST', path, { reviewers: ['bob', 'carol', 'Bob'] })
  t.match(made, {
    status: 201,
    body: [
      { state: 'REQUEST_REVIEW', user: { login: 'bob' }, official: true, body: '' },
      { state: 'REQUEST_REVIEW', user: { login: 'carol' }, official: false },
    ],
  })
  t.strictSame((await call('alice', 'POST', path, { reviewers: ['bob'] })).body, [], 'bob is asked already')
  t.strictSame(await asked(), ['bob', 'carol'])
  t.equal((await call('carol', 'DELETE', path, { reviewers: ['bob'] })).status, 403)
  t.equal(
    (await call('carol', 'DELETE', path, { reviewers: ['carol'] })).status,
    204,
    'carol takes back her own',
  )
  await call('bob', 'POST', `pulls/${index}/reviews`, { event: 'APPROVED' })
  t.strictSame(await asked(), [])
  const { body: timeline } = await call('alice', 'GET', `issues/${index}/timeline`)
  t.match(
    timeline.filter(({ type }: { type: string }) => type.startsWith('review')),
    [
      {
        type: 'review_request',
        assignee: { login: 'bob' },
        removed_assignee: false,
        user: { login: 'alice' },
      },
      { type: 'review_request', assignee: { login: 'carol' } },
      { type: 'review_request', assignee: { login: 'carol' }, removed_assignee: true },
      { type: 'review', user: { login: 'bob' }, review_id: Number },
    ],
  )
  const logins = async (list: string) =>
    (await call('alice', 'GET', list)).body.map(({ login }: { login: string }) => login)
  t.strictSame(await logins('reviewers'), ['alice', 'bob'])
  t.strictSame(await logins('assignees'), ['alice', 'bob'])
})

t.test('a user who has deleted all of their reviews does not count as a reviewer', async (t) => {
  const { branches, open, call } = await repository(t, 'unreviewed')
  await branches('topic')
  const reviews = `pulls/${await open('topic')}/reviews`
  const comment = async (login: string) =>
    (await call(login, 'POST', reviews, { event: 'COMMENT', body: 'Hm' })).body.id
  const found = async (login: string) => {
    const answer = await server.fetch(login, '/api/v1/repos/issues/search?reviewed=true&owner=alice')
    return JSON.parse(await answer.text()).filter(
      ({ repository }: { repository: { name: string } }) => repository.name === 'unreviewed',
    ).length
  }
  const ids = [await comment('bob'), await comment('bob'), await comment('carol')]
  t.equal((await call('bob', 'DELETE', `${reviews}/${ids[0]}`)).status, 204)
  t.same([await found('bob'), await found('carol')], [1, 1])
  t.equal((await call('bob', 'DELETE', `${reviews}/${ids[1]}`)).status, 204)
  t.same([await found('bob'), await found('carol')], [0, 1])
})
