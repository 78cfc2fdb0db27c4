import { rename } from 'node:fs/promises'
import t from 'tap'
import { decode } from '../../../src/events/codec.ts'
import type { RefUpdate } from '../../../src/events/domain-events.ts'
import { gitStream } from '../../../src/events/streams.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { type Answer, brancher, pullRepository } from './pull-repository.ts'

const server = await startTestServer(t)
await Promise.all(['alice', 'bob', 'carol'].map((login) => server.as(login)))

type Repository = Awaited<ReturnType<typeof pullRepository>>

const update = ({ call }: Repository, index: number | string, query = '', login: string | null = 'alice') =>
  call(login, 'POST', `pulls/${index}/update${query}`)
const statusOf = async (answer: Promise<Answer>) => (await answer).status

/** With a pull request from `topic`, and one commit more on `main`. */
async function behind(t: Parameters<typeof pullRepository>[0], name: string, options: object = {}) {
  const repository = await pullRepository(t, server, name, options)
  const head = await repository.branch('topic', { 'a.txt': 'a\n' })
  await repository.open('topic')
  const base = await repository.branch('main', { 'm.txt': 'm\n' }, 'main')
  return { repository, ...repository, head, base, tipOf: tipIn(repository) }
}

/** Where a branch of the repository stands. */
const tipIn =
  ({ work }: Pick<Repository, 'work'>) =>
  async (ref: string) =>
    (await work.git('ls-remote', 'origin', ref)).split('\t')[0]

/** Bob's fork of it, with a pull request of his from `topic`, and one commit more on `main`. */
async function forkBehind(t: Parameters<typeof pullRepository>[0], name: string) {
  const repository = await pullRepository(t, server, name)
  const bob = await server.as('bob')
  const { data } = await bob.repos.createFork('alice', name, {})
  const work = await workTree(t, server.gitUrl('bob', `bob/${name}`))
  const branch = brancher(work)
  const head = await branch('topic', { 'a.txt': 'a\n' })
  await repository.open('bob:topic', {}, 'bob')
  const base = await repository.branch('main', { 'm.txt': 'm\n' }, 'main')
  const fork = { id: data.id ?? 0, work, branch, tipOf: tipIn({ work }) }
  return { repository, ...repository, bob, fork, head, base, tipOf: tipIn(repository) }
}

t.test('update rule 1: a merged or a closed pull request gives 422', async (t) => {
  const { repository, branch, open, merge, call } = await behind(t, 'rule1')
  await branch('closed', { c: 'c' })
  await open('closed')
  t.equal((await merge(1)).status, 200)
  t.match(await update(repository, 1), { status: 422, message: /merged/ })
  await call('alice', 'PATCH', 'pulls/2', { state: 'closed' })
  t.match(await update(repository, 2), { status: 422, message: /closed/ })
  t.match(await update(repository, 2, '?style=rebase'), { status: 422 })
})

t.test('update rule 2: who may not push to the head branch gets 403', async (t) => {
  const { repository, writer, protect, get, head } = await behind(t, 'rule2')
  t.equal(await statusOf(update(repository, 1, '', null)), 401)
  t.equal(await statusOf(update(repository, 1, '', 'carol')), 403, 'a reader')
  t.equal(await statusOf(update(repository, 1, '?style=rebase', 'carol')), 403)
  await writer('bob')
  await protect('topic', {
    enable_push: true,
    enable_push_whitelist: true,
    push_whitelist_usernames: ['alice'],
  })
  t.equal(await statusOf(update(repository, 1, '', 'bob')), 403, 'a writer whom a protection keeps out')
  t.match(await get(1), { head: { sha: head } })
  t.equal(await statusOf(update(repository, 1)), 200, 'one whom it names')
})

t.test(
  'update rule 2: a head branch that nobody may push to, or that must be signed, gives 403',
  async (t) => {
    const { repository, protect, call } = await behind(t, 'rule2-closed')
    await protect('topic', { enable_push: false })
    t.equal(await statusOf(update(repository, 1)), 403)
    await call('alice', 'PATCH', 'branch_protections/topic', {
      enable_push: true,
      require_signed_commits: true,
    })
    t.match(await update(repository, 1), { status: 403, message: /signed/ })
    await call('alice', 'PATCH', 'branch_protections/topic', { require_signed_commits: false })
    t.equal(await statusOf(update(repository, 1)), 200)
  },
)

t.test('update rule 2: by rebase gives 403 where that is off, and for a protected head branch', async (t) => {
  const { repository, alice, name, protect, call } = await behind(t, 'rule2-rebase')
  await alice.repos.repoEdit('alice', name, { allow_rebase_update: false })
  t.match(await update(repository, 1, '?style=rebase'), { status: 403, message: /rebase/ })
  await alice.repos.repoEdit('alice', name, { allow_rebase_update: true })
  await protect('topic', { enable_push: true })
  t.match(await update(repository, 1, '?style=rebase'), { status: 403, message: /rebase/ })
  await call('alice', 'DELETE', 'branch_protections/topic')
  t.equal(await statusOf(update(repository, 1, '?style=rebase')), 200)
})

