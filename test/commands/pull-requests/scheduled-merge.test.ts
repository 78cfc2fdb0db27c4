import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextIteration } from 'node:timers/promises'
import t from 'tap'
import { mergeLockKey } from '../../../src/commands/pull-requests/finish-merge.ts'
import { type Merge, mergePull } from '../../../src/commands/pull-requests/merge-pull.ts'
import { scheduleMerge } from '../../../src/commands/pull-requests/schedule.decider.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import { checksStream, pullStream } from '../../../src/events/streams.ts'
import { GitTookTooLong } from '../../../src/git/process/errors.ts'
import { contextOf, processCheckpoint } from '../../../src/processes/process-manager.ts'
import { createScheduledMerges } from '../../../src/processes/pull-requests/scheduled-merges.ts'
import { openSqliteReadStore } from '../../../src/projections/store/sqlite/sqlite.ts'
import { gitDirOf, type Services } from '../../../src/services/services.ts'
import { quiet } from '../../queries/history/replay/recorded-answers.ts'
import { startTestServer } from '../../start-server.ts'
import { aContext } from '../../stores.ts'
import { until } from '../../until.ts'
import { eventsIn, type PullRepository, startPulls, type Test } from './pull-repository.ts'

const started = await startPulls(t, { LOG_LEVEL: 'silent' })
const { server, alice } = started

/** A repository with checks: a merge waits for the first one of its head. */
async function repository(...made: Parameters<typeof started.repository>) {
  const own = await started.repository(...made)
  await own.knowsChecks()
  return own
}

const WHEN_GREEN = { merge_when_checks_succeed: true }

/** The process with its own worker, which ignores other schedules. */
function scheduledMerges(
  t: Test,
  services: Services,
  options: Parameters<typeof createScheduledMerges>[2] = {},
) {
  const ending = new AbortController()
  const pulls = { ...services.views.pulls, ids: async () => [] }
  const { manager, start, stopped } = createScheduledMerges(
    { ...services, views: { ...services.views, pulls } },
    ending.signal,
    options,
  )
  start(() => 'here')
  t.teardown(async () => {
    ending.abort()
    await stopped()
  })
  return manager
}

/** An event as its command would append it. */
function written(event: DomainEvent) {
  const metadata = {
    actor: null,
    at: new Date().toISOString(),
    correlationId: 'test',
    causationId: 'test',
    schema: 1,
  }
  return [{ id: randomUUID(), type: event.type, data: event.data, metadata }]
}

t.test('merge.6: a merge is scheduled with 201 and no body, and nothing is merged yet', async (t) => {
  const { branch, open, merge, get, postStatus, eventsOf } = await repository(t, 'rule6')
  const head = await branch('topic', { a: 'a' })
  await open('topic')
  await postStatus(head, 'pending')
  const answer = await merge(1, { ...WHEN_GREEN, MergeTitleField: ' Own ', MergeMessageField: 'text' })
  t.match(answer, { status: 201, text: '' })
  t.match(await get(1), { state: 'open', merged: false })
  t.match((await eventsOf(1)).at(-1), {
    type: 'MergeScheduled',
    data: { style: 'merge', deleteBranch: false, by: { login: 'alice' } },
    metadata: { actor: { login: 'alice' } },
  })
})

t.test('merge.6: a second schedule gives 409, for any user', async (t) => {
  const { branch, open, merge, writer, typesOf, postStatus } = await repository(t, 'rule6-twice')
  const head = await branch('topic', { a: 'a' })
  await open('topic')
  await writer('bob')
  t.equal((await merge(1, WHEN_GREEN)).status, 201)
  t.equal((await merge(1, WHEN_GREEN)).status, 409)
  t.equal((await merge(1, { ...WHEN_GREEN, Do: 'squash' }, 'bob')).status, 409)
  const racing = await repository(t, 'rule6-race')
  await racing.branch('topic', { a: 'a' })
  await racing.open('topic')
  const statuses = await Promise.all(
    Array.from({ length: 5 }, async () => (await racing.merge(1, WHEN_GREEN)).status),
  )
  t.strictSame(statuses.sort(), [201, 409, 409, 409, 409])
  t.strictSame(await typesOf(1), ['PullRequestOpened', 'MergeScheduled'])
  await postStatus(head, 'success')
  t.equal((await merge(1, WHEN_GREEN)).status, 405, 'merged')
})

t.test('merge.6: when the checks have succeeded it is merged at once, with 200', async (t) => {
  const { branch, open, merge, get, postStatus, typesOf } = await repository(t, 'rule6-green')
  const head = await branch('topic', { a: 'a' })
  await open('topic')
  await postStatus(head, 'success', 'one')
  await postStatus(head, 'success', 'two')
  t.match(await merge(1, WHEN_GREEN), { status: 200, text: '' })
  t.match(await get(1), { merged: true, merged_by: { login: 'alice' } })
  t.notOk((await typesOf(1)).includes('MergeScheduled'))
})

