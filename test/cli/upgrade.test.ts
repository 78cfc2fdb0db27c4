import { once } from 'node:events'
import { createInterface } from 'node:readline'
import t from 'tap'
import { recordedUpgrade, startGateway } from '../doubles/gateway.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { mergelog, startMergelog } from './command-line.ts'

t.test("a running server's queries show the chain's changes that another process records", async (t) => {
  const server = await startTestServer(t)
  const gateway = await startGateway(t)
  const ask = async (path: string) => {
    const answer = await fetch(`${server.url}/cosmos/upgrade/v1beta1/${path}`)
    return JSON.parse(await answer.text())
  }
  gateway.show(recordedUpgrade.planned)
  const child = startMergelog(
    t,
    ['upgrade', 'follow', '--from', gateway.url, '--interval', '0.1', '--json'],
    {
      DATA_DIR: server.dataDir,
    },
  )
  const printed: unknown[] = []
  createInterface({ input: child.stdout ?? process.stdin }).on('line', (line) =>
    printed.push(JSON.parse(line)),
  )
  await until('the plan is there', async () => (await ask('current_plan')).plan?.height === '120')
  gateway.show(recordedUpgrade.moved)
  await until('it has moved', async () => (await ask('current_plan')).plan?.height === '110')
  gateway.show(recordedUpgrade.replaced)
  await until('it is another', async () => (await ask('current_plan')).plan?.name === 'v2.1')
  // Meanwhile the server itself writes to the same log.
  await (await server.as('alice')).user.createCurrentUserRepo({ name: 'app' })
  gateway.fail({ status: 500 })
  await until('the failure is printed', async () => printed.some((news) => isKind(news, 'unhealthy')))
  gateway.fail(undefined)
  gateway.show(recordedUpgrade.applied)
  await until('it was applied', async () => (await ask('applied_plan/v2.1')).height === '112')
  t.same(await ask('current_plan'), { plan: null })
  t.same(await ask('module_versions'), {
    module_versions: [
      { name: 'auth', version: '5' },
      { name: 'bank', version: '4' },
      { name: 'circuit', version: '1' },
    ],
  })
  t.same(await ask('authority'), { address: 'cosmos1gov' })
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
  t.match(printed, [
    { kind: 'healthy' },
    { kind: 'recorded', events: [{ type: 'PlanScheduled' }, {}, {}] },
    { kind: 'recorded' },
    { kind: 'recorded' },
    { kind: 'unhealthy', reason: /500/ },
    { kind: 'healthy' },
    { kind: 'recorded', events: [{ type: 'PlanApplied' }, { type: 'ModuleVersionsSet' }] },
  ])
})

const isKind = (news: unknown, kind: string) =>
  typeof news === 'object' && news !== null && 'kind' in news && news.kind === kind

t.test(
  'upgrade follow --once reports its findings, also when there are none: it records one round without a server, and a server started later shows it',
  async (t) => {
    const DATA_DIR = `${t.testdir()}/new`
    const gateway = await startGateway(t)
    const name = 'v2\u001b[31m\nred'
    gateway.show({ height: '1', plan: { name, height: '120' }, authority: 'cosmos1gov' })
    const args = ['upgrade', 'follow', '--from', `${gateway.url}/`, '--once']
    const first = await mergelog(args, { DATA_DIR })
    t.match(first, { code: 0, stderr: '' })
    const found = /^\S+Z found {13}plan v2\ufffd\[31m red at height 120, authority cosmos1gov$/
    t.match(first.stdout.split('\n'), [
      found,
      /^\S+Z PlanScheduled {5}v2\ufffd\[31m red at height 120$/,
      /^\S+Z AuthorityChanged {2}cosmos1gov$/,
      /^$/,
    ])
    const again = await mergelog(args, { DATA_DIR })
    t.match(again, { code: 0, stderr: '' })
    t.match(again.stdout.split('\n'), [found, /^$/], 'nothing has changed')

    const server = await startTestServer(t, { DATA_DIR })
    const answer = await fetch(`${server.url}/sdk/upgrade/v1beta1/current_plan`)
    t.match(JSON.parse(await answer.text()), { plan: { name, height: '120' } })

    // The server's own gateway can be followed by another server.
    const mirror = `${t.testdirName}/mirror`
    const followed = await mergelog(['upgrade', 'follow', '--from', server.url, '--once', '--json'], {
      DATA_DIR: mirror,
    })
    const news = followed.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    t.match(news[0], { kind: 'found', plan: { name, height: '120' }, authority: 'cosmos1gov' })
    t.match(news[1], {
      kind: 'recorded',
      events: [
        { type: 'PlanScheduled', data: { plan: { name, height: '120' } } },
        { type: 'AuthorityChanged' },
      ],
    })
  },
)
