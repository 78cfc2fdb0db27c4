import t from 'tap'
import { pullStream } from '../../../src/events/streams.ts'
import { until } from '../../until.ts'
import { startPulls } from './pull-repository.ts'

const { server, alice, bob, repository } = await startPulls(t)
const DELETE = { delete_branch_after_merge: true }

t.test('merge.8: the head branch is deleted, and a comment records that', async (t) => {
  for (const Do of ['merge', 'squash', 'fast-forward-only']) {
    const { branch, open, merge, tip, get, eventsOf } = await repository(t, `deleted-${Do}`)
    const head = await branch('topic', { a: 'a' })
    const index = await open('topic')
    t.equal((await merge(index, { Do, ...DELETE })).status, 200)
    t.equal(await tip('topic'), undefined)
    t.match(await get(index), { merged: true, head: { ref: 'topic', sha: head } })
    const { data: branches } = await alice.repos.repoListBranches('alice', `deleted-${Do}`)
    t.strictSame(
      branches.map(({ name }) => name),
      ['main'],
      'at once',
    )
    const comments = (await eventsOf(index)).filter(({ type }) => type === 'HeadBranchDeleted')
    t.match(comments, [{ data: { index, commentId: Number, branch: { branch: 'topic', sha: head } } }])
    t.equal(comments.length, 1)
  }
})

t.test('merge.8: it is kept without a request to delete it, and after a failed merge', async (t) => {
  const { branch, open, merge, tip } = await repository(t, 'stays')
  await branch('a', { x: 'a' })
  const b = await branch('b', { x: 'b' })
  const [first, second] = [await open('a'), await open('b')]
  t.equal((await merge(first, { delete_branch_after_merge: false })).status, 200)
  t.ok(await tip('a'))
  t.equal((await merge(second, DELETE)).status, 409)
  t.equal(await tip('b'), b)
})

t.test('merge.8: it is kept while another open pull request uses it as its head', async (t) => {
  const { branches, open, merge, tip, typesOf, close } = await repository(t, 'shared')
  const head = await branches('one', 'two', 'topic')
  const [index, closed, last] = [
    await open('topic'),
    await open('topic', { base: 'one' }),
    await open('topic', { base: 'two' }),
  ]
  await close(closed)
  t.equal((await merge(index, DELETE)).status, 200)
  t.equal(await tip('topic'), head, 'an open one')
  t.equal((await merge(last, DELETE)).status, 200)
  t.equal(await tip('topic'), undefined, 'a closed one does not keep it')
  t.notOk((await typesOf(index)).includes('HeadBranchDeleted'))
})