t.test('merge.6: a merge that is not allowed cannot be scheduled', async (t) => {
  const { branches, open, merge, typesOf, close } = await repository(t, 'rule6-refused')
  await branches('one', 'two', 'three')
  await open('one')
  await open('two', { title: 'WIP: two' })
  await open('three')
  t.equal((await merge(1, WHEN_GREEN, 'carol')).status, 405, 'not by who may not merge')
  t.equal((await merge(1, { ...WHEN_GREEN, Do: 'octopus' })).status, 405)
  t.equal((await merge(1, { ...WHEN_GREEN, head_commit_id: '1'.repeat(40) })).status, 409)
  t.equal((await merge(2, WHEN_GREEN)).status, 405, 'not a work in progress')
  await close(3)
  t.equal((await merge(3, WHEN_GREEN)).status, 404, 'not a closed one')
  t.equal((await merge(9, WHEN_GREEN)).status, 404)
  t.strictSame(await typesOf(1), ['PullRequestOpened'])
})

t.test('schedule.3: a rule that only asks for approvals merges after the approval', async (t) => {
  const { branches, open, merge, get, protect, call, eventsOf } = await started.repository(t, 'approvals', {
    writers: ['bob'],
  })
  await branches('topic')
  await protect('main', { required_approvals: 1 })
  await open('topic')
  t.match(await merge(1, WHEN_GREEN), { status: 201, text: '' })
  t.match((await eventsOf(1)).at(-1), { type: 'MergeScheduled', data: { waitsFor: ['reviews'] } })
  t.equal((await merge(1)).status, 405, 'the rule holds')
  t.match(await get(1), { merged: false })
  await call('bob', 'POST', 'pulls/1/reviews', { event: 'APPROVED' })
  await until('it is merged', async () => (await get(1)).merged === true)
  t.match(await get(1), { merged_by: { login: 'alice' } })
})

t.test(
  'schedule.3: where no rule asks for checks and no commit has ever had a status, it merges at once after its 201',
  async (t) => {
    const { branches, open, merge, get, protect, typesOf, eventsOf } = await started.repository(t, 'nothing')
    await branches('topic', 'other', 'dev')
    await open('topic')
    t.match(await merge(1, { ...WHEN_GREEN, delete_branch_after_merge: true }), { status: 201, text: '' })
    await until('it is merged', async () => (await get(1)).merged === true)
    t.match(
      (await eventsOf(1)).find(({ type }) => type === 'MergeScheduled'),
      { data: { waitsFor: [] } },
    )
    t.strictSame(
      (await typesOf(1)).filter((type) => type.startsWith('Merge') && type !== 'MergeabilityChecked'),
      ['MergeScheduled', 'MergeStarted'],
    )
    await protect('dev', { enable_status_check: true, status_check_contexts: ['ci'] })
    await open('other', { base: 'dev' })
    t.equal((await merge(2, WHEN_GREEN)).status, 201)
    t.match((await eventsOf(2)).at(-1), { data: { waitsFor: ['required-checks'] } }, 'a rule asks for checks')
    t.match(await get(2), { merged: false })
  },
)

t.test(
  'schedule.3: where the repository knows statuses, it waits for the first one of this head',
  async (t) => {
    const { branch, open, merge, get, postStatus, eventsOf, protect, call } = await repository(t, 'knows', {
      writers: ['bob'],
    })
    const head = await branch('topic', { a: 'a' })
    await open('topic')
    t.equal((await merge(1, WHEN_GREEN)).status, 201)
    t.match((await eventsOf(1)).at(-1), { data: { waitsFor: ['first-check'] } })
    t.match(await get(1), { merged: false }, 'a check may not have started')
    await postStatus(head, 'pending')
    t.match(await get(1), { merged: false })
    await postStatus(head, 'success')
    await until('it is merged', async () => (await get(1)).merged === true)

    await protect('main', { required_approvals: 1 })
    const next = await branch('next', { b: 'b' })
    await open('next')
    await postStatus(next, 'pending')
    t.equal((await merge(2, WHEN_GREEN)).status, 201)
    t.match((await eventsOf(2)).at(-1), { data: { waitsFor: ['reviews', 'checks'] } })
    await call('bob', 'POST', 'pulls/2/reviews', { event: 'APPROVED' })
    await postStatus(next, 'success')
    await until('it is merged', async () => (await get(2)).merged === true)
  },
)

t.test(
  'merge.2: a request that is known to conflict is 405 before it is scheduled, and 409 when it is merged at once',
  async (t) => {
    const { branch, open, merge, get, typesOf } = await repository(t, 'conflicts')
    await branch('topic', { 'a.txt': 'of topic\n' })
    await open('topic')
    await branch('main', { 'a.txt': 'of main\n' }, 'main')
    await until('the conflict is known', async () => (await get(1)).mergeable === false)
    t.match(await merge(1, WHEN_GREEN), { status: 405, message: /has conflicts/ })
    t.notOk((await typesOf(1)).includes('MergeScheduled'))
    t.equal((await merge(1)).status, 409, 'merge.7')
  },
)

