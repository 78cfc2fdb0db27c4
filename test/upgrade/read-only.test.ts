import { fastify } from 'fastify'
import t from 'tap'
import { upgradeHttpRoutes } from '../../src/upgrade/http.ts'
import { startTestServer } from '../start-server.ts'
import { call, clientOf, QUERY } from './grpc-client.ts'

const server = await startTestServer(t)
const client = clientOf(t, server.grpcAddress)

const admin = async (method: string, path: string, body: object) => {
  const answer = await server.fetch('admin', `/api/v1/admin/upgrade${path}`, {
    method,
    body: JSON.stringify(body),
  })
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`)
}

/** For each method: the request over gRPC, and the path of the same query over HTTP. */
const METHODS = [
  ['CurrentPlan', {}, '/current_plan'],
  ['AppliedPlan', { name: 'v1' }, '/applied_plan/v1'],
  [
    'UpgradedConsensusState',
    { last_height: '9007199254740993' },
    '/upgraded_consensus_state/9007199254740993',
  ],
  ['ModuleVersions', {}, '/module_versions'],
  ['ModuleVersions', { module_name: 'auth' }, '/module_versions?module_name=auth'],
  ['Authority', {}, '/authority'],
] as const

/** The JSON text of an answer, in protobuf's JSON mapping. */
function asJson(value: unknown): string {
  return JSON.stringify(value, (_key, field) => {
    if (field?.type === 'Buffer') return Buffer.from(field.data).toString('base64')
    return field?.seconds === '-62135596800' ? '0001-01-01T00:00:00Z' : field
  })
}

t.test(
  'upgrade.api.2: gRPC and HTTP give the same answers, which follow what site admins enter',
  async (t) => {
    await admin('PUT', '/plan', { name: 'v1', height: '9007199254740993' })
    await admin('POST', '/plan/apply', {})
    await admin('PUT', '/plan', { name: 'v2', height: '9007199254740999', info: 'ℹ' })
    await admin('PUT', '/module_versions', { module_versions: [{ name: 'auth', version: '5' }] })
    await admin('PUT', '/authority', { address: 'cosmos1gov' })
    await admin('PUT', '/consensus_states/9007199254740993', { upgraded_consensus_state: 'AQI=' })
    for (const service of ['sdk', 'cosmos'] as const) {
      for (const [name, request, path] of METHODS) {
        const http = await (await server.fetch(null, `/${service}/upgrade/v1beta1${path}`)).json()
        t.equal(asJson(await call(client, QUERY[service], name, request)), JSON.stringify(http), name)
      }
    }
    t.match(await call(client, QUERY.sdk, 'CurrentPlan'), {
      plan: { name: 'v2', height: '9007199254740999' },
    })
    t.match(await call(client, QUERY.sdk, 'AppliedPlan', { name: 'v1' }), { height: '9007199254740993' })
  },
)

t.test('upgrade.api.3: no method changes any state: the log does not grow under any call', async (t) => {
  const { events } = server.services
  const before = await events.lastPosition()
  for (let i = 0; i < 20; i++) {
    for (const service of ['sdk', 'cosmos'] as const) {
      for (const [name, request, path] of METHODS) {
        await call(client, QUERY[service], name, request)
        for (const prefix of ['', '/api/v1']) {
          await server.fetch('admin', `${prefix}/${service}/upgrade/v1beta1${path}`)
          await server.fetch('admin', `${prefix}/${service}/upgrade/v1beta1${path}`, { method: 'POST' })
        }
      }
    }
  }
  t.equal(await events.lastPosition(), before)
})

t.test('upgrade.api.4: queries answer UNAVAILABLE and 503 while the projections catch up', async (t) => {
  const { createUpgradeAnswers } = await import('../../src/upgrade/answers.ts')
  const { readStore, events } = server.services
  const end = await events.lastPosition()
  let stopped: string | undefined
  let position = end - 1
  const status = () => [
    { name: 'upgrade_plans', position, ...(stopped === undefined ? {} : { stopped }) },
    { name: 'something_else', position: 0, stopped: 'broken' },
  ]
  const projector = { status, current: () => undefined, position: () => position }
  const answers = createUpgradeAnswers(readStore, projector, end)
  const unavailable = { name: 'UpgradeUnavailable' }
  t.notOk(answers.ready())
  await t.rejects(answers.currentPlan(), unavailable)
  const lines: string[] = []
  const app = fastify({ logger: { level: 'info', stream: { write: (line) => lines.push(line) } } })
  t.teardown(() => app.close())
  await app.register(upgradeHttpRoutes(answers))
  const { statusCode, headers } = await app.inject('/sdk/upgrade/v1beta1/current_plan')
  t.match({ statusCode, headers }, { statusCode: 503, headers: { 'retry-after': '1' } })
  const levels = lines.map((line): number => JSON.parse(line).level)
  t.ok(levels.length > 0 && Math.max(...levels) === 30, `a refusal is logged as information: ${levels}`)
  position = end
  t.ok(answers.ready())
  t.match(await answers.currentPlan(), { name: 'v2' })
  stopped = 'event 7'
  t.notOk(answers.ready())
  await t.rejects(answers.authority(), { ...unavailable, message: /upgrade_plans has stopped/, lasts: true })
})
