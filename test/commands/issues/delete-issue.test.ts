/** `DELETE /repos/{owner}/{repo}/issues/{index}`: a deleted issue is shown nowhere, and its number is not reused. */
import t from 'tap'
import { addComment } from '../../../src/commands/comments/change.ts'
import { repositories } from '../../../src/commands/execution/aggregates.ts'
import { newContext } from '../../../src/commands/execution/command-context.ts'
import { changeDiscussion } from '../../../src/commands/issues/change-discussion.ts'
import { decideDeleteIssue, wholeIssueDecider } from '../../../src/commands/issues/deletion.decider.ts'
import { decideAddDependency } from '../../../src/commands/issues/discussion.decider.ts'
import { changeReactions } from '../../../src/commands/reactions/change.ts'
import { decideAddReaction } from '../../../src/commands/reactions/reactions.decider.ts'
import { decidePin } from '../../../src/commands/repositories/pins.decider.ts'
import type { CommentEvent } from '../../../src/events/catalog/comments.ts'
import type { IssueEvent } from '../../../src/events/catalog/issues.ts'
import { decode } from '../../../src/events/codec.ts'
import { issueStream } from '../../../src/events/streams.ts'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { deletedIssues } from '../../../src/processes/issues/deleted-issues.ts'
import { contextOf } from '../../../src/processes/process-manager.ts'
import { issueId } from '../../../src/projections/models/issues/issue-selection.ts'
import { READ_MODELS } from '../../../src/projections/views/views.ts'
import { specify } from '../../specification.ts'
import { until } from '../../until.ts'
import { formWith, isStored } from '../attachments/setup.ts'
import { startIssues } from './setup.ts'

const place = { repoId: 1, index: 3 }
const by = { id: 1, login: 'alice' }
const opened: IssueEvent = {
  type: 'IssueOpened',
  data: {
    ...place,
    ...{ id: 30, poster: by, title: 'T', body: '', labels: [], assignees: [], deadline: null },
    milestone: { id: 4, title: 'M' },
  },
}
const said = (commentId: number): CommentEvent => ({
  type: 'CommentAdded',
  data: { ...place, commentId, author: by, body: 'x' },
})
const file = { id: 9, uuid: 'u', name: 'a.txt', size: 1, uploader: by }

t.test('the deletion names its comments and files, and the counters of the issue', async (t) => {
  const { given } = specify(t, wholeIssueDecider)
  const milestone = { id: 4, title: 'M' }
  given(opened)
    .when(decideDeleteIssue)
    .thenEvents({ type: 'IssueDeleted', data: { ...place, closed: false, milestone, files: [] } })
  given(
    opened,
    said(1),
    said(2),
    { type: 'AttachmentAdded', data: { ...place, commentId: 2, attachment: file } },
    { type: 'CommentDeleted', data: { ...place, commentId: 1 } },
    { type: 'IssueFileAdded', data: { ...place, attachment: { ...file, uuid: 'own', createdAt: '' } } },
    { type: 'MilestoneChanged', data: { ...place, from: milestone, to: null, closed: false } },
    {
      type: 'StatusChanged',
      data: { ...place, closed: true, comment: { id: 5, kind: 'close' }, milestone: null },
    },
  )
    .when(decideDeleteIssue)
    .thenEvents(
      { type: 'CommentsDeleted', data: { ...place, comments: [2], files: ['u'] } },
      { type: 'IssueDeleted', data: { ...place, closed: true, milestone: null, files: ['own'] } },
    )
  const many = Array.from({ length: 501 }, (_, i) => i + 1)
  given(opened, ...many.map(said))
    .when(decideDeleteIssue)
    .thenEvents(
      { type: 'CommentsDeleted', data: { ...place, comments: many.slice(0, 500), files: [] } },
      { type: 'CommentsDeleted', data: { ...place, comments: [501], files: [] } },
      { type: 'IssueDeleted', data: { ...place, closed: false, milestone, files: [] } },
    )
  const deleted: IssueEvent = {
    type: 'IssueDeleted',
    data: { ...place, closed: false, milestone, files: [] },
  }
  given(opened, deleted, said(7)).when(decideDeleteIssue).thenRefused('notFound', 'issue not found')
})