t.test('a head that moves during an immediate merge is not merged', async (t) => {
  const { branch, open, merge, get, postStatus, repoId } = await repository(t, 'at-once')
  const green = await branch('topic', { a: 'a' })
  await open('topic')
  await postStatus(green, 'success')
  const { services } = server
  const [document, merger] = await Promise.all([
    services.views.repositories.get(`${repoId}`),
    services.views.accounts.findOne({ loginKey: 'alice' }),
  ])
  if (!document || !merger) throw new Error('no documents')
  const wanted: Merge = {
    repository: document,
    index: 1,
    merger,
    request: { style: 'merge', force: false, scheduling: true },
    fields: { title: '', message: '' },
    manualCommit: '',
    deleteBranch: false,
  }
  const context = aContext({ actor: { id: merger.id, login: merger.login } })
  const ready = await scheduleMerge(services, context, wanted)
  if (ready === undefined) throw new Error('the checks were green')
  await branch('topic', { a: 'b' })
  const error: unknown = await mergePull(services, context, ready).catch((reason: unknown) => reason)
  t.match(error, { refusal: { refused: 'conflict' } })
  t.match(await get(1), { merged: false })
  t.equal((await merge(1, WHEN_GREEN)).status, 201, 'the new head has no checks: it waits')
})

t.test('merge.6: with an Idempotency-Key a schedule gives 201 again, also when it has merged', async (t) => {
  const { branch, open, merge, get, postStatus, typesOf } = await repository(t, 'rule6-retry')
  const head = await branch('topic', { a: 'a' })
  await open('topic')
  const key = { 'idempotency-key': 'once' }
  const retried = async () => (await merge(1, WHEN_GREEN, 'alice', key)).status
  t.strictSame([await retried(), await retried()], [201, 201])
  t.equal((await merge(1, { ...WHEN_GREEN, Do: 'squash' }, 'alice', key)).status, 422, 'another body')
  await postStatus(head, 'success')
  await until('it is merged', async () => (await get(1)).merged === true)
  t.equal(await retried(), 201)
  t.equal((await typesOf(1)).filter((type) => type === 'MergeScheduled').length, 1)

  const second = await branch('second', { b: 'b' })
  await open('second')
  await postStatus(second, 'success')
  const atOnce = async () => (await merge(2, WHEN_GREEN, 'alice', key)).status
  t.strictSame([await atOnce(), await atOnce()], [200, 200], 'so does one that was merged at once')
  t.equal((await typesOf(2)).filter((type) => type === 'PullRequestMerged').length, 1)
})

t.test('schedule.1: 204 when its user or an admin cancels it, 403 for others, 404 without one', async (t) => {
  const { branch, open, merge, writer, call, postStatus, get, eventsOf } = await repository(t, 'cancel', {
    writers: ['bob', 'carol'],
  })
  const head = await branch('topic', { a: 'a' })
  await open('topic')
  await writer('dave', 'admin')
  const cancel = async (login: string | null, index = '1') =>
    (await call(login, 'DELETE', `pulls/${index}/merge`)).status
  t.equal(await cancel('alice'), 404, 'none is scheduled')
  t.equal(await cancel('alice', '7'), 404)
  t.equal(await cancel('alice', 'x'), 404)

  t.equal((await merge(1, WHEN_GREEN, 'bob')).status, 201)
  t.equal(await cancel(null), 401)
  t.equal(await cancel('carol'), 403, 'another writer')
  t.equal(await cancel('bob'), 204, 'who scheduled it')
  t.equal(await cancel('bob'), 404, 'there is none any more')
  t.match((await eventsOf(1)).at(-1), { type: 'MergeScheduleCanceled', data: { by: { login: 'bob' } } })

  for (const admin of ['dave', 'alice', 'admin']) {
    t.equal((await merge(1, WHEN_GREEN, 'bob')).status, 201, 'it can be scheduled again')
    t.equal(await cancel(admin), 204, admin)
  }
  await postStatus(head, 'success')
  t.match(await get(1), { merged: false }, 'what is canceled does not happen')
})

