import t from 'tap'
import { decode } from '../../../src/events/codec.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { forkOf, hostedRepository } from './hosted-repository.ts'

const server = await startTestServer(t)
const alice = await server.as('alice')
await Promise.all(['bob', 'carol'].map((login) => server.as(login)))

async function readsOf(login: string): Promise<unknown[]> {
  const api = await server.as(login)
  const { id } = (await api.user.userGetCurrent()).data
  const reads: unknown[] = []
  for await (const recorded of server.services.events.readStream(`reads-${id}`)) {
    reads.push(decode(recorded).data)
  }
  return reads
}

t.test('merge rule 1: who merges, or tries to, has read the pull request', async (t) => {
  const { branch, open, merge, id } = await hostedRepository(t, server, 'reads')
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  t.equal((await merge(index, {}, 'carol')).status, 405)
  t.match(await readsOf('carol'), [{ repoId: id, index, user: { login: 'carol' } }])
  const before = (await readsOf('alice')).length
  t.equal((await merge(index, { Do: 'octopus' })).status, 405)
  t.equal((await merge(index)).status, 200)
  t.equal((await readsOf('alice')).length, before + 2)
  t.equal((await merge(99)).status, 404)
  t.equal((await readsOf('alice')).length, before + 2, 'what does not exist is not read')
})

t.test('merge rule 2: a closed pull request gives 404 and stays closed', async (t) => {
  const { branch, open, merge, get } = await hostedRepository(t, server, 'closed')
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  await alice.repos.repoEditPullRequest('alice', 'closed', index, { state: 'closed' })
  t.match(await merge(index), { status: 404, message: /closed/ })
  t.match(await get(index), { state: 'closed', merged: false })
  await alice.repos.repoEditPullRequest('alice', 'closed', index, { state: 'open' })
  t.equal((await merge(index)).status, 200)
})

t.test('merge rule 2: readers, merged ones and works in progress give 405 with the reason', async (t) => {
  const { branch, open, merge, writer, tip } = await hostedRepository(t, server, 'refused')
  await writer('bob')
  await branch('a', { a: 'a' })
  await branch('b', { b: 'b' })
  const [a, b] = [await open('a'), await open('b', { title: 'WIP: later' })]
  const main = await tip('main')
  t.match(await merge(a, {}, 'carol'), { status: 405, message: /not allowed to merge/ })
  t.match(await merge(b), { status: 405, message: /work in progress/ })
  t.equal(await tip('main'), main)
  t.equal((await merge(a, {}, 'bob')).status, 200, 'a writer may')
  t.match(await merge(a), { status: 405, message: /merged already/ })
  await alice.repos.repoEditPullRequest('alice', 'refused', b, { title: 'Now' })
  t.equal((await merge(b)).status, 200)
})

t.test('merge rule 2: without its head branch or its base branch it is not mergeable: 405', async (t) => {
  const hosted = await hostedRepository(t, server, 'gone')
  const { branch, open, merge, work } = hosted
  await branch('topic', { a: 'a' })
  await branch('other', { b: 'b' })
  await branch('target', { c: 'c' })
  const fork = await forkOf(t, server, hosted, 'bob')
  await fork.branch('afar', { f: 'f' })
  const request = { head: 'bob:afar', base: 'main', title: 'From afar' }
  const { data: forked } = await fork.api.repos.repoCreatePullRequest('alice', 'gone', request)
  await fork.api.repos.repoDelete('bob', 'gone')
  t.match(
    await merge(forked.number ?? 0),
    { status: 405, message: /the head branch afar is gone/ },
    'its repository',
  )
  const [headless, baseless] = [await open('topic'), await open('other', { base: 'target' })]
  await work.git('push', '-q', 'origin', ':topic', ':target')
  t.match(await merge(headless), { status: 405, message: /can not be merged: the head branch topic is gone/ })
  t.match(await merge(baseless), {
    status: 405,
    message: /can not be merged: the base branch target is gone/,
  })
})

