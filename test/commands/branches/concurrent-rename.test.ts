/** Renames concurrent with other work on the branch, and failures between the steps of a rename. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { newContext } from '../../../src/commands/execution/command-context.ts'
import { recordRefs } from '../../../src/commands/git/record-refs.ts'
import { refLockKey, withRefLock } from '../../../src/commands/git/ref-lock.ts'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { claimKeys, claimStream } from '../../../src/events/streams.ts'
import { updateRef } from '../../../src/git/refs/refs.ts'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { recoverPushes } from '../../../src/processes/recovery.ts'
import { READ_MODELS } from '../../../src/projections/views/views.ts'
import { failAppendsFrom } from '../../failing-log.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { eventsIn, type PullRepository, startPulls } from '../pull-requests/pull-repository.ts'

const { server, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
const { services } = server

const rename = (made: PullRepository, from: string, name: string) =>
  made.call('alice', 'PATCH', `branches/${from}`, { name })
const baseOf = async (made: PullRepository, index: number) => (await made.get(index)).base?.ref

/** Runs something once, right before an event of a type is appended. */
function before(type: string, act: () => Promise<unknown>): void {
  const { events } = services
  services.events = {
    ...events,
    async append(stream, made, expected) {
      if (made.some((event) => event.type === type)) {
        services.events = events
        await act()
      }
      return events.append(stream, made, expected)
    },
  }
}

t.test('a push while a rename waits for the lock is in the renamed branch', async (t) => {
  const made = await repository(t, 'pushed')
  const { repoId, dir } = made
  const index = await made.open((await made.branch('topic', { a: 'a' })) && 'topic')
  const to = await made.branch('elsewhere', { e: 'e' })
  const from = (await made.tip('main')) ?? ''
  const { runExclusive } = services
  let waits = false
  const { promise: held, resolve: leave } = Promise.withResolvers<void>()
  const turn = withRefLock(services, repoId, async (since) => {
    await held
    const move = { ref: 'refs/heads/main', from, to }
    await updateRef(dir, move.ref, move)
    await recordRefs(services, newContext(null, 'push'), repoId, 'push', [move], since)
  })
  services.runExclusive = (key, ...work) => {
    waits ||= key === refLockKey(repoId)
    return runExclusive(key, ...work)
  }
  const renamed = rename(made, 'main', 'trunk')
  await until('the rename waits for the lock', () => waits)
  services.runExclusive = runExclusive
  leave()
  await turn
  t.equal((await renamed).status, 204)
  t.strictSame([await made.tip('main'), await made.tip('trunk')], [undefined, to])
  await until('the pull request knows its base', async () => (await made.get(index)).base?.sha === to)
  t.equal(await baseOf(made, index), 'trunk')
})

t.test('a pull request that is being opened into a branch follows the rename of it', async (t) => {
  const made = await repository(t, 'opening')
  await made.branch('topic', { a: 'a' })
  const statuses: number[] = []
  before('PullRequestOpened', async () => {
    statuses.push((await rename(made, 'main', 'trunk')).status)
    statuses.push((await rename(made, 'trunk', 'stem')).status)
    statuses.push((await rename(made, 'topic', 'theme')).status)
  })
  const index = await made.open('topic')
  t.strictSame(statuses, [204, 204, 204])
  const names = async () => {
    const { head, base } = await made.get(index)
    return `${head?.ref} > ${base?.ref}`
  }
  await until('it has the new names', async () => (await names()) === 'theme > stem')
  await until('it can be merged', async () => (await made.get(index)).mergeable === true)
  t.equal((await made.tryOpen('theme', { base: 'stem' })).status, 409)
})

t.test('a merge that is under way ends in the old name, and the rename has its commit', async (t) => {
  const made = await repository(t, 'merging')
  await made.branch('topic', { a: 'a' })
  await made.branch('other', { b: 'b' })
  const [first, second] = [await made.open('topic'), await made.open('other')]
  let renamed: ReturnType<typeof rename> | undefined
  before('MergeStarted', async () => {
    renamed = rename(made, 'main', 'trunk')
  })
  t.equal((await made.merge(first)).status, 200)
  t.equal((await renamed)?.status, 204)
  const merged = await made.get(first)
  t.match(merged, { merged: true, base: { ref: 'main' } })
  t.equal(await made.tip('trunk'), merged.merge_commit_sha)
  t.equal(await baseOf(made, second), 'trunk')
  t.equal((await made.merge(second)).status, 200)
})