t.test(
  'schedule.2: merges as the user who scheduled it, with the style, title, message and flag',
  async (t) => {
    const { branch, open, merge, writer, postStatus, get, work, tip, eventsOf } = await repository(t, 'whose')
    await branch('topic', { a: 'a' })
    const head = await branch('topic', { b: 'b' }, 'topic')
    await open('topic')
    await writer('bob')
    const fields = { MergeTitleField: 'Own title', MergeMessageField: 'Own text' }
    const scheduled = { ...WHEN_GREEN, ...fields, Do: 'squash', delete_branch_after_merge: true }
    t.equal((await merge(1, scheduled, 'bob')).status, 201)
    await postStatus(head, 'pending', 'one')
    await postStatus(head, 'success', 'two')
    t.match(await get(1), { merged: false }, 'one is pending')
    await postStatus(head, 'failure', 'one')
    t.match(await get(1), { merged: false }, 'one has failed, and may be run again')
    await postStatus(head, 'success', 'one')
    await until('it is merged', async () => (await get(1)).merged === true)
    t.match(await get(1), { merged_by: { login: 'bob' }, state: 'closed' })
    const merged = (await eventsOf(1)).find(({ type }) => type === 'PullRequestMerged')
    t.match(merged, {
      data: { style: 'squash', head, mergedBy: { login: 'bob' }, deleteBranch: true },
      metadata: { actor: { login: 'bob' } },
    })
    await until('the branch is gone', async () => (await tip('topic')) === undefined)
    await work.git('fetch', '-q')
    t.equal(await work.git('log', '-1', '--format=%B', 'origin/main'), 'Own title\n\nOwn text')
    t.equal(await work.git('log', '-1', '--format=%P', 'origin/main'), await work.git('rev-parse', 'main'))
    t.equal(await work.git('log', '-1', '--format=%cn', 'origin/main'), 'bob')
  },
)

t.test(
  'schedule.3: the contexts that the base branch requires must succeed, and no other contexts',
  async (t) => {
    const { branch, open, merge, protect, postStatus, get, call } = await repository(t, 'required')
    await protect('main', {
      enable_push: true,
      enable_status_check: true,
      status_check_contexts: ['ci/*', 'lint'],
    })
    const head = await branch('topic', { a: 'a' })
    await open('topic')
    t.equal((await merge(1)).status, 405)
    t.equal((await merge(1, WHEN_GREEN)).status, 201)
    await postStatus(head, 'success', 'other')
    await postStatus(head, 'success', 'ci/test')
    t.match(await get(1), { merged: false })
    await postStatus(head, 'failure', 'other')
    await postStatus(head, 'success', 'lint')
    await until('it is merged', async () => (await get(1)).merged === true)

    const second = await branch('second', { b: 'b' })
    await open('second')
    t.equal((await merge(2, WHEN_GREEN)).status, 201)
    await postStatus(second, 'success', 'other')
    t.match(await get(2), { merged: false })
    const edit = { enable_status_check: false }
    t.equal((await call('alice', 'PATCH', 'branch_protections/main', edit)).status, 200)
    await until('nothing is required any more', async () => (await get(2)).merged === true)
  },
)

t.test('scheduled merge: checks of another commit do not count, such as before a rebase', async (t) => {
  const { branch, open, merge, postStatus, get, typesOf, work } = await repository(t, 'rebased')
  const green = await branch('topic', { a: 'a' })
  await open('topic')
  await postStatus(green, 'pending', 'slow')
  await postStatus(green, 'success', 'fast')
  t.equal((await merge(1, WHEN_GREEN)).status, 201)
  await branch('main', { m: 'm' }, 'main')
  const red = await branch('topic', { a: 'rebased' }, 'main')
  t.match(await get(1), { head: { sha: red } })
  await postStatus(green, 'success', 'slow')
  t.match(await get(1), { merged: false }, 'the old head is all green, after the push')
  await postStatus(red, 'failure', 'fast')
  await postStatus(red, 'success', 'slow')
  t.match(await get(1), { merged: false }, 'the new head is red')

  await work.git('push', '-q', '-f', 'origin', `${green}:topic`)
  await until('a head that is green already is merged', async () => (await get(1)).merged === true)
  await work.git('fetch', '-q')
  t.equal(
    await work.git('log', '-1', '--format=%P', 'origin/main'),
    `${await work.git('rev-parse', 'main')} ${green}`,
  )
  t.notOk((await typesOf(1)).includes('ScheduledMergeRefused'))
})

t.test('schedule.4: a new head whose checks succeed is merged', async (t) => {
  const { branch, open, merge, postStatus, get, eventsOf } = await repository(t, 'new-head')
  const red = await branch('topic', { a: 'a' })
  await open('topic')
  await postStatus(red, 'failure')
  t.equal((await merge(1, WHEN_GREEN)).status, 201)
  const green = await branch('topic', { a: 'b' }, 'topic')
  t.match(await get(1), { merged: false })
  await postStatus(green, 'success')
  await until('it is merged', async () => (await get(1)).merged === true)
  t.match(
    (await eventsOf(1)).find(({ type }) => type === 'PullRequestMerged'),
    { data: { head: green } },
  )
})

t.test('scheduled merge: merges into a new base branch that requires less', async (t) => {
  const { branch, open, merge, postStatus, get, protect, edit } = await repository(t, 'new-base')
  await branch('dev', { d: 'd' })
  const head = await branch('topic', { a: 'a' })
  await protect('main', { enable_push: true, enable_status_check: true, status_check_contexts: ['never'] })
  await open('topic')
  t.equal((await merge(1, WHEN_GREEN)).status, 201)
  await postStatus(head, 'success')
  t.match(await get(1), { merged: false })
  t.equal((await edit(1, { base: 'dev' })).status, 201)
  await until('it is merged', async () => (await get(1)).merged === true)
})

