import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type FollowNews, follow, followOnce } from '../../src/cli/upgrade-follow/follow.ts'
import { type GatewayOptions, openGateway } from '../../src/cli/upgrade-follow/follow-gateway.ts'
import { type EventStore, StoreUnavailable } from '../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../src/events/store/sqlite/sqlite.ts'
import { UPGRADE_STREAM } from '../../src/events/streams.ts'
import { type ChainView, type Failure, recordedUpgrade, startGateway } from '../doubles/gateway.ts'
import { writerOf } from '../stores.ts'
import { until } from '../until.ts'

const open = (url: string, options?: GatewayOptions) => openGateway(new URL(url), options)

function openLog(t: Test): { log: EventStore; file: string } {
  const file = join(t.testdir(), 'events.db')
  const log = openSqliteEventStore(file)
  t.teardown(() => log.close())
  return { log, file }
}

async function recorded(log: EventStore) {
  const events = []
  for await (const { type, data } of log.readStream(UPGRADE_STREAM)) events.push({ type, data })
  return events
}

const typesOf = async (log: EventStore) => (await recorded(log)).map(({ type }) => type)

t.test('following a recorded upgrade: each change is in the log once, and nothing else', async (t) => {
  const { log } = openLog(t)
  const gateway = await startGateway(t)
  const { signal } = new AbortController()
  const perStep: string[][] = []
  for (const view of Object.values(recordedUpgrade)) {
    gateway.show(view)
    // A restart between two rounds changes nothing: the only state is the log.
    const round = await followOnce(writerOf(log), open(gateway.url), signal)
    t.same(round.refused, [])
    perStep.push(round.events.map(({ type }) => type))
    t.match(await followOnce(writerOf(log), open(gateway.url), signal), {
      events: [],
      refused: [],
      position: 0,
    })
  }
  t.same(perStep, [
    ['ModuleVersionsSet', 'AuthorityChanged'],
    ['PlanScheduled'],
    ['PlanScheduled'],
    ['PlanScheduled'],
    ['PlanApplied', 'ModuleVersionsSet'],
    ['AuthorityChanged'],
  ])
  t.match(await recorded(log), [
    { data: { moduleVersions: [{ name: 'auth' }, { name: 'bank' }] } },
    { data: { address: 'cosmos1gov' } },
    { data: { plan: { name: 'v2', height: '120', info: /binaries/ } } },
    { data: { plan: { name: 'v2', height: '110' } } },
    { data: { plan: { name: 'v2.1', height: '112', info: '' } } },
    { data: { name: 'v2.1', height: '112' } },
    { data: { moduleVersions: [{}, {}, { name: 'circuit', version: '1' }] } },
    { data: { address: 'cosmos1group' } },
  ])
  for await (const { metadata } of log.readStream(UPGRADE_STREAM)) {
    t.match(metadata, { actor: null, causationId: `follow ${gateway.url}` })
  }
})

t.test('all queries of a round ask for the block of the first answer', async (t) => {
  const { log } = openLog(t)
  const gateway = await startGateway(t)
  const { signal } = new AbortController()
  for (const view of [recordedUpgrade.planned, recordedUpgrade.moved, recordedUpgrade.replaced]) {
    gateway.show(view)
    await followOnce(writerOf(log), open(gateway.url), signal)
  }
  t.same(gateway.asked.slice(-4), [
    { path: '/cosmos/upgrade/v1beta1/current_plan', block: undefined },
    { path: '/cosmos/upgrade/v1beta1/applied_plan/v2', block: '93' },
    { path: '/cosmos/upgrade/v1beta1/module_versions', block: '93' },
    { path: '/cosmos/upgrade/v1beta1/authority', block: '93' },
  ])
})

t.test('answers of a node that is behind an earlier answer are refused', async (t) => {
  const { log } = openLog(t)
  const double = await startGateway(t)
  const gateway = open(double.url)
  const { signal } = new AbortController()
  double.show({ height: '100', plan: { name: 'v2', height: '120' } })
  await followOnce(writerOf(log), gateway, signal)
  double.show({ height: '99', plan: null })
  await t.rejects(followOnce(writerOf(log), gateway, signal), {
    name: 'GatewayError',
    message: /block 99.*block 100/,
  })
  t.same(await typesOf(log), ['PlanScheduled'])
})

t.test('chains that are too old for module versions and authority are followed for their plan', async (t) => {
  const { log } = openLog(t)
  const gateway = await startGateway(t)
  gateway.show({ plan: { name: 'v2', height: 120 } })
  await followOnce(writerOf(log), open(gateway.url), new AbortController().signal)
  gateway.fail({ status: 404 }, 'module_versions')
  await followOnce(writerOf(log), open(gateway.url), new AbortController().signal)
  t.match(await recorded(log), [{ data: { plan: { height: '120' } } }])
  t.equal((await recorded(log)).length, 1)
})