t.test('merge.8: the last of several merges from one head branch deletes it', async (t) => {
  const { branches, open, merge, tip } = await repository(t, 'at-once')
  const bases = ['one', 'two', 'three', 'four']
  await branches(...bases, 'topic')
  const numbers: number[] = []
  for (const base of bases) numbers.push(await open('topic', { base }))
  const answers = await Promise.all(numbers.map((index) => merge(index, DELETE)))
  t.strictSame(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  t.equal(await tip('topic'), undefined)
})

t.test('merge.8: a missing branch gives 404 after the merge', async (t) => {
  const settings = { allow_manual_merge: true }
  const { branch, open, merge, get, work, reopen } = await repository(t, 'missing', settings)
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  await work.git('push', '-q', 'origin', ':topic')
  await reopen(index)
  const manual = { Do: 'manually-merged', MergeCommitID: await work.git('rev-parse', 'main'), ...DELETE }
  t.match(await merge(index, manual), { status: 404, message: /head branch does not exist/ })
  t.match(await get(index), { merged: true })
})

t.test(
  'merge.8: the default branch and protected branches are kept: 403, but the merge is done',
  async (t) => {
    const { branch, open, merge, get, tip, protect, eventsOf } = await repository(t, 'kept')
    await branch('other', { o: 'o' })
    const main = await branch('main', { m: 'm' })
    const topic = await branch('release/1', { a: 'a' })
    const fromMain = await open('main', { base: 'other' })
    const fromRelease = await open('release/1')
    await protect('release/*', {})
    t.match(await merge(fromMain, DELETE), { status: 403, message: /default branch/ })
    t.match((await eventsOf(fromMain)).at(-1), { type: 'HeadBranchKept', data: { reason: /default branch/ } })
    t.equal(await tip('main'), main)
    t.match(await get(fromMain), { merged: true })
    t.match(await merge(fromRelease, DELETE), { status: 403, message: /protected/ })
    t.equal(await tip('release/1'), topic)
    t.match(await get(fromRelease), { merged: true })
  },
)

t.test("merge.8: a fork's head branch is deleted when the merger may write there", async (t) => {
  const { merge, name, open, fork: forkAs } = await repository(t, 'forked')
  const fork = await forkAs('bob')
  await fork.branches('trusted')
  const trusted = await open('bob:trusted', {}, 'bob')
  await bob.repos.repoAddCollaborator('bob', name, 'alice', { permission: 'write' })
  t.equal((await merge(trusted, DELETE)).status, 200)
  t.notMatch(await fork.work.git('ls-remote', '--heads', 'origin'), 'refs/heads/trusted')
})

t.test(
  'merge.8: delete_branch_after_merge on a fork where the merger may not delete: merged, 200, the branch stays and the history says so',
  async (t) => {
    const { merge, get, open, fork: forkAs, eventsOf, call, repoId } = await repository(t, 'strange')
    const fork = await forkAs('bob')
    await fork.branches('strange')
    const index = await open('bob:strange', {}, 'bob')
    t.match(await merge(index, DELETE), { status: 200, text: '' })
    t.match(await get(index), { merged: true, state: 'closed' })
    t.match(await fork.work.git('ls-remote', '--heads', 'origin'), 'refs/heads/strange')
    const kept = async () => (await eventsOf(index)).filter(({ type }) => type === 'HeadBranchKept')
    t.match(await kept(), [
      { data: { repoId, index, branch: { branch: 'strange' }, reason: /may not write/ } },
    ])
    const { body: history } = await call('alice', 'GET', `pulls/${index}/history`)
    t.match(JSON.stringify(history), /HeadBranchKept/)
    const merged = (await eventsOf(index)).find(({ type }) => type === 'PullRequestMerged')?.position ?? 0
    const seen = async () =>
      (await server.services.readStore.checkpoint('process_head_branches'))?.position ?? 0
    await until('the process has looked at it', async () => (await seen()) >= merged)
    t.equal((await kept()).length, 1)
  },
)

t.test("the repository's default deletes the head branch, and keeping it is not an error", async (t) => {
  const settings = { default_delete_branch_after_merge: true }
  const { branches, open, merge, tip, protect } = await repository(t, 'default', settings)
  await branches('goes', 'stays', 'release')
  const [goes, stays, release] = [await open('goes'), await open('stays'), await open('release')]
  await protect('release', {})
  t.equal((await merge(goes)).status, 200)
  t.equal(await tip('goes'), undefined)
  t.equal((await merge(stays, { delete_branch_after_merge: false })).status, 200, 'a request knows better')
  t.ok(await tip('stays'))
  t.equal((await merge(release)).status, 200, 'nobody asked for it')
  t.ok(await tip('release'))
})

t.test('a head branch that is pushed to while it is merged is not deleted', async (t) => {
  const { branch, open, merge, tip, work, get, repoId, typesOf, eventsOf } = await repository(t, 'pushed')
  const head = await branch('topic', { a: 'a' })
  const more = await branch('more', { b: 'b' }, 'topic')
  const index = await open('topic')
  const store = server.services.events
  const { append } = store
  store.append = async (stream, recorded, expected) => {
    const appended = await append.call(store, stream, recorded, expected)
    if (stream === pullStream(repoId, index) && recorded.some(({ type }) => type === 'MergeStarted')) {
      store.append = append
      // Through the server, as any push: the log records it before the outcome of the merge.
      await work.git('push', '-q', 'origin', 'more:topic')
    }
    return appended
  }
  t.match(await merge(index, DELETE), { status: 200, text: '' })
  t.match((await eventsOf(index)).at(-1), { type: 'HeadBranchKept', data: { reason: /pushed to after/ } })
  const types = await typesOf(index)
  t.ok(types.indexOf('PullRequestHeadMoved') < types.indexOf('PullRequestMerged'))
  // The process handles it again, and must not delete it either.
  const merged = (await eventsOf(index)).find(({ type }) => type === 'PullRequestMerged')?.position ?? 0
  const seen = async () =>
    (await server.services.readStore.checkpoint('process_head_branches'))?.position ?? 0
  await until('the process has seen it', async () => (await seen()) >= merged)
  t.equal(await tip('topic'), more)
  t.match(await get(index), { merged: true, head: { sha: head } })
  const { data: commits } = await alice.repos.repoGetPullRequestCommits('alice', 'pushed', index)
  t.strictSame(
    commits.map(({ sha }) => sha),
    [head],
    'it shows what was merged',
  )
})