t.test(
  'scheduled merge: runs once although several events start it, and one of the events comes twice',
  async (t) => {
    const { branch, open, merge, call, get, typesOf, work, eventsOf } = await repository(t, 'once')
    const head = await branch('topic', { a: 'a' })
    await open('topic')
    t.equal((await merge(1, WHEN_GREEN)).status, 201)
    const scheduled = (await eventsOf(1)).find(({ type }) => type === 'MergeScheduled')
    if (scheduled === undefined) throw new Error('not scheduled')
    const contexts = ['a', 'b', 'c', 'd', 'e', 'f']
    const statuses = await Promise.all(
      contexts.map(
        async (context) =>
          (await call('alice', 'POST', `statuses/${head}`, { state: 'success', context })).status,
      ),
    )
    t.strictSame(new Set(statuses), new Set([201]))
    const manager = scheduledMerges(t, server.services)
    await Promise.all([1, 2, 3].map(() => manager.react(scheduled, contextOf(scheduled))))
    await manager.react(scheduled, contextOf(scheduled))
    // The server's own process may be the one that merges; it has handled all statuses then.
    await quiet(server)
    t.match(await get(1), { merged: true })
    t.strictSame(await typesOf(1), [
      'PullRequestOpened',
      'MergeScheduled',
      'MergeStarted',
      'PullRequestMerged',
    ])
    await work.git('fetch', '-q')
    t.equal(await work.git('rev-list', '--count', '--merges', 'origin/main'), '1')
  },
)

t.test('schedule.5: a refusal is recorded with its reason, and ends the schedule', async (t) => {
  const { name, branch, open, merge, postStatus, get, call, writer, edit, eventsOf } = await repository(
    t,
    'refused',
  )
  const refusalOf = async (index: number) => {
    const last = (await eventsOf(index)).find(({ type }) => type === 'ScheduledMergeRefused')
    return last?.type === 'ScheduledMergeRefused' ? last.data : undefined
  }
  const ends = async (index: number, sha: string) => {
    await until('it is refused', async () => (await refusalOf(index)) !== undefined)
    t.match(await get(index), { state: 'open', merged: false })
    t.equal((await call('alice', 'DELETE', `pulls/${index}/merge`)).status, 404, 'nothing is scheduled')
    await postStatus(sha, 'success', 'again')
    t.match(await get(index), { merged: false })
    return await refusalOf(index)
  }

  await t.test('conflicts, with their files', async (t) => {
    const head = await branch('clash', { 'x.txt': 'mine\n' })
    const index = await open('clash')
    t.equal((await merge(index, WHEN_GREEN)).status, 201)
    await branch('main', { 'x.txt': 'theirs\n' }, 'main')
    await postStatus(head, 'success')
    t.match(await ends(index, head), { reason: /conflict/, errors: ['x.txt'], head })
  })

  await t.test('a work in progress', async (t) => {
    const head = await branch('wip', { w: 'w' })
    const index = await open('wip')
    t.equal((await merge(index, WHEN_GREEN)).status, 201)
    await edit(index, { title: 'WIP: wip' })
    await postStatus(head, 'success')
    t.match(await ends(index, head), { reason: /work in progress/ })
    t.equal((await edit(index, { title: 'Done' })).status, 201)
    t.equal((await merge(index, WHEN_GREEN)).status, 200, 'it can be asked for again')
  })

  await t.test('a permission that was lost', async (t) => {
    await writer('bob')
    const head = await branch('lost', { l: 'l' })
    const index = await open('lost')
    t.equal((await merge(index, WHEN_GREEN, 'bob')).status, 201)
    await call('alice', 'DELETE', 'collaborators/bob')
    await postStatus(head, 'success')
    t.match(await ends(index, head), { reason: /not allowed/ })
    const refused = (await eventsOf(index)).find(({ type }) => type === 'ScheduledMergeRefused')
    t.match(refused?.metadata.actor, { login: 'bob' })
  })

  await t.test('a style that is not allowed any more', async (t) => {
    const head = await branch('style', { s: 's' })
    const index = await open('style')
    t.equal((await merge(index, { ...WHEN_GREEN, Do: 'rebase' })).status, 201)
    await alice.repos.repoEdit('alice', name, { allow_rebase: false })
    await postStatus(head, 'success')
    t.match(await ends(index, head), { reason: /rebase is not allowed/ })
  })
})

