import { rename } from 'node:fs/promises'
import t from 'tap'
import { gitStream } from '../../../../src/events/streams.ts'
import { type Test, workTree } from '../../../git-client.ts'
import { until } from '../../../until.ts'
import { type Answer, eventsIn, type PullRepository, startPulls } from '../pull-repository.ts'

const { server, alice, bob, repository } = await startPulls(t)

const updating =
  ({ call }: PullRepository) =>
  (index: number | string, query = '', login: string | null = 'alice') =>
    call(login, 'POST', `pulls/${index}/update${query}`)
const statusOf = async (answer: Promise<Answer>) => (await answer).status

/** A pull request from `topic`, and one more commit on `main`. */
async function behind(t: Test, name: string) {
  const behind = await repository(t, name)
  const head = await behind.branch('topic', { 'a.txt': 'a\n' })
  await behind.open('topic')
  const base = await behind.branch('main', { 'm.txt': 'm\n' }, 'main')
  return { ...behind, update: updating(behind), head, base }
}

/** Bob's fork of it, with a pull request from `topic`, and one more commit on `main`. */
async function forkBehind(t: Test, name: string) {
  const behind = await repository(t, name)
  const own = await behind.fork('bob')
  const head = await own.branch('topic', { 'a.txt': 'a\n' })
  await behind.open('bob:topic', {}, 'bob')
  const base = await behind.branch('main', { 'm.txt': 'm\n' }, 'main')
  return { ...behind, update: updating(behind), own, head, base }
}

t.test('pulls.update.1: a merged or a closed pull request gives 422', async (t) => {
  const { branch, open, merge, close, update } = await behind(t, 'rule1')
  await branch('closed', { c: 'c' })
  await open('closed')
  t.equal((await merge(1)).status, 200)
  t.match(await update(1), { status: 422, message: /merged/ })
  await close(2)
  t.match(await update(2), { status: 422, message: /closed/ })
  t.match(await update(2, '?style=rebase'), { status: 422 })
})

t.test('pulls.update.2: 403 without permission to push to the head branch', async (t) => {
  const { writer, protect, get, head, update } = await behind(t, 'rule2')
  t.equal(await statusOf(update(1, '', null)), 401)
  t.equal(await statusOf(update(1, '', 'carol')), 403, 'a reader')
  t.equal(await statusOf(update(1, '?style=rebase', 'carol')), 403)
  await writer('bob')
  await protect('topic', {
    enable_push: true,
    enable_push_whitelist: true,
    push_whitelist_usernames: ['alice'],
  })
  t.equal(await statusOf(update(1, '', 'bob')), 403, 'a writer whom a protection keeps out')
  t.match(await get(1), { head: { sha: head } })
  t.equal(await statusOf(update(1)), 200, 'one whom it names')
})

t.test(
  'pulls.update.2: 403 when the protection of the head branch allows no pushes, or signed commits only',
  async (t) => {
    const { protect, call, update } = await behind(t, 'rule2-closed')
    await protect('topic', { enable_push: false })
    t.equal(await statusOf(update(1)), 403)
    await call('alice', 'PATCH', 'branch_protections/topic', {
      enable_push: true,
      require_signed_commits: true,
    })
    t.match(await update(1), { status: 403, message: /signed/ })
    await call('alice', 'PATCH', 'branch_protections/topic', { require_signed_commits: false })
    t.equal(await statusOf(update(1)), 200)
  },
)

t.test('pulls.update.2: a rebase gives 403 where it is off, and for a protected head branch', async (t) => {
  const { name, protect, call, update } = await behind(t, 'rule2-rebase')
  await alice.repos.repoEdit('alice', name, { allow_rebase_update: false })
  t.match(await update(1, '?style=rebase'), { status: 403, message: /rebase/ })
  await alice.repos.repoEdit('alice', name, { allow_rebase_update: true })
  await protect('topic', { enable_push: true })
  t.match(await update(1, '?style=rebase'), { status: 403, message: /rebase/ })
  await call('alice', 'DELETE', 'branch_protections/topic')
  t.equal(await statusOf(update(1, '?style=rebase')), 200)
})

t.test(
  'pulls.update.2: allow_maintainer_edit lets writers of the base update the branch of a fork',
  async (t) => {
    const { writer, get, head, edit, update } = await forkBehind(t, 'rule2-fork')
    await writer('carol')
    t.equal(await statusOf(update(1, '', 'carol')), 403, 'a writer of the base')
    t.equal(await statusOf(update(1, '?style=rebase')), 403, 'its owner')
    t.match(await get(1), { head: { sha: head } })
    t.equal((await edit(1, { allow_maintainer_edit: true }, 'bob')).status, 201)
    t.equal(await statusOf(update(1, '', 'dave')), 403, 'a reader of both still may not')
    t.equal(await statusOf(update(1, '', 'carol')), 200)
  },
)