t.test("a plan's name is percent-encoded in the path, whatever characters it has", async (t) => {
  const { log } = openLog(t)
  const gateway = await startGateway(t)
  const { signal } = new AbortController()
  for (const name of ['a/b?c#d e', '../../x', 'ü%2F', '..', 'x'.repeat(5000), 'half \ud800']) {
    gateway.show({ plan: { name, height: '120' } })
    await followOnce(writerOf(log), open(gateway.url), signal)
    gateway.show({ plan: null, applied: { [name.replace('\ud800', '\ufffd')]: '120' } })
    await followOnce(writerOf(log), open(gateway.url), signal)
    const last = (await recorded(log)).at(-1)
    // '..' can't be sent: it would change the path.
    t.equal(last?.type, name === '..' ? 'PlanCanceled' : 'PlanApplied', name.slice(0, 20))
  }
  t.ok(gateway.asked.every(({ path }) => path.startsWith('/cosmos/upgrade/v1beta1/')))
})

t.test('an invalid answer of the gateway gives a one-line error, and nothing is recorded', async (t) => {
  const { log } = openLog(t)
  const double = await startGateway(t)
  double.show({ height: '1', plan: { name: 'v2', height: '120' }, modules: [], authority: 'a' })
  const elsewhere = await startGateway(t)
  const cases: [failure: Failure, only: string, message: RegExp][] = [
    [{ status: 500 }, '', /^current_plan: answered with 500$/],
    [{ status: 404 }, 'current_plan', /^current_plan: answered with 404$/],
    [{ status: 500 }, 'module_versions', /^module_versions: answered with 500$/],
    [{ status: 302, headers: { location: elsewhere.url } }, '', /^current_plan: unexpected redirect$/],
    [{ body: '<html>' }, '', /not JSON/],
    [{ body: '' }, '', /not JSON/],
    [{ body: '{}' }, 'current_plan', /plan/],
    [{ body: '[]' }, 'current_plan', /object/],
    [{ body: '{"plan":{"name":7,"height":"1"}}' }, '', /^current_plan: \/plan/],
    [{ body: '{"plan":{"name":"x","height":"1e3"}}' }, '', /plan\.height is not an int64/],
    [{ body: '{"plan":{"name":"x","height":9223372036854775807}}' }, '', /plan\.height is not an int64/],
    [{ body: '{"plan":{"name":"x","height":"9223372036854775808"}}' }, '', /plan\.height is not an int64/],
    [{ body: '{"module_versions":[{"name":"x","version":"-1"}]}' }, 'module_versions', /not a uint64/],
    [{ body: `{"plan":null,"x":"${'x'.repeat(5000)}"}` }, '', /larger than 4096 bytes/],
    ['endless', '', /larger than 4096 bytes/],
    ['silent', '', /^current_plan: no complete answer in 0\.2 s$/],
    ['drips', '', /^current_plan: no complete answer in 0\.2 s$/],
    ['hangs up', '', /^current_plan: \w/],
  ]
  const gateway = open(double.url, { maxBytes: 4096 })
  // Only for answers that never end: a busy machine may answer later.
  const hasty = open(double.url, { timeoutMs: 200 })
  for (const [failure, only, message] of cases) {
    double.fail(failure, only)
    const isUnending = failure === 'silent' || failure === 'drips'
    const round = followOnce(writerOf(log), isUnending ? hasty : gateway, new AbortController().signal)
    await t.rejects(round, { name: 'GatewayError', message }, JSON.stringify(failure).slice(0, 60))
    await t.rejects(round, { message: /^[^\n]+$/ })
  }
  t.same(await recorded(log), [])
  t.same(elsewhere.asked, [], 'redirects are not followed')
  double.fail(undefined)
  await followOnce(writerOf(log), gateway, new AbortController().signal)
  t.same(await typesOf(log), ['PlanScheduled', 'AuthorityChanged'])
})

/** Follows like the command, but with short pauses. */
/** `timeoutMs`: long, since a busy machine answers late; a test of a silent gateway sets a short one. */
function following(
  t: Test,
  log: EventStore,
  url: string,
  { wait, timeoutMs = 60_000 }: { wait?: (ms: number) => Promise<unknown>; timeoutMs?: number } = {},
) {
  const ending = new AbortController()
  const news: FollowNews[] = []
  const ended = follow(writerOf(log), open(url, { timeoutMs, maxBytes: 4096 }), {
    intervalMs: 1,
    signal: ending.signal,
    report: (item) => news.push(item),
    backOff: { minMs: 1, maxMs: 10 },
    ...(wait !== undefined && { wait }),
  })
  const stop = async () => {
    ending.abort()
    await ended
  }
  t.teardown(stop)
  return { news, stop }
}