t.test(
  'schedule.5: closing the pull request cancels it, and opening it again does not bring it back',
  async (t) => {
    const { branch, open, merge, postStatus, get, typesOf, close, reopen, eventsOf } = await repository(
      t,
      'closed',
    )
    const head = await branch('topic', { a: 'a' })
    await open('topic')
    t.equal((await merge(1, WHEN_GREEN)).status, 201)
    t.equal((await close(1)).status, 201)
    t.match((await eventsOf(1)).at(-1), { type: 'MergeScheduleCanceled', data: { by: { login: 'alice' } } })
    await postStatus(head, 'success')
    t.equal((await reopen(1)).status, 201)
    await postStatus(head, 'success', 'again')
    t.match(await get(1), { merged: false, state: 'open' })
    t.notOk((await typesOf(1)).includes('MergeStarted'))
  },
)

t.test('scheduled merge: an ordinary merge ends it', async (t) => {
  const { branch, open, merge, postStatus, get, call, typesOf } = await repository(t, 'by-hand')
  const head = await branch('topic', { a: 'a' })
  await open('topic')
  t.equal((await merge(1, WHEN_GREEN)).status, 201)
  t.equal((await merge(1)).status, 200)
  t.equal((await call('alice', 'DELETE', 'pulls/1/merge')).status, 404)
  await postStatus(head, 'success')
  t.match(await get(1), { merged: true })
  t.strictSame(
    (await server.services.views.pulls.find({ scheduled: true, index: 1 })).filter(({ merged }) => merged),
    [],
  )
  t.equal((await typesOf(1)).at(-1), 'PullRequestMerged')
})

/** Makes the process try a scheduled merge first, with green checks, and with `services` instead of the server's. */
async function tryFirst(
  t: Test,
  { repoId, eventsOf, call }: PullRepository,
  head: string,
  services: Services,
): Promise<void> {
  const scheduled = (await eventsOf(1)).find(({ type }) => type === 'MergeScheduled')
  if (scheduled === undefined) throw new Error('not scheduled')
  const { promise: gate, resolve: openGate } = Promise.withResolvers<void>()
  const before = services.runExclusive(mergeLockKey(repoId), () => gate)
  const { promise: isFound, resolve: found } = Promise.withResolvers<void>()
  const pulls = {
    ...services.views.pulls,
    find: async (...asked: Parameters<Services['views']['pulls']['find']>) => {
      const documents = await services.views.pulls.find(...asked)
      found()
      return documents
    },
  }
  const manager = scheduledMerges(t, { ...services, views: { ...services.views, pulls } })
  const trying = manager.react(scheduled, contextOf(scheduled))
  await isFound
  await nextIteration()
  const { status } = await call('alice', 'POST', `statuses/${head}`, { state: 'success', context: 'ci' })
  openGate()
  if (status !== 201) throw new Error(`the status gave ${status}`)
  await before
  await trying
}

t.test('scheduled merge: a push into the base at the same moment does not lose it', async (t) => {
  const repo = await repository(t, 'overtaken')
  const { branch, open, merge, get, typesOf, work } = repo
  const head = await branch('topic', { a: 'a' })
  await open('topic')
  t.equal((await merge(1, WHEN_GREEN)).status, 201)
  const { events } = server.services
  let pushed = ''
  const append: typeof events.append = async (stream, batch, expected) => {
    const appended = await events.append(stream, batch, expected)
    // The intent is recorded; now the base moves.
    if (batch[0]?.type === 'MergeStarted') pushed = await branch('main', { pushed: 'x' }, 'main')
    return appended
  }
  await tryFirst(t, repo, head, { ...server.services, events: { ...events, append } })
  t.not(pushed, '')
  await until('it is merged', async () => (await get(1)).merged === true)
  t.strictSame(
    (await typesOf(1)).slice(1).filter((type) => type !== 'MergeabilityChecked'),
    ['MergeScheduled', 'MergeStarted', 'MergeFailed', 'MergeStarted', 'PullRequestMerged'],
  )
  await work.git('fetch', '-q')
  t.equal(await work.git('log', '-1', '--format=%P', 'origin/main'), `${pushed} ${head}`)
})

t.test('scheduled merge: one that is canceled during an attempt does not happen', async (t) => {
  const repo = await repository(t, 'canceled')
  const { branch, open, merge, get, typesOf, postStatus, repoId } = repo
  const head = await branch('topic', { a: 'a' })
  await open('topic')
  t.equal((await merge(1, WHEN_GREEN)).status, 201)
  const { views, events } = server.services
  const accounts = {
    ...views.accounts,
    get: async (id: string) => {
      const by = { id: Number(id), login: 'alice' }
      const canceled = written({ type: 'MergeScheduleCanceled', data: { repoId, index: 1, by } })
      await events.append(pullStream(repoId, 1), canceled, 'any')
      return await views.accounts.get(id)
    },
  }
  await tryFirst(t, repo, head, { ...server.services, views: { ...views, accounts } })
  await postStatus(head, 'success')
  t.match(await get(1), { merged: false })
  t.strictSame(await typesOf(1), ['PullRequestOpened', 'MergeScheduled', 'MergeScheduleCanceled'])
})

