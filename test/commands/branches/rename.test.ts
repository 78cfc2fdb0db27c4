/** Renames of branches: settings, rules and unmerged pull requests follow. */
import t from 'tap'
import { newContext } from '../../../src/commands/execution/command-context.ts'
import { renameInPulls } from '../../../src/commands/pull-requests/branches/renamed-branches.ts'
import { claimKeys, claimStream, gitStream } from '../../../src/events/streams.ts'
import { until } from '../../until.ts'
import { eventsIn, type PullRepository, startPulls } from '../pull-requests/pull-repository.ts'

const { server, alice, repository } = await startPulls(t)

const rename = (made: PullRepository, from: string, name: string, login = 'alice') =>
  made.call(login, 'PATCH', `branches/${from}`, { name })
const namesOf = async (made: PullRepository, index: number) => {
  const { head, base } = await made.get(index)
  return `${head?.ref} > ${base?.ref}`
}
const holderOf = async (head: string, base: string, { repoId }: PullRepository) => {
  const key = claimKeys.pull({ repoId, branch: head }, { repoId, branch: base })
  const last = (await eventsIn(server, claimStream(key))).at(-1)
  return last?.type === 'ClaimTaken' ? last.data.holder : undefined
}
/** Waits until the process of moved refs has passed those of a repository. */
const settled = async ({ repoId }: PullRepository) => {
  const last = (await eventsIn(server, gitStream(repoId))).at(-1)?.position ?? 0
  await until('the process has passed them', async () => {
    const checkpoint = await server.services.readStore.checkpoint('process_pull_heads')
    return (checkpoint?.position ?? 0) >= last
  })
}

t.test('the default branch is renamed with its rule, and its open and closed pull requests', async (t) => {
  const made = await repository(t, 'default')
  const sha = await made.branch('topic', { a: 'a' })
  const closed = await made.branch('closed', { c: 'c' })
  await made.branch('merged', { m: 'm' })
  const first = await made.open('topic')
  const second = await made.open('closed')
  const third = await made.open('merged')
  await made.merge(third)
  await made.close(second)
  await made.protect('main', { required_approvals: 1, enable_push: false })
  await settled(made)
  const main = await made.tip('main')
  const before = await made.get(first)
  const { body: rule } = await made.call('alice', 'GET', 'branch_protections/main')

  t.equal((await rename(made, 'main', 'trunk')).status, 204)
  t.strictSame([await made.tip('main'), await made.tip('trunk')], [undefined, main])
  t.equal((await alice.repos.repoGet('alice', made.name)).data.default_branch, 'trunk')
  t.equal(await made.work.git('--git-dir', made.dir, 'symbolic-ref', 'HEAD'), 'refs/heads/trunk')
  t.strictSame((await made.call('alice', 'GET', 'branch_protections/trunk')).body, {
    ...rule,
    branch_name: 'trunk',
    rule_name: 'trunk',
  })
  t.equal((await made.call('alice', 'GET', 'branch_protections/main')).status, 404)
  t.match((await made.call('alice', 'GET', 'branches/trunk')).body, { protected: true })

  t.equal(await namesOf(made, first), 'topic > trunk')
  t.equal(await namesOf(made, second), 'closed > trunk')
  t.equal(await namesOf(made, third), 'merged > main', 'a merged one keeps the name that it was merged with')
  const after = await made.get(first)
  const withoutRepositories = ({ head, base, ...rest }: typeof before) => ({
    ...rest,
    head: { ...head, repo: null },
    base: { ...base, repo: null },
  })
  const { base, ...same } = withoutRepositories(before)
  t.strictSame(
    withoutRepositories(after),
    { ...same, base: { ...base, ref: 'trunk', label: 'trunk' } },
    'nothing else of it has changed',
  )
  t.strictSame(await made.changes(first), [
    {
      type: 'PullRequestBranchRenamed',
      data: { ...made.id(first), side: 'base', from: 'main', to: 'trunk' },
    },
  ])
  t.equal(await holderOf('topic', 'trunk', made), `pull-${made.repoId}.${first}`)
  t.equal(await holderOf('topic', 'main', made), undefined)
  t.equal(await holderOf('closed', 'trunk', made), undefined, 'a closed one holds nothing')
  t.equal((await made.tryOpen('topic', { base: 'trunk' })).status, 409)
  t.equal((await made.tryOpen('topic', { base: 'main' })).status, 404)
  t.equal((await made.reopen(second)).body.head.sha, closed)
  t.equal(await holderOf('closed', 'trunk', made), `pull-${made.repoId}.${second}`)
  t.equal((await made.get(first)).head?.sha, sha)
  t.equal((await made.edit(first, { title: 'Other' })).status, 201)
})

