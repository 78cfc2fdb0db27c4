import t from 'tap'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { pullStream, readsStream } from '../../../src/events/streams.ts'
import type { Gitea } from '../../start-server.ts'
import { until } from '../../until.ts'
import { eventsIn, startPulls } from './pull-repository.ts'

const { server, alice, bob, carol, repository } = await startPulls(t)

async function readsOf(reader: Gitea): Promise<unknown[]> {
  const { id = 0 } = (await reader.user.userGetCurrent()).data
  return (await eventsIn(server, readsStream(id))).map(({ data }) => data)
}

t.test('merge.1: a merge, even a failed one, marks the pull request as read', async (t) => {
  const { branch, open, merge, repoId } = await repository(t, 'reads')
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  t.equal((await merge(index, {}, 'carol')).status, 405)
  t.match(await readsOf(carol), [{ repoId, index, user: { login: 'carol' } }])
  const before = (await readsOf(alice)).length
  t.equal((await merge(index, { Do: 'octopus' })).status, 405)
  t.equal((await merge(index)).status, 200)
  t.equal((await readsOf(alice)).length, before + 2)
  t.equal((await merge(99)).status, 404)
  t.equal((await readsOf(alice)).length, before + 2, 'what does not exist is not read')
})

t.test('merge.1: a merge is answered as merged, also when it cannot be noted as read', async (t) => {
  const { branch, open, merge, get } = await repository(t, 'unnoted')
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  const { events } = server.services
  const { append } = events
  const reads = readsStream((await alice.user.userGetCurrent()).data.id ?? 0)
  let failures = 0
  events.append = async (stream, recorded, expected) => {
    if (stream === reads) {
      failures += 1
      throw new StoreUnavailable('the log is away')
    }
    return append(stream, recorded, expected)
  }
  t.teardown(() => {
    events.append = append
  })
  t.equal((await merge(index)).status, 200)
  t.equal(failures, 1)
  t.match(await get(index), { state: 'closed', merged: true })
})

t.test('merge.2: a closed pull request gives 404 and stays closed', async (t) => {
  const { branch, open, merge, get, close, reopen } = await repository(t, 'closed')
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  await close(index)
  t.match(await merge(index), { status: 404, message: /closed/ })
  t.match(await get(index), { state: 'closed', merged: false })
  await reopen(index)
  t.equal((await merge(index)).status, 200)
})

t.test('merge.2: readers, merged pull requests and works in progress give 405 with the reason', async (t) => {
  const { branches, open, merge, tip, edit } = await repository(t, 'refused', { writers: ['bob'] })
  await branches('a', 'b', 'c')
  const [a, b] = [await open('a'), await open('b', { title: 'WIP: later' })]
  const c = await open('c', { title: '[wip] later' })
  const main = await tip('main')
  t.match(await merge(a, {}, 'carol'), { status: 405, message: /not allowed to merge/ })
  t.equal((await merge(a, {}, null)).status, 401)
  t.match(await merge(b), { status: 405, message: /work in progress/ })
  t.match(await merge(c), { status: 405, message: /work in progress/ })
  const both = await merge(c, { Do: 'octopus' })
  t.match(both, { status: 405, message: /octopus/, errors: [/octopus/, /work in progress/] }, 'all reasons')
  t.equal(await tip('main'), main)
  t.equal((await merge(a, {}, 'bob')).status, 200, 'a writer may')
  t.match(await merge(a), { status: 405, message: /merged already/ })
  t.equal((await edit(b, { title: 'Now' })).status, 201)
  t.equal((await merge(b)).status, 200)
})