t.test(
  'scheduled merge: an interrupted merge gets its outcome first, and the schedule is kept',
  async (t) => {
    const { branch, open, merge, postStatus, get, call, eventsOf, typesOf, repoId, work } = await repository(
      t,
      'cut-off',
    )
    const head = await branch('topic', { a: 'a' })
    await open('topic')
    t.equal((await merge(1, WHEN_GREEN)).status, 201)
    const scheduled = (await eventsOf(1)).at(-1)
    if (scheduled?.type !== 'MergeScheduled') throw new Error('not scheduled')
    const started = written({
      type: 'MergeStarted',
      data: {
        repoId,
        index: 1,
        style: 'merge',
        baseBranch: 'main',
        // Not the tip of the base: this merge fails.
        from: head,
        head,
        mergeBase: null,
        commit: head,
        message: '',
        by: scheduled.data.by,
        deleteBranch: false,
      },
    })
    await server.services.events.append(pullStream(repoId, 1), started, 'any')
    t.equal((await call('alice', 'DELETE', 'pulls/1/merge')).status, 404, 'it is under way')
    await postStatus(head, 'success')
    await until('it is merged', async () => (await get(1)).merged === true)
    t.strictSame((await typesOf(1)).slice(1), [
      'MergeScheduled',
      'MergeStarted',
      'MergeFailed',
      'MergeStarted',
      'PullRequestMerged',
    ])
    await work.git('fetch', '-q')
    t.equal(await work.git('rev-list', '--count', '--merges', 'origin/main'), '1')
  },
)

t.test('scheduled merge: a head in a fork needs the checks of the base repository', async (t) => {
  const { open, merge, postStatus, get, repoId, fork } = await repository(t, 'forked', { writers: ['bob'] })
  const own = await fork('bob')
  const head = await own.branch('topic', { a: 'a' })
  await open('bob:topic', {}, 'bob')
  t.equal((await merge(1, { ...WHEN_GREEN, delete_branch_after_merge: true })).status, 201)
  const moved = await own.branch('topic', { b: 'b' }, 'topic')
  await postStatus(head, 'success')
  t.match(await get(1), { merged: false, head: { sha: moved } })
  await postStatus(moved, 'success')
  await until('it is merged', async () => (await get(1)).merged === true)
  const [pull] = await server.services.views.pulls.find({ repoId, index: 1 })
  t.equal(pull?.schedule, null)
})

t.test('scheduled merge: no merge is attempted in a deleted repository', async (t) => {
  const { branch, open, merge, name, eventsOf } = await repository(t, 'deleted')
  await branch('topic', { a: 'a' })
  await open('topic')
  t.equal((await merge(1, WHEN_GREEN)).status, 201)
  const scheduled = (await eventsOf(1)).at(-1)
  if (scheduled === undefined) throw new Error('not scheduled')
  await alice.repos.repoDelete('alice', name)
  await scheduledMerges(t, server.services).react(scheduled, contextOf(scheduled))
  t.equal((await eventsOf(1)).at(-1)?.type, 'MergeScheduled')
})

/** Posts a status without waiting for the process. Resolves to its event. */
async function postGreen({ call, repoId }: PullRepository, head: string) {
  const { status } = await call('alice', 'POST', `statuses/${head}`, { state: 'success', context: 'ci' })
  const [posted] = await eventsIn(server, checksStream(repoId, head))
  if (status !== 201 || posted === undefined) throw new Error(`the status gave ${status}`)
  await server.services.projector.waitFor(posted.position, 5000)
  return posted
}

t.test('scheduled merge: a slow one does not delay other repositories', async (t) => {
  const [slow, quick] = [await repository(t, 'slow'), await repository(t, 'quick', { writers: ['bob'] })]
  const { services } = server
  const manager = scheduledMerges(t, services, { atOnceMs: 0 })
  async function schedule(repo: PullRepository, login: string) {
    const head = await repo.branch('topic', { a: 'a' })
    await repo.open('topic')
    t.equal((await repo.merge(1, WHEN_GREEN, login)).status, 201)
    return { repo, head }
  }
  const scheduled = [await schedule(slow, 'alice'), await schedule(quick, 'bob')]
  let end = () => {}
  const held = services.runExclusive(
    mergeLockKey(slow.repoId),
    () =>
      new Promise<void>((resolve) => {
        end = resolve
      }),
  )
  for (const { repo, head } of scheduled) {
    const posted = await postGreen(repo, head)
    await manager.react(posted, contextOf(posted))
  }
  await until('the quick one is merged', async () => (await quick.get(1)).merged === true)
  t.match(await slow.get(1), { merged: false })
  end()
  await held
  await until('the slow one is merged', async () => (await slow.get(1)).merged === true)
})