t.test('a replay at a moment before the rename shows the old name', async (t) => {
  const made = await repository(t, 'replayed')
  await made.branch('topic', { a: 'a' })
  const index = await made.open('topic')
  await settled(made)
  t.equal((await rename(made, 'topic', 'theme')).status, 204)
  t.equal((await rename(made, 'main', 'trunk')).status, 204)
  const events = await made.eventsOf(index)
  const renames = events.filter(({ type }) => type === 'PullRequestBranchRenamed')
  t.equal(renames.length, 2)
  const at = async (revision: number) => {
    const { body } = await made.call('alice', 'GET', `pulls/${index}/replay?revision=${revision}`)
    return `${body.head.ref} > ${body.base.ref}`
  }
  const [head = 0, base = 0] = renames.map(({ revision }) => revision)
  t.equal(await at(head - 1), 'topic > main')
  t.equal(await at(head), 'theme > main')
  t.equal(await at(base), 'theme > trunk')
})

t.test('head branches are renamed in the pull requests of the repository and of its parent', async (t) => {
  const made = await repository(t, 'heads')
  const fork = await made.fork('bob', 'heads-fork')
  await fork.branch('feature', { f: 'f' })
  const { number: index = 0 } = await made.openPull('bob:feature', {}, 'bob')
  const before = await made.get(index)
  const answer = await server.fetch('bob', '/api/v1/repos/bob/heads-fork/branches/feature', {
    method: 'PATCH',
    body: JSON.stringify({ name: 'idea' }),
  })
  t.equal(answer.status, 204)
  t.equal(await namesOf(made, index), 'idea > main')
  t.equal((await made.get(index)).head?.sha, before.head?.sha)
  const pushed = await fork.branch('idea', { g: 'g' }, 'feature')
  await until('it follows the branch', async () => (await made.get(index)).head?.sha === pushed)
  t.equal((await made.merge(index)).status, 200)
})

t.test(
  'approvals and a scheduled merge stay, and the merge goes into the branch of the new name',
  async (t) => {
    const made = await repository(t, 'scheduled', { writers: ['bob'] })
    await made.protect('main', { required_approvals: 1, enable_status_check: true })
    const sha = await made.branch('topic', { a: 'a' })
    const index = await made.open('topic')
    const approval = await made.call('bob', 'POST', `pulls/${index}/reviews`, { event: 'APPROVED' })
    t.match(approval.body, { official: true, stale: false })
    t.equal((await made.merge(index, { merge_when_checks_succeed: true })).status, 201)
    t.equal((await rename(made, 'main', 'trunk')).status, 204)
    t.equal((await rename(made, 'topic', 'theme')).status, 204)
    const { body: reviews } = await made.call('alice', 'GET', `pulls/${index}/reviews`)
    t.match(reviews, [{ state: 'APPROVED', official: true, stale: false, dismissed: false }])
    t.equal((await made.merge(index)).status, 405, 'the rule asks for the checks still')
    await made.postStatus(sha, 'success')
    await until('it is merged', async () => (await made.get(index)).merged === true)
    const names = (await made.typesOf(index)).filter((type) => /Schedule|Renamed|Refused/.test(type))
    t.strictSame(names, ['MergeScheduled', 'PullRequestBranchRenamed', 'PullRequestBranchRenamed'])
    const started = (await made.eventsOf(index)).find(({ type }) => type === 'MergeStarted')
    t.match(started?.data, { baseBranch: 'trunk' })
  },
)