t.test('of two simultaneous renames of a branch, one succeeds', async (t) => {
  const made = await repository(t, 'two')
  await made.branch('topic', { a: 'a' })
  const index = await made.open('topic')
  const answers = await Promise.all(['x', 'y'].map((name) => rename(made, 'main', name)))
  t.strictSame(answers.map(({ status }) => status).sort(), [204, 404])
  const name = answers[0]?.status === 204 ? 'x' : 'y'
  t.equal(await baseOf(made, index), name)
  const { body: branches } = await made.call('alice', 'GET', 'branches')
  t.strictSame(
    branches.map((branch: { name: string }) => branch.name),
    ['topic', name],
  )
  const { repoId } = made
  for (const base of ['main', 'x', 'y']) {
    const key = claimKeys.pull({ repoId, branch: 'topic' }, { repoId, branch: base })
    const last = (await eventsIn(server, claimStream(key))).at(-1)?.type
    t.equal(last === 'ClaimTaken', base === name, `the claim of ${base}`)
  }
})

t.test('a rename after which git was killed with both names present is finished', async (t) => {
  const made = await repository(t, 'half')
  await made.branch('topic', { a: 'a' })
  const index = await made.open('topic')
  const main = (await made.tip('main')) ?? ''
  const { pushJournal } = services
  const { begin } = pushJournal
  pushJournal.begin = async (...marker) => {
    pushJournal.begin = begin
    pushJournal.abandon(await begin(...marker))
    throw new StoreUnavailable('died')
  }
  t.equal((await rename(made, 'main', 'trunk')).status, 503)
  await updateRef(made.dir, 'refs/heads/trunk', { from: null, to: main })
  await recoverPushes(services)
  t.strictSame([await made.tip('main'), await made.tip('trunk')], [undefined, main])
  await until('the pull request has the new name', async () => (await baseOf(made, index)) === 'trunk')
  t.equal(await made.work.git('--git-dir', made.dir, 'symbolic-ref', '--short', 'HEAD'), 'trunk')
  await until('nothing is left to do', async () => (await pushJournal.unfinished()).length === 0)
})

t.test('a log that takes one stream at a time may die between any two appends of a rename', async (t) => {
  const DATA_DIR = t.testdir()
  const first = await startPulls(t, { DATA_DIR, LOG_LEVEL: 'silent' })
  const made = await first.repository(t, 'app')
  await made.branch('topic', { a: 'a' })
  await made.protect('main', { enable_push: false })
  const index = await made.open('topic')
  let running = first.server
  const ask = async (path: string, method = 'GET', body?: object) => {
    const init = { method, ...(body && { body: JSON.stringify(body) }) }
    const answer = await running.fetch('alice', `/api/v1/repos/alice/app${path}`, init)
    return {
      status: answer.status,
      body: answer.status === 204 ? undefined : JSON.parse(await answer.text()),
    }
  }
  let now = 'main'
  // The appends: the new claim, the settings, the refs, the pull request, the release of the old claim.
  for (const n of [1, 2, 3, 4, 5]) {
    const crash = `after append ${n}`
    const { appendTogether: _none, ...events } = running.services.events
    running.services.events = events
    failAppendsFrom(running.services, n, 'after')
    const name = `after${n}`
    const { status } = await ask(`/branches/${now}`, 'PATCH', { name })
    // The process may have finished before the request.
    t.ok(status === 503 || (n >= 4 && status === 204), `${crash}: ${status}`)
    await running.stop()
    running = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'silent' })
    if (n > 1) now = name
    const { base, mergeable } = (await ask(`/pulls/${index}`)).body
    t.strictSame([base.ref, mergeable], [now, true], crash)
    t.equal((await ask('')).body.default_branch, now, crash)
    const rules = (await ask('/branch_protections')).body
    t.strictSame(
      rules.map(({ rule_name }: { rule_name: string }) => rule_name),
      [now],
      crash,
    )
    const branches = (await ask('/branches')).body.map((branch: { name: string }) => branch.name)
    t.strictSame(branches.sort(), [now, 'topic'].sort(), crash)
    const head = await made.work.git('--git-dir', made.dir, 'symbolic-ref', '--short', 'HEAD')
    t.equal(head, now, crash)
  }
  const { texts, readStore } = running.services
  const { stored, keys } = texts
  const scratchDir = join(t.testdirName, 'scratch')
  await mkdir(scratchDir)
  const report = await verifyServer({ events: stored, keys, readStore, models: READ_MODELS, scratchDir })
  t.match(report, { sound: true }, 'replayed from the log, everything is the same')
})