t.test('scheduled merge: one that takes too long ends, with the reason in the history', async (t) => {
  const repo = await repository(t, 'too-long')
  const head = await repo.branch('topic', { a: 'a' })
  await repo.open('topic')
  t.equal((await repo.merge(1, WHEN_GREEN)).status, 201)
  const { views } = server.services
  let asked = 0
  const accounts = {
    ...views.accounts,
    async get(id: string) {
      asked += 1
      // The second call is the author's, right before git starts.
      if (asked === 2) throw new GitTookTooLong('git merge-tree took more than 120000 ms')
      return await views.accounts.get(id)
    },
  }
  await tryFirst(t, repo, head, { ...server.services, views: { ...views, accounts } })
  t.match((await repo.eventsOf(1)).at(-1), {
    type: 'ScheduledMergeRefused',
    data: { reason: 'the merge takes too long' },
  })
  t.match(await repo.get(1), { merged: false, state: 'open' })
})

t.test('scheduled merge: one that git fails repeatedly ends, with the reason', async (t) => {
  const repo = await repository(t, 'damaged')
  const head = await repo.branch('topic', { a: 'a' })
  await repo.open('topic')
  t.equal((await repo.merge(1, { ...WHEN_GREEN, Do: 'rebase' })).status, 201)
  const tree = await repo.work.git('rev-parse', `${head}^{tree}`)
  const objects = join(gitDirOf(server.services, repo.repoId), 'objects')
  await rm(join(objects, tree.slice(0, 2), tree.slice(2)))
  await repo.branch('main', { 'x.txt': 'x' }, 'main')
  const manager = scheduledMerges(t, server.services, { pauseMs: 1 })
  const posted = await postGreen(repo, head)
  await manager.react(posted, contextOf(posted))
  t.match((await repo.eventsOf(1)).at(-1), {
    type: 'ScheduledMergeRefused',
    data: { reason: 'git cannot do the merge' },
  })
})

t.test('schedule.2: a schedule survives a restart, and then sees a status from before it', async (t) => {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-scheduled-'))
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
  const first = await startPulls(t, { DATA_DIR })
  const { branch, open, merge, repoId, get, knowsChecks } = await first.repository(t, 'app')
  await knowsChecks()
  const seen = await branch('seen', { a: 'a' })
  const unseen = await branch('unseen', { b: 'b' })
  await open('seen')
  await open('unseen')
  t.equal((await merge(1, WHEN_GREEN)).status, 201)
  t.equal((await merge(2, { ...WHEN_GREEN, Do: 'rebase' })).status, 201)
  const creator = { id: (await get(1)).user?.id ?? 0, login: 'alice' }
  await first.server.stop()

  // As after a crash right after a status was stored.
  const events = openSqliteEventStore(join(DATA_DIR, 'events.db'))
  const status = { id: 1, repoId, context: 'ci', description: '', targetUrl: '', creator }
  const posted = written({ type: 'CommitStatusPosted', data: { ...status, sha: unseen, state: 'success' } })
  await events.append(checksStream(repoId, unseen), posted, 'no-stream')
  await events.close()

  const second = await startTestServer(t, { DATA_DIR })
  const pull = async (index: number) =>
    (await second.anonymous.repos.repoGetPullRequest('alice', 'app', index)).data
  await until('it is merged', async () => (await pull(2)).merged === true)
  t.match(await pull(1), { merged: false })
  const body = JSON.stringify({ state: 'success', context: 'ci' })
  const answer = await second.fetch('alice', `/api/v1/repos/alice/app/statuses/${seen}`, {
    method: 'POST',
    body,
  })
  t.equal(answer.status, 201)
  await until('the other is merged', async () => (await pull(1)).merged === true)
  t.match(await pull(1), { merged_by: { login: 'alice' } })
})

t.test(
  'scheduled merge: work left to the worker at the end of a server is merged after the start',
  async (t) => {
    const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-scheduled-'))
    t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
    const first = await startPulls(t, { DATA_DIR })
    const { branch, open, merge, repoId, get, knowsChecks } = await first.repository(t, 'app')
    await knowsChecks()
    const head = await branch('topic', { a: 'a' })
    await open('topic')
    t.equal((await merge(1, WHEN_GREEN)).status, 201)
    const creator = { id: (await get(1)).user?.id ?? 0, login: 'alice' }
    await first.server.stop()

    const events = openSqliteEventStore(join(DATA_DIR, 'events.db'))
    const status = { id: 1, repoId, context: 'ci', description: '', targetUrl: '', creator }
    const posted = written({ type: 'CommitStatusPosted', data: { ...status, sha: head, state: 'success' } })
    const { position } = await events.append(checksStream(repoId, head), posted, 'no-stream')
    await events.close()
    // The process has left the status to the worker.
    const readStore = openSqliteReadStore(join(DATA_DIR, 'views.db'))
    await readStore.apply([], new Map([processCheckpoint('scheduled_merges', position)]))
    await readStore.close()

    const second = await startTestServer(t, { DATA_DIR })
    await until('it is merged', async () => {
      const { data } = await second.anonymous.repos.repoGetPullRequest('alice', 'app', 1)
      return data.merged === true
    })
  },
)