t.test(
  'update rule 2: allow_maintainer_edit lets writers of the base update the branch of a fork',
  async (t) => {
    const { repository, writer, call, get, head } = await forkBehind(t, 'rule2-fork')
    await writer('carol')
    t.equal(await statusOf(update(repository, 1, '', 'carol')), 403, 'a writer of the base')
    t.equal(await statusOf(update(repository, 1, '?style=rebase')), 403, 'its owner')
    t.match(await get(1), { head: { sha: head } })
    t.equal((await call('bob', 'PATCH', 'pulls/1', { allow_maintainer_edit: true })).status, 201)
    await server.as('dave')
    t.equal(await statusOf(update(repository, 1, '', 'dave')), 403, 'a reader of both still may not')
    t.equal(await statusOf(update(repository, 1, '', 'carol')), 200)
  },
)

t.test('update rule 3: by merge the base comes into the head with the default message', async (t) => {
  const { repository, head, base, work, get, eventsOf, tipOf, typesOf } = await behind(t, 'rule3')
  t.match(await update(repository, 1), { status: 200, text: '' })
  const pull = await get(1)
  const tip = await tipOf('topic')
  t.match(pull, { head: { sha: tip }, changed_files: 1, mergeable: true, merge_base: base }, 'at once')
  t.equal(await tipOf('refs/pull/1/head'), tip)
  await work.git('fetch', '-q')
  const show = (format: string) => work.git('log', '-1', `--format=${format}`, 'origin/topic')
  t.equal(await show('%P'), `${head} ${base}`)
  t.equal(await show('%B'), "Merge branch 'main' into topic")
  t.equal(await show('%an <%ae> %cn <%ce>'), 'alice <alice@example.org> alice <alice@example.org>')
  await work.git('checkout', '-q', 'topic')
  await work.git('merge', '-q', '--no-edit', 'main')
  t.equal(await work.git('rev-parse', 'HEAD^{tree}'), await show('%T'), 'the tree is what git makes')
  t.match(
    (await eventsOf(1)).find(({ type }) => type === 'PullRequestHeadMoved'),
    { data: { from: head, to: tip }, metadata: { actor: { login: 'alice' } } },
  )
  t.equal((await typesOf(1)).filter((type) => type === 'PullRequestHeadMoved').length, 1)
})

t.test('update rule 3: an unknown style is a merge', async (t) => {
  const { repository, head, base, work } = await behind(t, 'rule3-style')
  t.equal(await statusOf(update(repository, 1, '?style=octopus')), 200)
  await work.git('fetch', '-q')
  t.equal(await work.git('log', '-1', '--format=%P', 'origin/topic'), `${head} ${base}`)
})

t.test('an update by rebase gives the commits that git rebase gives', async (t) => {
  const { repository, branch, base, work, get, tipOf } = await behind(t, 'rebase')
  await branch('topic', { 'b.txt': 'b\n' }, 'topic')
  t.match(await update(repository, 1, '?style=rebase'), { status: 200, text: '' })
  await work.git('fetch', '-q')
  await work.git('checkout', '-q', 'topic')
  await work.git('rebase', '-q', 'main')
  const commits = (ref: string) => work.git('log', '--format=%T %an %ae %ad %B', `main..${ref}`)
  t.equal(await commits('origin/topic'), await commits('topic'))
  t.equal(await work.git('log', '-1', '--format=%cn', 'origin/topic'), 'alice')
  t.equal(await work.git('rev-parse', 'origin/topic~2'), base)
  t.match(await get(1), { head: { sha: await tipOf('topic') }, merge_base: base, changed_files: 2 })
})

t.test('update rule 4: conflicts give 409 with their files, and change nothing', async (t) => {
  const { repository, branch, tipOf, typesOf, get } = await behind(t, 'rule4')
  await branch('main', { 'a.txt': 'of main\n', 'z.txt': 'z\n' }, 'main')
  const head = await branch('topic', { 'z.txt': 'of topic\n' }, 'topic')
  t.match(await update(repository, 1), { status: 409, message: /conflict/, errors: ['a.txt', 'z.txt'] })
  t.match(await update(repository, 1, '?style=rebase'), {
    status: 409,
    message: /conflict/,
    errors: ['a.txt'],
  })
  t.equal(await tipOf('topic'), head)
  await until('the conflict is known', async () => (await get(1)).mergeable === false)
  t.equal((await typesOf(1)).filter((type) => type === 'PullRequestHeadMoved').length, 1, 'the push alone')
})

t.test('an update of what is up to date gives 200 and changes nothing', async (t) => {
  const repository = await pullRepository(t, server, 'current')
  const head = await repository.branch('topic', { a: 'a' })
  await repository.open('topic')
  for (const query of ['', '?style=rebase', '?style=merge']) {
    t.match(await update(repository, 1, query), { status: 200, text: '' }, query)
  }
  t.equal(await tipIn(repository)('topic'), head)
  t.strictSame(await repository.typesOf(1), ['PullRequestOpened'])
})