t.test('merge.2: without its head branch or its base branch it gives 405', async (t) => {
  const { branches, open, merge, push, fork, close, reopen, get } = await repository(t, 'gone')
  await branches('topic', 'other', 'target')
  await (await fork('bob')).branch('afar', { f: 'f' })
  const forked = await open('bob:afar', {}, 'bob')
  const [headless, baseless] = [await open('topic'), await open('other', { base: 'target' })]
  await close(baseless)
  await bob.repos.repoDelete('bob', 'gone')
  await push(':topic', ':target')
  for (const index of [forked, headless]) {
    await until('it is closed', async () => (await get(index)).state === 'closed')
    t.equal((await merge(index)).status, 404)
  }
  for (const index of [forked, headless, baseless]) await reopen(index)
  t.match(await merge(forked), { status: 405, message: /the head branch afar is gone/ }, 'its repository')
  t.match(await merge(headless), { status: 405, message: /cannot be merged: the head branch topic is gone/ })
  t.match(await merge(baseless), {
    status: 405,
    message: /cannot be merged: the base branch target is gone/,
  })
})

t.test('merge.2: open dependencies give 405 and are named', async (t) => {
  const { branches, open, merge, repoId } = await repository(t, 'depends')
  await branches('first', 'second')
  const [first, second] = [await open('first'), await open('second')]
  const metadata = {
    actor: null,
    at: new Date().toISOString(),
    correlationId: 'x',
    causationId: 'x',
    schema: 1,
  }
  const data = { repoId, index: second, dependency: { repoId, index: first } }
  const event = { id: '8e0d0c3e-7c32-4c8a-9d7c-0f4f4f0f9a31', type: 'DependencyAdded', data, metadata }
  await server.services.events.append(pullStream(repoId, second), [event], 'any')
  t.match(await merge(second), { status: 405, errors: [new RegExp(`depends on .* #${first}$`)] })
  t.equal((await merge(second, { force_merge: true })).status, 405, 'no force helps')
  t.equal((await merge(first)).status, 200)
  t.equal((await merge(second)).status, 200)
})

t.test('merge.3: a manual merge is 405 unless the repository allows it', async (t) => {
  const { branch, open, merge, get } = await repository(t, 'not-by-hand')
  const head = await branch('topic', { a: 'a' })
  const index = await open('topic')
  const refused = await merge(index, { Do: 'manually-merged', MergeCommitID: head })
  t.match(refused, { status: 405, message: /manually-merged is not allowed/ })
  t.match(await get(index), { state: 'open', merged: false })
})

t.test(
  'merge.3: a manual merge marks it as merged by a commit of the base, and moves no branch',
  async (t) => {
    const settings = { allow_manual_merge: true }
    const { branch, open, merge, get, work, tip, typesOf } = await repository(t, 'by-hand', settings)
    const head = await branch('topic', { a: 'a' })
    const index = await open('topic', { title: 'WIP: merged by hand' })
    await work.git('checkout', '-q', 'main')
    const wrong = [
      '',
      'main',
      'x',
      head,
      '0'.repeat(40),
      head.slice(0, 10),
      `${head}0`,
      '--all',
      'é'.repeat(40),
    ]
    for (const MergeCommitID of wrong) {
      const refused = await merge(index, { Do: 'manually-merged', MergeCommitID })
      t.match(refused, { status: 409, message: /MergeCommitID/ }, MergeCommitID)
    }
    t.equal((await merge(index, { Do: 'manually-merged' })).status, 409, 'no commit')
    const tree = await work.git('rev-parse', 'main^{tree}')
    t.equal((await merge(index, { Do: 'manually-merged', MergeCommitID: tree })).status, 409, 'a tree')

    await work.git('merge', '-q', '--squash', 'topic')
    const commit = await work.commit('By hand', {})
    await work.git('push', '-q', 'origin', 'main')
    const refs = await work.git('ls-remote', 'origin')
    const asReader = await merge(index, { Do: 'manually-merged', MergeCommitID: commit }, 'carol')
    t.equal(asReader.status, 405)
    t.equal((await merge(index, { Do: 'manually-merged', MergeCommitID: ` ${commit} ` })).status, 200)
    t.equal(await work.git('ls-remote', 'origin'), refs)
    t.equal(await tip('main'), commit)
    t.match(await get(index), {
      state: 'closed',
      merged: true,
      merge_commit_sha: commit,
      merged_by: { login: 'alice' },
      head: { sha: head },
    })
    const types = await typesOf(index)
    t.notOk(types.includes('MergeStarted'))
    t.equal((await merge(index, { Do: 'manually-merged', MergeCommitID: commit })).status, 405)
    await branch('topic', { b: 'b' })
    t.ok(await open('topic'), 'it is not a duplicate any more')
  },
)