const { server, alice, bob, carol, call, repository } = await startIssues(t)
const { services } = server
const { views } = services
const listed = async (path: string): Promise<{ number: number; id: number }[]> =>
  (await call('alice', 'GET', path)).body

t.test('DELETE issue (by admins of the repository, as an event; numbers are not reused)', async (t) => {
  const { open, issues, events, repoId } = await repository('app')
  const index = await open()
  const path = `${issues}/${index}`
  for (const [login, status] of [
    [null, 401],
    ['bob', 403],
    ['carol', 403],
  ] as const) {
    t.equal((await call(login, 'DELETE', path)).status, status, `${login}`)
  }
  t.equal((await call('alice', 'GET', path)).status, 200, 'it is still there')
  t.equal((await call('alice', 'DELETE', path)).status, 204)
  t.match((await events(index)).at(-1), { type: 'IssueDeleted', data: { repoId, index, closed: false } })
  t.equal((await call('alice', 'DELETE', path)).status, 404)
  for (const below of ['', '/comments', '/timeline', '/labels', '/reactions', '/history', '/dependencies']) {
    t.equal((await call('alice', 'GET', `${path}${below}`)).status, 404, below)
  }
  for (const [method, below, body] of [
    ['PATCH', '', { title: 'again' }],
    ['POST', '/comments', { body: 'hello' }],
    ['POST', '/reactions', { content: '+1' }],
    ['PUT', '/lock', { lock_reason: '' }],
    ['PUT', '/subscriptions/alice', undefined],
    ['POST', '/pin', undefined],
  ] as const) {
    t.equal((await call('alice', method, `${path}${below}`, body)).status, 404, `${method} ${below}`)
  }
  t.equal(await open(), index + 1)
  t.equal((await call('alice', 'DELETE', `${issues}/999`)).status, 404)
  t.equal((await call('alice', 'DELETE', `${issues}/x`)).status, 404)
  const { body: history } = await call('bob', 'GET', 'repos/alice/app/history?type=IssueDeleted')
  t.match(history, [{ type: 'IssueDeleted', actor: { login: 'alice' } }], 'the history says who did it')

  await alice.orgs.orgCreate({ username: 'acme' })
  const secret = await repository('secret', { private: true }, 'acme')
  const hidden = await secret.open({}, 'alice')
  t.equal((await call('bob', 'DELETE', `${secret.issues}/${hidden}`)).status, 404, 'nobody learns of it')
  await alice.repos.repoEdit('acme', 'secret', { archived: true })
  t.equal((await call('alice', 'DELETE', `${secret.issues}/${hidden}`)).status, 423)
})

