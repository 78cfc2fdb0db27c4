/** The head of a scheduled merge. */
import t from 'tap'
import { recordRefs } from '../../../src/commands/git/record-refs.ts'
import { updateRef } from '../../../src/git/refs/refs.ts'
import { reconcileRefs } from '../../../src/processes/recovery.ts'
import { gitDirOf } from '../../../src/services/services.ts'
import { aContext } from '../../stores.ts'
import { until } from '../../until.ts'
import { type PullRepository, startPulls } from './pull-repository.ts'

const started = await startPulls(t)
const { server } = started

/** A repository with checks: a merge waits for the first one of its head. */
async function repository(...made: Parameters<typeof started.repository>) {
  const own = await started.repository(...made)
  await own.knowsChecks()
  return own
}
const { services } = server

const WHEN_GREEN = { merge_when_checks_succeed: true }
const BY_STRANGER = 'a user who may not merge into the base branch has moved the head'

/** Waits until the schedule has ended; resolves to its reason in the timeline. */
async function reasonIn({ call, typesOf }: PullRepository): Promise<string> {
  await until('the schedule has ended', async () => (await typesOf(1)).includes('ScheduledMergeRefused'))
  await services.projector.waitFor(await services.events.lastPosition(), 60_000)
  const { body } = await call('alice', 'GET', 'issues/1/timeline')
  const rows: { type: string; body: string }[] = body
  return rows.find(({ type }) => type === 'pull_cancel_scheduled_merge')?.body ?? ''
}

/** Checks that successful checks of a head merge nothing. */
async function staysOpen(
  t: Pick<typeof import('tap').t, 'match' | 'notOk'>,
  repo: PullRepository,
  head: string,
) {
  await repo.postStatus(head, 'success')
  t.match(await repo.get(1), { merged: false, state: 'open', head: { sha: head } })
  t.notOk((await repo.typesOf(1)).includes('MergeStarted'))
}

t.test(
  'schedule.4: a scheduled merge keeps the head_commit_id it was given: another head ends the schedule with its reason in the history',
  async (t) => {
    const repo = await repository(t, 'given')
    const { branch, open, merge, eventsOf, get, postStatus } = repo
    const first = await branch('topic', { a: 'a' })
    await open('topic')
    t.equal((await merge(1, { ...WHEN_GREEN, head_commit_id: first })).status, 201)
    t.match((await eventsOf(1)).at(-1), { type: 'MergeScheduled', data: { expectedHead: first } })
    const second = await branch('topic', { b: 'b' }, 'topic')
    t.equal(await reasonIn(repo), `head_commit_id: the head has moved to ${second}`)
    t.match(
      (await eventsOf(1)).find(({ type }) => type === 'ScheduledMergeRefused'),
      { data: { head: second }, metadata: { actor: { login: 'alice' } } },
    )
    await staysOpen(t, repo, second)
    await postStatus(first, 'success')
    t.match(await get(1), { merged: false })
    t.equal((await merge(1, { ...WHEN_GREEN, head_commit_id: second })).status, 200, 'it may be asked again')
  },
)

t.test('a scheduled merge with the head_commit_id of its head is merged', async (t) => {
  const { branch, open, merge, get, postStatus } = await repository(t, 'kept')
  const head = await branch('topic', { a: 'a' })
  await open('topic')
  t.equal((await merge(1, { ...WHEN_GREEN, head_commit_id: head })).status, 201)
  await postStatus(head, 'success')
  await until('it is merged', async () => (await get(1)).merged === true)
})

t.test(
  'schedule.4: without head_commit_id a head moved by someone who may not write to the base repository ends the schedule as well',
  async (t) => {
    const repo = await repository(t, 'stranger')
    const own = await repo.fork('bob')
    await own.branch('topic', { a: 'a' })
    await repo.open('bob:topic', {}, 'bob')
    t.equal((await repo.merge(1, WHEN_GREEN)).status, 201)
    const moved = await own.branch('topic', { b: 'b' }, 'topic')
    t.equal(await reasonIn(repo), BY_STRANGER)
    await staysOpen(t, repo, moved)
  },
)