t.test('pulls.update.3: a merge brings the base into the head, with the default message', async (t) => {
  const { head, base, work, get, tip, typesOf, update, eventsOf } = await behind(t, 'rule3')
  t.match(await update(1), { status: 200, text: '' })
  const pull = await get(1)
  const updated = await tip('topic')
  t.match(pull, { head: { sha: updated }, changed_files: 1, mergeable: true, merge_base: base }, 'at once')
  t.equal(await tip('refs/pull/1/head'), updated)
  await work.git('fetch', '-q')
  const show = (format: string) => work.git('log', '-1', `--format=${format}`, 'origin/topic')
  t.equal(await show('%P'), `${head} ${base}`)
  t.equal(await show('%B'), "Merge branch 'main' into topic")
  t.equal(
    await show('%an <%ae> %cn <%ce>'),
    'alice <alice@noreply.127.0.0.1> alice <alice@noreply.127.0.0.1>',
  )
  await work.git('checkout', '-q', 'topic')
  await work.git('merge', '-q', '--no-edit', 'main')
  t.equal(await work.git('rev-parse', 'HEAD^{tree}'), await show('%T'), 'the tree is what git makes')
  t.match(
    (await eventsOf(1)).find(({ type }) => type === 'PullRequestHeadMoved'),
    { data: { from: head, to: updated }, metadata: { actor: { login: 'alice' } } },
  )
  t.equal((await typesOf(1)).filter((type) => type === 'PullRequestHeadMoved').length, 1)
})

t.test('pulls.update.3: an unknown style is a merge', async (t) => {
  const { head, base, work, update } = await behind(t, 'rule3-style')
  t.equal(await statusOf(update(1, '?style=octopus')), 200)
  await work.git('fetch', '-q')
  t.equal(await work.git('log', '-1', '--format=%P', 'origin/topic'), `${head} ${base}`)
})

t.test('an update by rebase gives the commits that git rebase gives', async (t) => {
  const { branch, base, work, get, tip, update } = await behind(t, 'rebase')
  await branch('topic', { 'b.txt': 'b\n' }, 'topic')
  t.match(await update(1, '?style=rebase'), { status: 200, text: '' })
  await work.git('fetch', '-q')
  await work.git('checkout', '-q', 'topic')
  await work.git('rebase', '-q', 'main')
  const commits = (ref: string) => work.git('log', '--format=%T %an %ae %ad %B', `main..${ref}`)
  t.equal(await commits('origin/topic'), await commits('topic'))
  t.equal(await work.git('log', '-1', '--format=%cn', 'origin/topic'), 'alice')
  t.equal(await work.git('rev-parse', 'origin/topic~2'), base)
  t.match(await get(1), { head: { sha: await tip('topic') }, merge_base: base, changed_files: 2 })
})

t.test('pulls.update.4: conflicts give 409 with their files, and change nothing', async (t) => {
  const { branch, tip, typesOf, get, update } = await behind(t, 'rule4')
  await branch('main', { 'a.txt': 'of main\n', 'z.txt': 'z\n' }, 'main')
  const head = await branch('topic', { 'z.txt': 'of topic\n' }, 'topic')
  t.match(await update(1), { status: 409, message: /conflict/, errors: ['a.txt', 'z.txt'] })
  t.match(await update(1, '?style=rebase'), {
    status: 409,
    message: /conflict/,
    errors: ['a.txt'],
  })
  t.equal(await tip('topic'), head)
  await until('the conflict is known', async () => (await get(1)).mergeable === false)
  t.equal((await typesOf(1)).filter((type) => type === 'PullRequestHeadMoved').length, 1, 'the push alone')
})

t.test('pulls.update.5: an update without new commits gives 200 and changes nothing', async (t) => {
  const current = await repository(t, 'current')
  const head = await current.branch('topic', { a: 'a' })
  await current.open('topic')
  const update = updating(current)
  for (const query of ['', '?style=rebase', '?style=merge']) {
    t.match(await update(1, query), { status: 200, text: '' }, query)
  }
  t.equal(await current.tip('topic'), head)
  t.strictSame(await current.typesOf(1), ['PullRequestOpened'])
})

t.test('pulls.update.5: an update of an unknown pull request gives 404', async (t) => {
  const { push, update, reopen } = await behind(t, 'missing')
  for (const index of ['2', '0', '-1', 'x', '9'.repeat(30)]) {
    t.equal(await statusOf(update(index)), 404, index)
  }
  await push(':topic')
  await reopen(1)
  t.equal(await statusOf(update(1)), 404, 'the head branch is gone')
  const fork = await forkBehind(t, 'missing-fork')
  await bob.repos.repoDelete('bob', 'missing-fork')
  await until('it is closed', async () => (await fork.get(1)).state === 'closed')
  t.equal(await statusOf(fork.update(1)), 422)
  await fork.reopen(1)
  t.equal(await statusOf(fork.update(1)), 404, 'the fork is gone')
  const secret = await repository(t, 'secret', { private: true })
  t.equal(await statusOf(updating(secret)(1, '', 'bob')), 404, 'what he may not read')
})