t.test('DELETE issue: a pull request stays (422)', async (t) => {
  await alice.user.createCurrentUserRepo({ name: 'pulls', auto_init: true })
  await alice.repos.repoCreateBranch('alice', 'pulls', { new_branch_name: 'topic' })
  const content = Buffer.from('x').toString('base64')
  await alice.repos.repoCreateFile('alice', 'pulls', 'x', { content, branch: 'topic' })
  const option = { head: 'topic', base: 'main', title: 'P' }
  const { data } = await alice.repos.repoCreatePullRequest('alice', 'pulls', option)
  const { status, body } = await call('alice', 'DELETE', `repos/alice/pulls/issues/${data.number}`)
  t.equal(status, 422)
  t.match(body.message, /^index: #1 is a pull request/)
  t.match((await alice.repos.repoGetPullRequest('alice', 'pulls', 1)).data, { state: 'open' })
})

t.test('a deleted issue is listed nowhere, and nothing counts it', async (t) => {
  const { open, issues, milestone, counts, label, depends, repoId } = await repository('listed')
  const due = await milestone('M')
  const labels = [await label('bug')]
  const target = await open({ title: 'Target' })
  const other = await open({ title: 'Waits' })
  const index = await open({
    ...{ title: 'Zebra', body: `see #${target}, @bob`, milestone: due, labels, assignees: ['carol'] },
  })
  const closed = await open({ title: 'Zebra closed', milestone: due })
  await call('alice', 'PATCH', `${issues}/${closed}`, { state: 'closed' })
  await depends(other, index)
  await call('alice', 'POST', `${issues}/${index}/pin`)
  const { data: comment } = await bob.repos.issueCreateComment('alice', 'listed', index, {
    body: `an okapi, as #${target}`,
  })
  await call('bob', 'POST', `${issues}/comments/${comment.id}/reactions`, { content: '+1' })
  await call('carol', 'POST', `${issues}/${index}/reactions`, { content: 'heart' })
  const attach = async (to: string) => {
    const init = { method: 'POST', body: formWith('text', 'a.txt') }
    return JSON.parse(await (await server.fetch('alice', `/api/v1/${issues}/${to}/assets`, init)).text())
  }
  const files = [await attach(`${index}`), await attach(`comments/${comment.id}`)]
  const timeline = async () => (await listed(`${issues}/${target}/timeline`)).length
  await until('the references are recorded', async () => (await timeline()) === 2)
  const told = async () => (await carol.notifications.notifyGetList({ all: true })).data.length
  t.equal(await told(), 1)
  t.same(await counts(due), [1, 1])

  t.equal((await call('alice', 'PATCH', `${issues}/${other}`, { state: 'closed' })).status, 412)
  t.equal((await call('alice', 'DELETE', `${issues}/${index}`)).status, 204)
  const numbers = async (query: string) => (await listed(`${issues}?${query}`)).map(({ number }) => number)
  t.same(await numbers('state=all'), [closed, other, target])
  t.same(await numbers('state=all&q=okapi'), [])
  t.same(await numbers('state=all&labels=bug'), [])
  t.same(await numbers('state=all&assigned_by=carol'), [])
  t.same(await listed('repos/issues/search?state=all&q=okapi'), [])
  t.same(await listed(`${issues}/comments`), [])
  t.equal((await call('alice', 'GET', `${issues}/comments/${comment.id}`)).status, 404)
  t.same(await counts(due), [0, 1])
  t.match((await alice.repos.repoGet('alice', 'listed')).data, { open_issues_count: 2 })
  t.equal(await told(), 0)
  t.same(await listed(`${issues}/pinned`), [])
  t.same(await listed(`${issues}/${other}/dependencies`), [])
  await until('no reference is left', async () => (await timeline()) === 0)
  for (const { uuid, browser_download_url: url } of files) {
    await until('the file is gone', async () => !(await isStored(server, uuid)))
    t.equal((await server.fetch('alice', new URL(url).pathname)).status, 404)
  }
  await until('nothing depends on it', async () => {
    return (await views.issues.get(issueId(repoId, other)))?.dependencies.length === 0
  })
  t.equal((await call('alice', 'PATCH', `${issues}/${other}`, { state: 'closed' })).status, 201)
  await until('nobody takes part in it, and no reaction is left', async () => {
    const of = { repoId, index }
    return (await views.participations.count(of)) + (await views.reactions.count(of)) === 0
  })
  await until('its pin is free', async () => {
    return (await views.repositories.get(`${repoId}`))?.pins?.issues.length === 0
  })

  t.equal((await call('alice', 'DELETE', `${issues}/${closed}`)).status, 204)
  t.same(await counts(due), [0, 0], 'a closed one, too')
  const { readStore, texts } = services
  const { stored, keys } = texts
  const checked = { events: stored, keys, readStore, models: READ_MODELS, scratchDir: t.testdir() }
  t.match(await verifyServer(checked), { sound: true }, 'replayed from the log, everything is the same')
})

t.test('requests that race with a deletion leave nothing in lists', async (t) => {
  const { open, issues, repoId } = await repository('race')
  const index = await open({ title: 'Doomed' })
  const target = await open({ title: 'Target' })
  const there = await open({ title: 'Stays' })
  t.equal((await call('alice', 'DELETE', `${issues}/${index}`)).status, 204)
  const author = { id: (await bob.user.userGetCurrent()).data.id ?? 0, login: 'bob' }
  const issue = { repoId, index, isPull: false }
  // A request that still saw the issue continues now.
  const late = newContext(author, 'late')
  await addComment(services, late, issue, { commentId: 9001, author, body: `late okapi #${target} @carol` })
  await addComment(services, late, { ...issue, index: there }, { commentId: 9002, author, body: 'okapi' })
  const reacts = (commentId: number | null) =>
    changeReactions(services, late, { ...issue, commentId }, 'react', (state) =>
      decideAddReaction(state, { ...issue, commentId }, author, '+1'),
    )
  await t.rejects(reacts(null), { message: 'issue not found' })
  await t.rejects(reacts(9001), { message: 'issue not found' })
  await repositories.change(services, late, repoId, 'pin', (state) =>
    decidePin(state, { index, isPull: false }),
  )
  await changeDiscussion(services, late, { ...issue, index: there }, 'depend', {
    issue: (discussion) => decideAddDependency(discussion, { repoId, index }, false),
  })
  await until('only the comment of the issue that is there is listed', async () => {
    const comments = await listed(`${issues}/comments`)
    return comments.length === 1 && comments[0]?.id === 9002
  })
  const found = async () => (await listed(`${issues}?state=all&q=okapi`)).map(({ number }) => number)
  t.same(await found(), [there])
  t.same((await carol.notifications.notifyGetList({ all: true, 'status-types': ['unread'] })).data, [])
  t.match((await alice.repos.repoGet('alice', 'race')).data, { open_issues_count: 2 })
  await until('no reference is left', async () => (await listed(`${issues}/${target}/timeline`)).length === 0)
  await until('its pin is free', async () => {
    return (await views.repositories.get(`${repoId}`))?.pins?.issues.length === 0
  })
  await until('nothing depends on it', async () => {
    return (await views.issues.get(issueId(repoId, there)))?.dependencies.length === 0
  })
})

t.test('a comment stays when only a read model has lost its issue: the log decides', async (t) => {
  const { open, issues, repoId } = await repository('lost')
  const index = await open({ title: 'There' })
  const { data } = await bob.repos.issueCreateComment('alice', 'lost', index, { body: 'stays' })
  const lost = { ...views, issues: { ...views.issues, get: () => Promise.resolve(undefined) } }
  const process = deletedIssues({ ...services, views: lost })
  for await (const recorded of services.events.readStream(issueStream(repoId, index))) {
    if (recorded.type !== 'CommentAdded') continue
    const event = decode(recorded)
    t.equal(await process.concerns?.(event), true)
    await process.react(event, contextOf(event))
  }
  await services.projector.waitFor(await services.events.lastPosition(), 30_000)
  t.match(await call('alice', 'GET', `${issues}/comments/${data.id}`), {
    status: 200,
    body: { body: 'stays' },
  })
})

t.test('a deleted issue is not replayed; its texts stay in the history until they are erased', async (t) => {
  const { open, issues, edit } = await repository('past')
  const index = await open({ title: 'Xq7TITLE', body: 'Xq7BODY' })
  await edit(index, { body: 'Xq7MORE' })
  await bob.repos.issueCreateComment('alice', 'past', index, { body: 'Xq7COMMENT' })
  const path = `${issues}/${index}`
  t.equal((await call('alice', 'GET', `${path}/replay?revision=1`)).status, 200)
  t.equal((await call('alice', 'DELETE', path)).status, 204)
  // A moment before the deletion: hidden from all, even from its admin.
  for (const login of ['alice', 'bob', 'admin']) {
    t.equal((await call(login, 'GET', `${path}/replay?revision=1`)).status, 404, login)
    t.equal((await call(login, 'GET', `${path}/replay/diff?from=0&to=1`)).status, 404, login)
  }
  const history = async () => {
    const answer = await server.fetch('alice', '/api/v1/repos/alice/past/history?limit=50')
    return await answer.text()
  }
  t.match(await history(), /Xq7COMMENT/)
  t.equal((await call('bob', 'POST', `${path}/erase`, { all: true })).status, 403)
  t.match(await call('alice', 'POST', `${path}/erase`, { all: true, dry_run: true }), {
    status: 200,
    body: { comments: [], files: [] },
  })
  t.equal((await call('alice', 'POST', `${path}/erase`, { all: true })).status, 204)
  t.notMatch(await history(), /Xq7/)
  t.match(await history(), /IssueDeleted/)
  t.equal((await call('alice', 'GET', path)).status, 404)
  t.equal((await call('alice', 'POST', `${issues}/999/erase`, { all: true })).status, 404)
  t.equal((await call('alice', 'POST', `${issues}/x/erase`, { all: true })).status, 404)
})