t.test('a head that a stranger and then a writer moved at once ends the schedule', async (t) => {
  const repo = await repository(t, 'both')
  const own = await repo.fork('bob')
  const first = await own.branch('topic', { a: 'a' })
  await repo.open('bob:topic', {}, 'bob')
  t.equal((await repo.merge(1, WHEN_GREEN)).status, 201)
  const [alice, bob] = await Promise.all(
    ['alice', 'bob'].map((loginKey) => services.views.accounts.findOne({ loginKey })),
  )
  if (alice === undefined || bob === undefined) throw new Error('no accounts')
  const ofBob = await own.commit('Of bob', { b: 'b' })
  const ofAlice = await own.commit('Of alice', { c: 'c' })
  const ref = 'refs/heads/topic'
  await updateRef(gitDirOf(services, own.repoId), ref, { from: first, to: ofAlice })
  const moves = [
    { by: bob, from: first, to: ofBob },
    { by: alice, from: ofBob, to: ofAlice },
  ]
  for (const { by, from, to } of moves) {
    const context = aContext({ actor: { id: by.id, login: by.login } })
    await recordRefs(services, context, own.repoId, 'push', [{ ref, from, to }], 'any')
  }
  t.equal(await reasonIn(repo), BY_STRANGER)
  await until('the last move is there', async () => (await repo.get(1)).head?.sha === ofAlice)
  await staysOpen(t, repo, ofAlice)
})

t.test('a head that an unknown user moved before a crash ends the schedule', async (t) => {
  const repo = await repository(t, 'crash')
  const first = await repo.branch('topic', { a: 'a' })
  await repo.open('topic')
  t.equal((await repo.merge(1, WHEN_GREEN)).status, 201)
  const second = await repo.commit('Only git knows it', { b: 'b' })
  await updateRef(repo.dir, 'refs/heads/topic', { from: first, to: second })
  // The checks of the old head succeed before the log has the move.
  await repo.postStatus(first, 'success')
  t.match(await repo.get(1), { merged: false })
  await reconcileRefs(services, repo.repoId)
  t.equal(await reasonIn(repo), BY_STRANGER)
  await staysOpen(t, repo, second)
})

t.test('a base branch that a poster without write access chooses ends the schedule', async (t) => {
  const repo = await repository(t, 'base')
  await repo.branch('dev', { d: 'd' })
  const own = await repo.fork('bob')
  const head = await own.branch('topic', { a: 'a' })
  await repo.open('bob:topic', { base: 'dev' }, 'bob')
  t.equal((await repo.merge(1, WHEN_GREEN)).status, 201)
  t.equal((await repo.edit(1, { base: 'main' }, 'bob')).status, 201)
  t.equal(await reasonIn(repo), 'another user has changed the base branch')
  await staysOpen(t, repo, head)
})

for (const withHead of [false, true]) {
  const given = withHead ? 'with' : 'without'
  t.test(
    `a base branch that a writer chooses ends the schedule of another user, ${given} head_commit_id`,
    async (t) => {
      const repo = await repository(t, `chosen-${given}`, { writers: ['bob'] })
      await repo.protect('main', { enable_merge_whitelist: true, merge_whitelist_usernames: ['alice'] })
      await repo.branch('dev', { d: 'd' })
      const head = await repo.branch('topic', { a: 'a' })
      await repo.open('topic', { base: 'dev' }, 'bob')
      const schedule = { ...WHEN_GREEN, ...(withHead && { head_commit_id: head }) }
      t.equal((await repo.merge(1, schedule)).status, 201)
      t.equal((await repo.edit(1, { base: 'main' }, 'bob')).status, 201)
      t.equal(await reasonIn(repo), 'another user has changed the base branch')
      await staysOpen(t, repo, head)
    },
  )
}

t.test('schedule.4: a base branch that the user of the schedule chooses keeps it', async (t) => {
  const repo = await repository(t, 'own-choice')
  await repo.branch('dev', { d: 'd' })
  const head = await repo.branch('topic', { a: 'a' })
  await repo.open('topic', { base: 'dev' })
  t.equal((await repo.merge(1, WHEN_GREEN)).status, 201)
  t.equal((await repo.edit(1, { base: 'main' })).status, 201)
  await repo.postStatus(head, 'success')
  await until('it is merged', async () => (await repo.get(1)).merged === true)
})

t.test('a head that a writer who may not merge into the base branch moved ends the schedule', async (t) => {
  const repo = await repository(t, 'writer', { writers: ['bob', 'carol'] })
  const mergers = ['alice', 'carol']
  await repo.protect('main', { enable_merge_whitelist: true, merge_whitelist_usernames: mergers })
  await repo.branch('topic', { a: 'a' })
  await repo.open('topic')
  t.equal((await repo.merge(1, WHEN_GREEN)).status, 201)
  const change = (login: string, path: string) =>
    repo.call(login, 'POST', `contents/${path}`, { branch: 'topic', content: 'eA==' })
  const byCarol = await change('carol', 'carol')
  t.equal(byCarol.status, 201)
  await until('the head has moved', async () => (await repo.get(1)).head?.sha === byCarol.body.commit.sha)
  t.notOk((await repo.typesOf(1)).includes('ScheduledMergeRefused'), 'who may merge keeps it')
  const byBob = await change('bob', 'bob')
  t.equal(byBob.status, 201)
  t.equal(await reasonIn(repo), BY_STRANGER)
  await staysOpen(t, repo, byBob.body.commit.sha)
})
