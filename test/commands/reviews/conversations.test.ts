/** Replies to review comments, and resolved conversations. */
import t from 'tap'
import { startPulls } from '../pull-requests/pull-repository.ts'

const { server, alice, repository } = await startPulls(t)

/** A pull request of alice, with a review of bob that has a comment on a line. */
async function reviewed(name: string) {
  const made = await repository(t, name, { writers: ['bob'] })
  await made.branch('topic', { 'a.txt': 'one\ntwo\nthree\n' })
  const index = await made.open('topic')
  const send = async (login: string | null, path: string, body?: object) => {
    const init = body === undefined ? { method: 'POST' } : { method: 'POST', body: JSON.stringify(body) }
    const answer = await server.fetch(login, `/api/v1/repos/alice/${name}/pulls/${path}`, init)
    const text = await answer.text()
    return { status: answer.status, json: text === '' ? null : JSON.parse(text) }
  }
  const review = await send('bob', `${index}/reviews`, {
    event: 'COMMENT',
    comments: [{ path: 'a.txt', body: 'Why two?', new_position: 2 }],
  })
  const id: number = review.json.id
  const comments = async () => (await alice.repos.repoGetPullReviewComments('alice', name, index, id)).data
  const [root] = await comments()
  return { ...made, index, send, id, comments, root: root?.id ?? 0 }
}

t.test('replies to review comments are in the same review, on the same line', async (t) => {
  const { index, send, comments, root, id, typesOf, call } = await reviewed('replies')
  const reply = (login: string | null, body: string, of = `${index}/comments/${root}`) =>
    send(login, `${of}/replies`, { body })
  const made = await reply('carol', 'Because, @dave')
  t.equal(made.status, 201)
  t.match(made.json, {
    body: 'Because, @dave',
    path: 'a.txt',
    position: 2,
    pull_request_review_id: id,
    user: { login: 'carol' },
    resolver: null,
  })
  t.match(await comments(), [
    { id: root, body: 'Why two?' },
    { id: made.json.id, body: 'Because, @dave' },
  ])
  t.match((await call('alice', 'GET', `pulls/${index}/reviews/${id}`)).body, { comments_count: 2 })
  const notified = await server.fetch('bob', '/api/v1/notifications')
  t.match(JSON.parse(await notified.text()), [{ subject: { title: 'topic' } }], 'who takes part hears of it')

  t.equal((await reply(null, 'x')).status, 401)
  t.equal((await reply('carol', ' ')).status, 422)
  t.equal((await reply('carol', 'x', `${index}/comments/999999`)).status, 404)
  t.equal((await reply('carol', 'x', `${index + 1}/comments/${root}`)).status, 404)
  t.equal((await typesOf(index)).filter((type) => type === 'ReviewCommentAdded').length, 2)

  await call('bob', 'DELETE', `pulls/${index}/reviews/${id}`)
  t.equal((await reply('carol', 'x')).status, 404, 'the review is gone')
  t.equal((await reply('carol', 'x', `${index}/comments/${made.json.id}`)).status, 404, 'with its replies')
})

t.test('a comment of a review that is not submitted takes no replies of others', async (t) => {
  const { index, send } = await reviewed('drafts')
  const draft = await send('bob', `${index}/reviews`, {
    body: 'Later',
    comments: [{ path: 'a.txt', body: 'Hidden', new_position: 1 }],
  })
  const path = `/api/v1/repos/alice/drafts/pulls/${index}/reviews/${draft.json.id}/comments`
  const [hidden] = JSON.parse(await (await server.fetch('bob', path)).text())
  t.equal((await send('carol', `${index}/comments/${hidden.id}/replies`, { body: 'x' })).status, 404)
  t.equal((await send('alice', `comments/${hidden.id}/resolve`)).status, 404)
})

t.test('resolving of review comments: by the poster and by writers, and back', async (t) => {
  const { index, send, comments, root, typesOf } = await reviewed('resolving')
  const resolver = async () => (await comments())[0]?.resolver?.login
  t.equal(await resolver(), undefined)
  t.equal((await send(null, `comments/${root}/resolve`)).status, 401)
  t.equal((await send('carol', `comments/${root}/resolve`)).status, 403)
  t.equal((await send('alice', 'comments/999999/resolve')).status, 404)
  t.equal(await resolver(), undefined)

  t.equal((await send('alice', `comments/${root}/resolve`)).status, 204)
  t.equal(await resolver(), 'alice')
  t.equal((await send('bob', `comments/${root}/resolve`)).status, 204, 'it is resolved already')
  t.equal(await resolver(), 'alice')
  t.equal((await send('bob', `comments/${root}/unresolve`)).status, 204)
  t.equal(await resolver(), undefined)
  t.equal((await typesOf(index)).filter((type) => type === 'ReviewCommentResolved').length, 2)
})
