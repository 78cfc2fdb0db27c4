/** Deletions of branches with open pull requests from them and into them. */
import t from 'tap'
import { newContext } from '../../../src/commands/execution/command-context.ts'
import {
  closeFromDeleted,
  retargetFromDeleted,
} from '../../../src/commands/pull-requests/branches/deleted-branches.ts'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { gitStream } from '../../../src/events/streams.ts'
import { gitDirOf } from '../../../src/services/services.ts'
import { userGit } from '../../git/client.ts'
import { until } from '../../until.ts'
import { eventsIn, type PullRepository, startPulls } from '../pull-requests/pull-repository.ts'

const { server, bob, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
const { services } = server

const stateOf = async (made: PullRepository, index: number) => {
  const { state, head, base } = await made.get(index)
  return `${state}: ${head?.ref} > ${base?.ref}`
}
const lastMove = async ({ repoId }: PullRepository) => {
  const last = (await eventsIn(server, gitStream(repoId))).at(-1)
  if (last?.type !== 'RefsUpdated') throw new Error('no branch has moved')
  return last
}
/** Resolves when the process has handled the last move of a branch. */
async function settled(made: PullRepository) {
  const { position } = await lastMove(made)
  await until('the process has passed it', async () => {
    return ((await services.readStore.checkpoint('process_pull_heads'))?.position ?? 0) >= position
  })
  const last = await services.events.lastPosition()
  await until('queries see what it did', () => services.projector.waitFor(last, 5000))
}

t.test('deleting a head branch closes its open pull requests (API and git push), with events', async (t) => {
  const made = await repository(t, 'heads', { writers: ['bob'] })
  await made.branches('one', 'two', 'kept', 'dev')
  for (const head of ['one', 'one', 'two', 'kept']) {
    const isSecond = head === 'one' && (await made.get(1).catch(() => undefined)) !== undefined
    await made.open(head, isSecond ? { base: 'dev' } : {})
  }
  const before = await made.changes(4)
  t.equal((await made.call('bob', 'DELETE', 'branches/one')).status, 204)
  t.strictSame(await Promise.all([1, 2].map((index) => stateOf(made, index))), [
    'closed: one > main',
    'closed: one > dev',
  ])
  await made.push(':two')
  t.equal(await stateOf(made, 3), 'closed: two > main', 'at once')
  await settled(made)
  const { repoId } = made
  t.match(await made.changes(1), [
    {
      type: 'StatusChanged',
      data: { repoId, index: 1, closed: true, comment: { kind: 'close' }, branchGone: 'head' },
    },
  ])
  const closed = (await made.eventsOf(1)).find(({ type }) => type === 'StatusChanged')
  t.match(closed?.metadata.actor, { login: 'bob' }, 'by who has deleted the branch')
  t.strictSame(await made.changes(4), before, 'another branch')
  t.equal((await made.get(4)).state, 'open')

  await made.branch('one', { again: 'x' })
  t.equal((await made.tryOpen('one')).status, 201, 'it blocks no twin')
})

t.test('deleting a head branch closes the pull requests of other repositories from it', async (t) => {
  const made = await repository(t, 'upstream')
  const fork = await made.fork('bob')
  await fork.branches('topic', 'other')
  for (const head of ['bob:topic', 'bob:other']) await made.open(head, {}, 'bob')
  await fork.push(':topic')
  t.equal(await stateOf(made, 1), 'closed: topic > main')
  await bob.repos.repoDelete('bob', 'upstream')
  await until('so does deleting the fork', async () => (await made.get(2)).state === 'closed')
  t.match((await made.get(2)).head, { ref: 'other', repo: null })
})

t.test(
  'deleting a base branch moves its open pull requests to the default branch, with events',
  async (t) => {
    const made = await repository(t, 'bases', { writers: ['bob'] })
    await made.branch('dev', { d: 'd' })
    const stacked = await made.branch('upper', { u: 'u' }, 'dev')
    await made.branches('twin', 'closed')
    for (const head of ['upper', 'twin', 'closed', 'main']) await made.open(head, { base: 'dev' })
    const twin = await made.open('twin')
    await made.close(3)
    t.equal((await made.call('bob', 'DELETE', 'branches/dev')).status, 204)
    await settled(made)
    t.match(await made.get(1), {
      state: 'open',
      base: { ref: 'main', sha: await made.tip('main') },
      head: { sha: stacked },
      merge_base: await made.tip('main'),
      changed_files: 2,
      mergeable: true,
    })
    const [moved] = await made.changes(1)
    t.match(moved, {
      type: 'TargetBranchChanged',
      data: { from: { branch: 'dev' }, base: { branch: 'main' } },
    })
    t.equal(await stateOf(made, 2), 'closed: twin > dev', 'it has an open twin there')
    t.equal(await stateOf(made, 3), 'closed: closed > dev', 'a closed one stays as it is')
    t.equal(await stateOf(made, 4), 'closed: main > dev', 'it is from the default branch')
    t.equal(await stateOf(made, twin), 'open: twin > main')
    t.match(await made.tryOpen('upper'), { status: 409, message: /#1\b/ }, 'it has the claim')
    t.equal((await made.merge(1)).status, 200)
  },
)

t.test(
  'deleting the branch of a merged pull request moves the pull requests based on it to the default branch',
  async (t) => {
    const made = await repository(t, 'stack')
    await made.branch('lower', { l: 'l' })
    await made.branch('upper', { u: 'u' }, 'lower')
    await made.open('lower')
    await made.open('upper', { base: 'lower' })
    t.equal((await made.merge(1, { delete_branch_after_merge: true })).status, 200)
    t.equal(await made.tip('lower'), undefined)
    await settled(made)
    t.match(await made.get(1), { merged: true, head: { ref: 'lower' } })
    t.match(await made.get(2), { state: 'open', base: { ref: 'main' }, changed_files: 1, mergeable: true })
  },
)

t.test('a scheduled merge ends with the head branch, and with the base branch', async (t) => {
  const made = await repository(t, 'scheduled')
  await made.branches('topic', 'other', 'dev')
  await made.knowsChecks()
  await made.open('topic')
  await made.open('other', { base: 'dev' })
  for (const index of [1, 2]) {
    t.equal((await made.merge(index, { merge_when_checks_succeed: true })).status, 201)
  }
  await made.push(':topic', ':dev')
  await settled(made)
  for (const [index, side] of [
    [1, 'head'],
    [2, 'base'],
  ] as const) {
    const ended = (await made.eventsOf(index)).find(({ type }) => type === 'ScheduledMergeRefused')
    t.match(ended, { data: { reason: `the ${side} branch was deleted` } })
    t.equal((await made.call('alice', 'DELETE', `pulls/${index}/merge`)).status, 404)
  }
})

t.test(
  'a pull request from a branch that is deleted and pushed again can be reopened, and stays open',
  async (t) => {
    const made = await repository(t, 'again')
    const sha = await made.branch('topic', { a: 'a' })
    await made.open('topic')
    await made.push(':topic')
    const move = await lastMove(made)
    t.equal((await made.get(1)).state, 'closed')
    await made.reopen(1)
    t.equal((await made.get(1)).state, 'open', 'also while the branch is gone')
    await settled(made)
    const context = newContext(null, 'repeated')
    const react = async () => {
      await closeFromDeleted(services, context, made.repoId, move.data.refs, move.position)
      await retargetFromDeleted(services, context, made.repoId, move.data.refs, move.position)
    }
    await react()
    t.equal((await made.get(1)).state, 'open', 'a reaction that comes late does not close it again')
    await made.push(`${sha}:refs/heads/topic`)
    await settled(made)
    await react()
    t.match(await made.get(1), { state: 'open', mergeable: true, head: { sha } })
    t.equal((await made.merge(1)).status, 200)
  },
)

t.test('after a crash of a recorded deletion, pull requests from the branch are closed', async (t) => {
  const made = await repository(t, 'died')
  await made.branches('topic')
  await made.open('topic')
  const { events } = services
  services.events = {
    ...events,
    async append(stream, recorded, expected) {
      if (recorded.some(({ type }) => type === 'StatusChanged')) {
        services.events = events
        throw new StoreUnavailable('died')
      }
      return events.append(stream, recorded, expected)
    },
  }
  t.equal((await made.call('alice', 'DELETE', 'branches/topic')).status, 204)
  services.events = events
  await until('the process has closed it', async () => (await made.get(1)).state === 'closed')
  t.equal((await made.changes(1)).length, 1, 'once')
})

t.test('a pull request from a branch whose push is not recorded yet stays open, and is merged', async (t) => {
  const made = await repository(t, 'unrecorded', { writers: ['bob'] })
  await made.branches('one')
  // As when a node crashes between the moves of a push and their event, while another node answers.
  const dir = gitDirOf(services, made.repoId)
  await userGit(dir, ['branch', 'late', 'one'])
  const number = await made.open('late')
  const opened = (await made.eventsOf(number)).find(({ type }) => type === 'PullRequestOpened')
  await until('the process has seen it', async () => {
    const seen = await services.readStore.checkpoint('process_pull_heads')
    return (seen?.position ?? 0) >= (opened?.position ?? Number.POSITIVE_INFINITY)
  })
  t.equal(await stateOf(made, number), 'open: late > main')
  t.equal((await made.call('bob', 'POST', `pulls/${number}/merge`, { Do: 'merge' })).status, 200)
})