t.test('following survives every kind of failure, and reports each change of health once', async (t) => {
  const { log } = openLog(t)
  const gateway = await startGateway(t)
  const failures: Failure[] = [
    { status: 503 },
    'silent',
    { body: 'garbage' },
    'endless',
    'hangs up',
    { status: 500 },
  ]
  const { news } = following(t, log, gateway.url, { timeoutMs: 500 })
  const kinds = () => news.map(({ kind }) => kind)
  const ups = () => kinds().filter((kind) => kind === 'healthy').length
  for (const [i, view] of Object.values(recordedUpgrade).entries()) {
    gateway.show(view)
    await until('it is healthy', async () => ups() === i + 1)
    const before = gateway.asked.length
    await until('the step was seen', async () => gateway.asked.length > before + 8)
    gateway.fail(failures[i])
    await until('it is unhealthy', async () => kinds().at(-1) === 'unhealthy')
    const failed = gateway.asked.length
    await until('it was tried again', async () => gateway.asked.length > failed + 2)
    t.equal(kinds().at(-1), 'unhealthy')
    gateway.fail(undefined)
  }
  t.equal((await recorded(log)).length, 8)
  t.same(
    kinds().filter((kind) => kind !== 'recorded'),
    Object.values(recordedUpgrade).flatMap(() => ['healthy', 'unhealthy']),
  )
})

t.test('a restart continues from the log', async (t) => {
  const { log, file } = openLog(t)
  const gateway = await startGateway(t)
  gateway.show(recordedUpgrade.planned)
  const first = following(t, log, gateway.url)
  await until('it was recorded', async () => (await recorded(log)).length === 3)
  await first.stop()
  gateway.show(recordedUpgrade.applied)
  const reopened = openSqliteEventStore(file)
  t.teardown(() => reopened.close())
  following(t, reopened, gateway.url)
  await until('it was recorded', async () => (await recorded(log)).length === 5)
  t.same((await typesOf(log)).slice(3), ['PlanCanceled', 'ModuleVersionsSet'], 'v2 was never applied')
})

t.test('a part that our rules refuse is reported once, and again when it comes back', async (t) => {
  const { log } = openLog(t)
  const gateway = await startGateway(t)
  const v2 = { name: 'v2', height: '120' }
  const fine: ChainView = { plan: null, applied: { v2: '120' } }
  const { news } = following(t, log, gateway.url)
  const rounds = async () => {
    const before = gateway.asked.length
    await until('some rounds were made', async () => gateway.asked.length > before + 12)
  }
  gateway.show({ plan: v2 })
  await rounds()
  gateway.show(fine)
  await rounds()
  gateway.show({ plan: v2 })
  await rounds()
  t.same(
    news.map(({ kind }) => kind),
    ['healthy', 'recorded', 'recorded', 'refused'],
  )
  gateway.show(fine)
  await rounds()
  gateway.show({ plan: v2 })
  await rounds()
  t.equal(news.filter(({ kind }) => kind === 'refused').length, 2)
  t.equal((await recorded(log)).length, 2)
})

t.test('Retry-After of a gateway is honoured, up to ten minutes', async (t) => {
  const { log } = openLog(t)
  const gateway = await startGateway(t)
  gateway.fail({ status: 429, headers: { 'retry-after': '7' } })
  const waited: number[] = []
  following(t, log, gateway.url, {
    wait: async (ms) => {
      waited.push(ms)
      await new Promise((resolve) => setImmediate(resolve))
    },
  })
  await until('it waited', async () => waited.includes(7000))
  gateway.fail({ status: 503, headers: { 'retry-after': new Date(Date.now() + 86_400_000).toUTCString() } })
  await until('it waited', async () => waited.includes(600_000))
  gateway.fail({ status: 503, headers: { 'retry-after': 'soon' } })
  await until('it is healthy again', async () => {
    gateway.fail(undefined)
    return waited.at(-1) === 1
  })
  t.same(new Set(waited), new Set([7000, 600_000, 1]))
})

t.test('a missing gateway and an unavailable log are retried until they are back', async (t) => {
  const { log } = openLog(t)
  const probe = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => probe.once('listening', resolve))
  const address = probe.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  await new Promise((resolve) => probe.close(resolve))
  const { news } = following(t, log, `http://127.0.0.1:${port}`)
  await until('it is reported', async () => news.length > 0)
  t.match(news, [{ kind: 'unhealthy', reason: /^current_plan: .*ECONNREFUSED/ }])

  const gateway = await startGateway(t)
  gateway.show(recordedUpgrade.planned)
  let away = true
  const flaky: EventStore = {
    ...log,
    append: (...append) =>
      away ? Promise.reject(new StoreUnavailable('the disk is full')) : log.append(...append),
  }
  const other = following(t, flaky, gateway.url)
  await until('it is reported', async () => other.news.length > 0)
  t.match(other.news, [{ kind: 'unhealthy', reason: 'the disk is full' }])
  away = false
  await until('it is recorded', async () => (await recorded(log)).length === 3)
})

t.test('an abort ends following immediately, during an answer and during a pause', async (t) => {
  const { log } = openLog(t)
  const gateway = await startGateway(t)
  gateway.fail('silent')
  const asking = following(t, log, gateway.url)
  await until('it asks', async () => gateway.asked.length > 0)
  await asking.stop()
  gateway.fail({ status: 503, headers: { 'retry-after': '500' } })
  const pausing = following(t, log, gateway.url)
  await until('it pauses', async () => pausing.news.length > 0)
  await pausing.stop()
  t.pass()
})