t.test('an update of what does not exist gives 404', async (t) => {
  const { repository, work } = await behind(t, 'missing')
  for (const index of ['2', '0', '-1', 'x', '9'.repeat(30)]) {
    t.equal(await statusOf(update(repository, index)), 404, index)
  }
  await work.git('push', '-q', 'origin', ':topic')
  t.equal(await statusOf(update(repository, 1)), 404, 'the head branch is gone')
  const fork = await forkBehind(t, 'missing-fork')
  await fork.bob.repos.repoDelete('bob', 'missing-fork')
  t.equal(await statusOf(update(fork.repository, 1)), 404, 'the fork is gone')
  await until('there is nothing to merge', async () => (await fork.get(1)).mergeable === false)
  const secret = await pullRepository(t, server, 'secret', { private: true })
  t.equal(await statusOf(update(secret, 1, '', 'bob')), 404, 'what he may not read')
})

t.test(
  'an update of a head in a fork lands in the fork, and in the base as the head of the pull request',
  async (t) => {
    const { repository, fork, get, head, base, tipOf, work, name } = await forkBehind(t, 'fork')
    t.equal(await statusOf(update(repository, 1, '', 'bob')), 200)
    const tip = await fork.tipOf('topic')
    t.not(tip, head)
    t.match(await get(1), { head: { sha: tip }, merge_base: base, changed_files: 1, mergeable: true })
    t.equal(await tipOf('refs/pull/1/head'), tip)
    t.equal(await tipOf('topic'), '', 'the base has no such branch')
    await work.git('fetch', '-q', 'origin', 'refs/pull/1/head')
    t.equal(
      await work.git('log', '-1', '--format=%P %B', 'FETCH_HEAD'),
      `${head} ${base} Merge branch 'main' into topic`,
    )
    const branches = (await server.anonymous.repos.repoListBranches('bob', name)).data
    t.match(
      branches.find((branch) => branch.name === 'topic'),
      { commit: { id: tip } },
    )

    await repository.branch('main', { more: 'x' }, 'main')
    t.equal(await statusOf(update(repository, 1, '?style=rebase', 'bob')), 200)
    const rebased = await fork.tipOf('topic')
    t.match(await get(1), { head: { sha: rebased } })
    t.equal(await tipOf('refs/pull/1/head'), rebased)
    await fork.work.git('fetch', '-q')
    t.equal(
      await fork.work.git('log', '--format=%s', '-2', 'origin/topic'),
      'Commit on topic\nCommit on main',
    )
    await fork.work.git('fsck', '--strict')
  },
)

t.test('updates and pushes at once lose nothing', async (t) => {
  const { repository, work, get, tipOf, repoId } = await behind(t, 'rush')
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
    for (let i = 0; i < 4; i++) statuses.push(await statusOf(update(repository, 1)))
    return statuses
  })
  const statuses = (await Promise.all(updating)).flat()
  await pushing
  t.strictSame(
    statuses.filter((status) => status !== 200 && status !== 409),
    [],
  )
  await until('the last update is through', async () => (await statusOf(update(repository, 1))) === 200)
  await work.git('fetch', '-q')
  for (const sha of [...pushed, ...bases]) await work.git('merge-base', '--is-ancestor', sha, 'origin/topic')
  t.match(await get(1), { head: { sha: await tipOf('topic') } })
  t.equal(await tipOf('refs/pull/1/head'), await tipOf('topic'))
  const moves: RefUpdate[] = []
  for await (const recorded of server.services.events.readStream(gitStream(repoId))) {
    const event = decode(recorded)
    if (event.type === 'RefsUpdated') {
      moves.push(...event.data.refs.filter(({ ref }) => ref === 'refs/heads/topic'))
    }
  }
  t.strictSame(
    moves.slice(1).map(({ from }) => from),
    moves.slice(0, -1).map(({ to }) => to),
    'move follows upon move',
  )
})

t.test('an update that git has made and the log has not, is recorded by the recovery', async (t) => {
  const { repository, head, get, tipOf, eventsOf } = await behind(t, 'cut-off')
  const { events } = server.services
  const { append } = events
  // The log is away when git has moved the branch.
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
  t.equal(await statusOf(update(repository, 1)), 500)
  t.equal(failed, 1)
  events.append = append
  const tip = await tipOf('topic')
  t.not(tip, head, 'git has it')
  await until('it is recorded', async () => (await get(1)).head?.sha === tip)
  t.match(
    (await eventsOf(1)).find(({ type }) => type === 'PullRequestHeadMoved'),
    { data: { from: head, to: tip } },
  )
  t.equal(await tipOf('refs/pull/1/head'), tip)
  t.equal(await statusOf(update(repository, 1)), 200, 'and is up to date')
})

t.test('an update with the files of the repository gone is no 500', async (t) => {
  const { repository, dir } = await behind(t, 'gone')
  await rename(dir, `${dir}.away`)
  t.teardown(() => rename(`${dir}.away`, dir))
  t.equal(await statusOf(update(repository, 1)), 404)
})