t.test('merge.7: conflicts list the files, for every style that can have them', async (t) => {
  const { branch, open, merge, get, work, tip } = await repository(t, 'conflicts')
  await branch('mine', { 'x.txt': 'mine\n', 'y.txt': 'mine\n', 'z.txt': 'mine\n' })
  await branch('theirs', { 'x.txt': 'theirs\n', 'y.txt': 'theirs\n', 'free.txt': 'theirs\n' })
  await branch('theirs', { 'z.txt': 'theirs\n' }, 'theirs')
  const [mine, theirs] = [await open('mine'), await open('theirs')]
  t.equal((await merge(mine)).status, 200)
  const main = await tip('main')
  for (const Do of ['merge', 'squash']) {
    const errors = ['x.txt', 'y.txt', 'z.txt']
    t.match(await merge(theirs, { Do }), { status: 409, message: /conflicts/, errors }, Do)
  }
  const first = await work.git('rev-parse', 'theirs~1')
  for (const Do of ['rebase', 'rebase-merge']) {
    const message = new RegExp(`rebase conflicts in commit ${first}`)
    t.strictSame((await merge(theirs, { Do })).errors, ['x.txt', 'y.txt'], Do)
    t.match(await merge(theirs, { Do }), { status: 409, message }, Do)
  }
  t.equal(await tip('main'), main)
  t.match(await get(theirs), { state: 'open', merged: false })
  await until('the conflict is known', async () => (await get(theirs)).mergeable === false)
})

t.test('merge.7: a rebase may conflict where a merge does not', async (t) => {
  const { branch, open, merge, work } = await repository(t, 'back-and-forth')
  const base = await branch('main', { 'x.txt': 'one\n' })
  await branch('topic', { 'x.txt': 'two\n' }, base)
  await branch('topic', { 'x.txt': 'one\n', 'y.txt': 'y\n' }, 'topic')
  await branch('main', { 'x.txt': 'three\n' }, base)
  const index = await open('topic')
  t.match(await merge(index, { Do: 'rebase' }), { status: 409, message: /rebase/, errors: ['x.txt'] })
  t.equal((await merge(index)).status, 200)
  await work.git('fetch', '-q')
  t.equal(await work.git('show', 'origin/main:x.txt'), 'three')
})

t.test('merge.7: unrelated histories give 409', async (t) => {
  const { branch, open, merge, work, get } = await repository(t, 'strangers')
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  await work.git('checkout', '-q', '--orphan', 'stranger')
  const stranger = await work.commit('Another first commit', { b: 'b' })
  await work.git('push', '-q', '-f', 'origin', 'stranger:topic')
  await until('the head has moved', async () => (await get(index)).head?.sha === stranger)
  for (const Do of ['merge', 'squash', 'rebase', 'rebase-merge']) {
    t.match(await merge(index, { Do }), { status: 409, message: /unrelated histories/ }, Do)
  }
  t.match(await merge(index, { Do: 'fast-forward-only' }), { status: 409, message: /diverged/ })
})

t.test('merge.7: diverged branches are not fast-forwarded, and another head is not merged', async (t) => {
  const { branch, open, merge } = await repository(t, 'diverged')
  const old = await branch('topic', { a: 'a' })
  await branch('main', { b: 'b' })
  const index = await open('topic')
  t.match(await merge(index, { Do: 'fast-forward-only' }), { status: 409, message: /diverged/ })
  const head = await branch('topic', { c: 'c' }, 'topic')
  for (const head_commit_id of [old, head.slice(0, 10), 'x', '\0']) {
    const refused = await merge(index, { head_commit_id })
    t.match(
      refused,
      { status: 409, message: /head_commit_id: the head is at / },
      JSON.stringify(head_commit_id),
    )
  }
  t.equal((await merge(index, { head_commit_id: head })).status, 200)
})