t.test(
  'admins rename a default branch and one that a rule names; a rule for several names keeps it',
  async (t) => {
    const made = await repository(t, 'rights', { writers: ['bob', 'carol'] })
    await made.writer('carol', 'admin')
    for (const name of ['named', 'late', 'release/1', 'release/5', 'free', 'again'])
      await made.branch(name, { [name.slice(0, 3)]: name })
    await made.protect('named', {})
    await made.protect('release/*', {})
    for (const name of ['kept', 'late', 'release/5']) await made.protect(name, {})
    const log = await server.services.events.lastPosition()
    for (const [login, from, to, status] of [
      ['bob', 'main', 'trunk', 403],
      ['bob', 'named', 'other', 403],
      ['bob', 'release/1', 'other', 403],
      ['carol', 'release/1', 'other', 403],
      ['carol', 'free', 'release/2', 403],
      ['carol', 'release/5', 'other', 403],
      ['carol', 'late', 'release/4', 403],
      ['carol', 'named', 'kept', 422],
      ['carol', 'named', 'a{b,c}', 422],
      ['carol', 'named', 'free', 422],
      ['carol', 'main', 'main', 422],
      ['carol', 'main', 'free/x', 422],
      ['carol', 'missing', 'other', 404],
      ['dave', 'free', 'other', 403],
    ] as const) {
      t.equal((await rename(made, from, to, login)).status, status, `${login}: ${from} to ${to}`)
    }
    t.equal(await server.services.events.lastPosition(), log, 'what is refused writes nothing')
    t.equal((await rename(made, 'free', 'freed', 'bob')).status, 204)
    t.equal((await rename(made, 'named', 'release/3', 'carol')).status, 204, 'its own rule goes with it')
    t.equal((await rename(made, 'main', 'trunk', 'carol')).status, 204)
    const { body: rules } = await made.call('alice', 'GET', 'branch_protections')
    t.same(rules.map(({ rule_name }: { rule_name: string }) => rule_name).sort(), [
      'kept',
      'late',
      'release/*',
      'release/3',
      'release/5',
    ])
  },
)

t.test('a closed pull request does not hold up a rename, and follows it', async (t) => {
  const made = await repository(t, 'twins')
  await made.branch('topic', { a: 'a' })
  const closed = await made.open('topic')
  await made.close(closed)
  const open = await made.open('topic')
  t.equal((await rename(made, 'main', 'trunk')).status, 204)
  t.strictSame(await Promise.all([closed, open].map((index) => namesOf(made, index))), [
    'topic > trunk',
    'topic > trunk',
  ])
  t.match(await made.edit(closed, { state: 'open' }), { status: 409, message: new RegExp(`#${open} `) })
  await made.close(open)
  t.equal((await made.edit(closed, { state: 'open' })).status, 201)
})

t.test('a pull request into a recreated branch of the old name keeps that name', async (t) => {
  const made = await repository(t, 'again')
  await made.branch('topic', { a: 'a' })
  await made.branch('other', { b: 'b' })
  const first = await made.open('topic')
  t.equal((await rename(made, 'main', 'trunk')).status, 204)
  t.equal((await made.call('alice', 'POST', 'branches', { new_branch_name: 'main' })).status, 201)
  const second = await made.open('topic')
  const third = await made.open('other', { base: 'trunk' })
  t.equal((await made.edit(third, { base: 'main' })).status, 201)
  await settled(made)
  const renamed = (await eventsIn(server, gitStream(made.repoId))).find(
    ({ data }) => 'cause' in data && data.cause === 'branch-rename',
  )
  // As the process does after a crash: once more.
  const { repoId } = made
  const context = newContext(null, 'repeated')
  const names = { repoId, from: 'main', to: 'trunk' }
  await renameInPulls(server.services, context, names, renamed?.position ?? 0)
  t.strictSame(await Promise.all([first, second, third].map((index) => namesOf(made, index))), [
    'topic > trunk',
    'topic > main',
    'other > main',
  ])
})