t.test(
  "an update of a head in a fork moves the fork's branch and the head of the pull request",
  async (t) => {
    const { own, branch, get, head, base, tip, work, name, update } = await forkBehind(t, 'fork')
    t.equal(await statusOf(update(1, '', 'bob')), 200)
    const updated = await own.tip('topic')
    t.not(updated, head)
    t.match(await get(1), { head: { sha: updated }, merge_base: base, changed_files: 1, mergeable: true })
    t.equal(await tip('refs/pull/1/head'), updated)
    t.equal(await tip('topic'), undefined, 'the base has no such branch')
    await work.git('fetch', '-q', 'origin', 'refs/pull/1/head')
    t.equal(
      await work.git('log', '-1', '--format=%P %B', 'FETCH_HEAD'),
      `${head} ${base} Merge branch 'main' into topic`,
    )
    const branches = (await server.anonymous.repos.repoListBranches('bob', name)).data
    t.match(
      branches.find((branch) => branch.name === 'topic'),
      { commit: { id: updated } },
    )

    await branch('main', { more: 'x' }, 'main')
    t.equal(await statusOf(update(1, '?style=rebase', 'bob')), 200)
    const rebased = await own.tip('topic')
    t.match(await get(1), { head: { sha: rebased } })
    t.equal(await tip('refs/pull/1/head'), rebased)
    await own.work.git('fetch', '-q')
    t.equal(await own.work.git('log', '--format=%s', '-2', 'origin/topic'), 'Commit on topic\nCommit on main')
    await own.work.git('fsck', '--strict')
  },
)

t.test('updates and pushes at the same time lose nothing', async (t) => {
  const { work, get, tip, repoId, update } = await behind(t, 'rush')
  const pusher = await workTree(t, server.gitUrl('alice', 'alice/rush'))
  const pushed: string[] = []
  const bases: string[] = []
  const pushing = (async () => {
    for (let i = 0; i < 4; i++) {
      await pusher.git('checkout', '-q', '-B', 'topic', 'origin/topic')
      const sha = await pusher.commit(`Pushed ${i}`, { [`p${i}`]: 'x' })
      const push = pusher.git('push', '-q', 'origin', 'topic')
      if (
        await push.then(
          () => true,
          () => false,
        )
      )
        pushed.push(sha)
      await pusher.git('checkout', '-q', '-B', 'main', 'origin/main')
      bases.push(await pusher.commit(`Base ${i}`, { [`b${i}`]: 'x' }))
      await pusher.git('push', '-q', 'origin', 'main')
      await pusher.git('fetch', '-q')
    }
  })()
  const updating = [1, 2, 3].map(async () => {
    const statuses: number[] = []
    for (let i = 0; i < 4; i++) statuses.push(await statusOf(update(1)))
    return statuses
  })
  const statuses = (await Promise.all(updating)).flat()
  await pushing
  t.strictSame(
    statuses.filter((status) => status !== 200 && status !== 409),
    [],
  )
  await until('the last update is through', async () => (await statusOf(update(1))) === 200)
  await work.git('fetch', '-q')
  for (const sha of [...pushed, ...bases]) await work.git('merge-base', '--is-ancestor', sha, 'origin/topic')
  t.match(await get(1), { head: { sha: await tip('topic') } })
  t.equal(await tip('refs/pull/1/head'), await tip('topic'))
  const moves = (await eventsIn(server, gitStream(repoId)))
    .flatMap((event) => (event.type === 'RefsUpdated' ? event.data.refs : []))
    .filter(({ ref }) => ref === 'refs/heads/topic')
  t.strictSame(
    moves.slice(1).map(({ from }) => from),
    moves.slice(0, -1).map(({ to }) => to),
    'move follows upon move',
  )
})

t.test('recovery records an update that git has and the log does not have', async (t) => {
  const { head, get, tip, eventsOf, update } = await behind(t, 'cut-off')
  const { events } = server.services
  const { append } = events
  // The log is unavailable when git has moved the branch.
  let failed = 0
  events.append = async (stream, batch, expected) => {
    if (batch[0]?.type === 'RefsUpdated' && failed === 0) {
      failed += 1
      throw new Error('the disk is full')
    }
    return append(stream, batch, expected)
  }
  t.teardown(() => {
    events.append = append
  })
  t.equal(await statusOf(update(1)), 500)
  t.equal(failed, 1)
  events.append = append
  const updated = await tip('topic')
  t.not(updated, head, 'git has it')
  await until('it is recorded', async () => (await get(1)).head?.sha === updated)
  t.match(
    (await eventsOf(1)).find(({ type }) => type === 'PullRequestHeadMoved'),
    { data: { from: head, to: updated } },
  )
  t.equal(await tip('refs/pull/1/head'), updated)
  t.equal(await statusOf(update(1)), 200, 'and is up to date')
})

t.test('an update of a repository without files does not give 500', async (t) => {
  const { dir, update } = await behind(t, 'gone')
  await rename(dir, `${dir}.away`)
  t.teardown(() => rename(`${dir}.away`, dir))
  t.equal(await statusOf(update(1)), 404)
})