t.test('merge.7: a merge after a push to the base gives 409, and nothing is lost', async (t) => {
  const { branch, open, merge, dir, tip, work, typesOf } = await repository(t, 'overtaken')
  await branch('topic', { a: 'a' })
  const pushed = await branch('elsewhere', { b: 'b' })
  const index = await open('topic')
  // A push that comes between the intent and the move of the branch: the branch moves right after the intent.
  const store = server.services.events
  const { append } = store
  store.append = async (stream, recorded, expected) => {
    const appended = await append.call(store, stream, recorded, expected)
    if (recorded.some(({ type }) => type === 'MergeStarted')) {
      store.append = append
      await work.git('--git-dir', dir, 'update-ref', 'refs/heads/main', pushed)
    }
    return appended
  }
  t.match(await merge(index), { status: 409, message: /push out of date/ })
  t.equal(await tip('main'), pushed)
  const types = await typesOf(index)
  t.ok(types.includes('MergeFailed'))
  t.notOk(types.includes('PullRequestMerged'))
  t.equal((await merge(index)).status, 200, 'tried again')
})

t.test('an invalid body is refused with the field, and nothing is merged', async (t) => {
  const { branch, open, merge, call, tip } = await repository(t, 'nonsense')
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  const main = await tip('main')
  const nonsense = {
    Do: [5, {}, []],
    MergeTitleField: [1, ['a']],
    MergeMessageField: [{}],
    MergeCommitID: [0],
    head_commit_id: [40],
    force_merge: ['perhaps', 2],
    merge_when_checks_succeed: [[]],
    delete_branch_after_merge: ['no way'],
  }
  for (const [field, values] of Object.entries(nonsense)) {
    for (const value of values) {
      t.match(await merge(index, { [field]: value }), { status: 422, message: field }, field)
    }
  }
  for (const body of [[], [1], ['merge']])
    t.equal((await call('alice', 'POST', `pulls/${index}/merge`, body)).status, 422)
  t.equal((await merge(index, { Do: 'x'.repeat(100_000) })).status, 405)
  t.equal(await tip('main'), main)
})

t.test('branches and files with any name that git allows are merged, deleted and recorded', async (t) => {
  const { branch, open, merge, tip, work } = await repository(t, 'names')
  const odd = `feature/"quoted"-$(id);'é|&%41#`
  const file = 'naïve "file"\twith\nlines.txt'
  await branch(odd, { [file]: 'mine' })
  await branch('theirs', { [file]: 'theirs' })
  const [mine, theirs] = [await open(odd, { title: '`title` $(id) \'"' }), await open('theirs')]
  t.equal((await merge(mine, { delete_branch_after_merge: true })).status, 200)
  t.equal(await tip(odd), undefined)
  t.strictSame((await merge(theirs)).errors, [file])
  await work.git('fetch', '-q')
  const message = await work.git('log', '-1', '--format=%B', 'origin/main')
  t.equal(message, `Merge pull request '\`title\` $(id) '"' (#${mine}) from ${odd} into main`)
})

t.test(
  'the moved branch of a merge, the merged pull request and the claims that it frees are one append',
  async (t) => {
    const { branch, open, merge, repoId, tip } = await repository(t, 'at-once')
    await branch('topic', { a: 'a' })
    const index = await open('topic')
    t.equal((await merge(index)).status, 200)
    const [merged] = (await eventsIn(server, pullStream(repoId, index))).filter(
      ({ type }) => type === 'PullRequestMerged',
    )
    const { position = 0, stream } = merged ?? {}
    const around: unknown[] = []
    for await (const event of server.services.events.readPositions([position - 1, position, position + 1])) {
      around.push(event)
    }
    t.match(around, [
      { type: 'RefsUpdated', data: { cause: 'merge', refs: [{ to: await tip('main') }] } },
      { type: 'PullRequestMerged' },
      { type: 'ClaimReleased', data: { holder: stream } },
    ])
  },
)