t.test('merge rule 2: open dependencies give 405 and are named', async (t) => {
  const { branch, open, merge, id } = await hostedRepository(t, server, 'depends')
  await branch('first', { a: 'a' })
  await branch('second', { b: 'b' })
  const [first, second] = [await open('first'), await open('second')]
  const metadata = {
    actor: null,
    at: new Date().toISOString(),
    correlationId: 'x',
    causationId: 'x',
    schema: 1,
  }
  const data = { repoId: id, index: second, dependency: { repoId: id, index: first } }
  const event = { id: '8e0d0c3e-7c32-4c8a-9d7c-0f4f4f0f9a31', type: 'DependencyAdded', data, metadata }
  await server.services.events.append(`pull-${id}.${second}`, [event], 'any')
  t.match(await merge(second), { status: 405, message: /depends/, errors: [`#${first}`] })
  t.equal((await merge(second, { force_merge: true })).status, 405, 'no force helps')
  t.equal((await merge(first)).status, 200)
  t.equal((await merge(second)).status, 200)
})

t.test('merge rule 3: a manual merge is 405 unless the repository allows it', async (t) => {
  const { branch, open, merge, get } = await hostedRepository(t, server, 'not-by-hand')
  const head = await branch('topic', { a: 'a' })
  const index = await open('topic')
  const refused = await merge(index, { Do: 'manually-merged', MergeCommitID: head })
  t.match(refused, { status: 405, message: /manually-merged is not allowed/ })
  t.match(await get(index), { state: 'open', merged: false })
})

t.test(
  'merge rule 3: a manual merge marks it merged by a commit of the base, and moves nothing',
  async (t) => {
    const repository = await hostedRepository(t, server, 'by-hand', { allow_manual_merge: true })
    const { branch, open, merge, get, work, tip, events } = repository
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
    const types = (await events(index)).map(({ type }) => type)
    t.notOk(types.includes('MergeStarted'))
    t.equal((await merge(index, { Do: 'manually-merged', MergeCommitID: commit })).status, 405)
    await branch('topic', { b: 'b' })
    t.ok(await open('topic'), 'it is no twin any more')
  },
)

t.test('merge rule 7: conflicts list the files, for every style that can have them', async (t) => {
  const { branch, open, merge, get, work, tip } = await hostedRepository(t, server, 'conflicts')
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
})

t.test('merge rule 7: a rebase may conflict where a merge does not', async (t) => {
  const { branch, open, merge, work } = await hostedRepository(t, server, 'back-and-forth')
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

t.test('merge rule 7: histories with nothing in common give 409', async (t) => {
  const { branch, open, merge, work, get } = await hostedRepository(t, server, 'strangers')
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

t.test(
  'merge rule 7: diverged branches are not fast-forwarded, and another head is not merged',
  async (t) => {
    const { branch, open, merge } = await hostedRepository(t, server, 'diverged')
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
  },
)

t.test('merge rule 7: what a push overtakes is out of date: 409, and nothing is lost', async (t) => {
  const { branch, open, merge, gitDir, events, tip, work } = await hostedRepository(t, server, 'overtaken')
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
      await work.git('--git-dir', gitDir, 'update-ref', 'refs/heads/main', pushed)
    }
    return appended
  }
  t.match(await merge(index), { status: 409, message: /push out of date/ })
  t.equal(await tip('main'), pushed)
  const types = (await events(index)).map(({ type }) => type)
  t.ok(types.includes('MergeFailed'))
  t.notOk(types.includes('PullRequestMerged'))
  t.equal((await merge(index)).status, 200, 'tried again')
})

t.test('a body that makes no sense is refused by its field, and nothing is merged', async (t) => {
  const { branch, open, merge, call, tip } = await hostedRepository(t, server, 'nonsense')
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
    t.equal((await call('alice', 'POST', `/pulls/${index}/merge`, body)).status, 422)
  t.equal((await merge(index, { Do: 'x'.repeat(100_000) })).status, 405)
  t.equal(await tip('main'), main)
})

t.test('branches and files with any name that git allows are merged, deleted and told of', async (t) => {
  const { branch, open, merge, tip, work } = await hostedRepository(t, server, 'names')
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
