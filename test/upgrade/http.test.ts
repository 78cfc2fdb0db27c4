import t from 'tap'
import { startTestServer } from '../start-server.ts'

const server = await startTestServer(t)
const BASES = ['', '/api/v1'].flatMap((prefix) =>
  ['sdk', 'cosmos'].map((name) => `${prefix}/${name}/upgrade/v1beta1`),
)
const [BASE = ''] = BASES

const ask = async (path: string, base = BASE) => {
  const answer = await server.fetch(null, `${base}${path}`)
  return { status: answer.status, headers: answer.headers, body: JSON.parse(await answer.text()) }
}
const say = async (method: string, path: string, body?: object, login: string | null = 'admin') => {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await server.fetch(login, `/api/v1/admin/upgrade${path}`, init)
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) }
}
const logEnd = () => server.services.events.lastPosition()

const PLAN = { name: 'v2/α 1', height: '9007199254740993', info: '{"binaries":{}}' }
const PLAN_WIRE = { ...PLAN, time: '0001-01-01T00:00:00Z', upgraded_client_state: null }
const encoded = encodeURIComponent(PLAN.name)

t.test('upgrade.plan.1, upgrade.applied.1: without data every method answers its defaults', async (t) => {
  for (const base of BASES) {
    t.same((await ask('/current_plan', base)).body, { plan: null })
    t.same((await ask('/applied_plan/v1', base)).body, { height: '0' })
    t.same((await ask('/module_versions', base)).body, { module_versions: [] })
    t.same((await ask('/authority', base)).body, { address: '' })
    t.same((await ask('/upgraded_consensus_state/1', base)).body, { upgraded_consensus_state: '' })
  }
})

t.test('only site admins may write', async (t) => {
  await server.as('mallory')
  const before = await logEnd()
  const writes: [string, string, object?][] = [
    ['PUT', '/plan', PLAN],
    ['DELETE', '/plan'],
    ['POST', '/plan/apply', {}],
    ['PUT', '/module_versions', { module_versions: [] }],
    ['PUT', '/authority', { address: 'x' }],
    ['PUT', '/consensus_states/1', { upgraded_consensus_state: '' }],
  ]
  for (const [method, path, body] of writes) {
    t.equal((await say(method, path, body, null)).status, 401, `${method} ${path}`)
    t.equal((await say(method, path, body, 'mallory')).status, 403, `${method} ${path}`)
  }
  t.equal(await logEnd(), before)
})

t.test('upgrade.plan.1: the scheduled plan, exact beyond 2^53, until it is cancelled', async (t) => {
  t.same(await say('PUT', '/plan', PLAN), { status: 200, body: PLAN_WIRE })
  for (const base of BASES) t.same((await ask('/current_plan', base)).body, { plan: PLAN_WIRE })
  t.same(await say('PUT', '/plan', { name: 'v2b', height: 12 }), {
    status: 200,
    body: { ...PLAN_WIRE, name: 'v2b', height: '12', info: '' },
  })
  t.match((await ask('/current_plan')).body, { plan: { name: 'v2b' } })
  t.equal((await say('DELETE', '/plan')).status, 204)
  t.same((await ask('/current_plan')).body, { plan: null })
  t.equal((await say('DELETE', '/plan')).status, 404, 'cancelling without a plan is refused')
  t.equal((await say('POST', '/plan/apply', {})).status, 404, 'applying without a plan is refused')
})

t.test(
  'upgrade.applied.1: the height at which a plan was applied, which clears the current one',
  async (t) => {
    await say('PUT', '/plan', PLAN)
    t.match((await ask(`/applied_plan/${encoded}`)).body, { height: '0' }, 'not yet')
    t.equal((await say('POST', '/plan/apply', { height: '9007199254740995' })).status, 204)
    for (const base of BASES) {
      t.same((await ask(`/applied_plan/${encoded}`, base)).body, { height: '9007199254740995' })
    }
    t.same((await ask('/current_plan')).body, { plan: null })
    const again = await say('PUT', '/plan', PLAN)
    t.equal(again.status, 409)
    t.match(again.body.message, /applied at height 9007199254740995 already/)
  },
)

t.test('upgrade.modules.1: all modules when module_name is empty', async (t) => {
  const modules = [
    { name: 'mint', version: 2 },
    { name: 'auth', version: '18446744073709551615' },
  ]
  const sorted = [
    { name: 'auth', version: '18446744073709551615' },
    { name: 'mint', version: '2' },
  ]
  t.same(await say('PUT', '/module_versions', { module_versions: modules }), {
    status: 200,
    body: { module_versions: sorted },
  })
  for (const query of ['', '?module_name=', '?unknown=1&pagination.limit=1']) {
    t.same((await ask(`/module_versions${query}`)).body, { module_versions: sorted }, query)
  }
})

t.test('upgrade.modules.2: one module when module_name is set, 404 for an unknown one', async (t) => {
  t.same((await ask('/module_versions?module_name=mint')).body, {
    module_versions: [{ name: 'mint', version: '2' }],
  })
  t.match((await ask('/module_versions?moduleName=mint')).body, { module_versions: { length: 1 } })
  const { status, body } = await ask('/module_versions?module_name=nope')
  t.equal(status, 404)
  t.same(body, { code: 5, message: 'x/upgrade: QueryModuleVersions module nope not found', details: [] })
})

t.test('upgrade.authority.1: the account that conducts upgrades', async (t) => {
  t.same((await say('PUT', '/authority', { address: 'cosmos1gov' })).body, { address: 'cosmos1gov' })
  t.same((await ask('/authority')).body, { address: 'cosmos1gov' })
})

t.test('upgrade.consensus.1: stored bytes, with a Deprecation header', async (t) => {
  const state = Buffer.from([0, 255, 1]).toString('base64')
  const body = { upgraded_consensus_state: state }
  t.same(await say('PUT', '/consensus_states/9223372036854775807', body), { status: 200, body })
  const answer = await ask('/upgraded_consensus_state/9223372036854775807')
  t.same(answer.body, body)
  t.match(answer.headers.get('deprecation'), /^@\d+$/)
  t.equal((await ask('/current_plan')).headers.get('deprecation'), null)
})

t.test(
  'upgrade.api.4: heights that are not an int64 give 400, in queries and in commands, and change nothing',
  async (t) => {
    const before = await logEnd()
    for (const height of [
      'x',
      '1.5',
      '9223372036854775808',
      '-9223372036854775809',
      '%20',
      '1'.repeat(5000),
    ]) {
      const { status, body } = await ask(`/upgraded_consensus_state/${height}`)
      t.equal(status, 400, height.slice(0, 30))
      t.same(body, { code: 3, message: 'last_height: must be an int64', details: [] })
    }
    for (const height of ['x', '', '9223372036854775808', 2 ** 53, 1e300]) {
      const answer = await say('PUT', '/plan', { name: 'v9', height })
      t.equal(answer.status, 400, `${height}`)
      t.match(answer.body.message, /^height: must be an int64/)
    }
    for (const height of [1.5, null, {}, true]) {
      t.equal((await say('PUT', '/plan', { name: 'v9', height })).status, 422, `${height}`)
    }
    t.equal((await say('PUT', '/plan', { name: 'v9', height: 0 })).status, 422)
    t.equal((await say('PUT', '/consensus_states/x', { upgraded_consensus_state: '' })).status, 400)
    for (const state of ['§', 'A', 'AAECA', 'AQI==', 'AQI=A', 'A'.repeat(1_000_004)]) {
      const answer = await say('PUT', '/consensus_states/5', { upgraded_consensus_state: state })
      t.equal(answer.status, 422, state.slice(0, 10))
    }
    const versions = [{ name: 'auth', version: -1 }]
    t.equal((await say('PUT', '/module_versions', { module_versions: versions })).status, 400)
    t.equal(await logEnd(), before)
  },
)

t.test('names of 10,000 characters and broken UTF-8 are answered', async (t) => {
  const long = 'n'.repeat(10_000)
  t.same((await ask(`/applied_plan/${long}`)).body, { height: '0' })
  const module = await ask(`/module_versions?module_name=${long}`)
  t.equal(module.status, 404)
  t.ok(module.body.message.length < 400, 'a long name is shortened in the error')
  for (const path of ['/applied_plan/%FF', '/applied_plan/%', '/upgraded_consensus_state/%C3%28']) {
    for (const base of BASES) {
      const { status, body } = await ask(path, base)
      t.equal(status, 400, path)
      t.match(body, { code: 3, message: String, details: [] })
    }
  }
  const undecodable = await ask(`/applied_plan/${'n'.repeat(9000)}%`)
  t.equal(undecodable.status, 400)
  t.ok(undecodable.body.message.length < 400, 'a name with broken UTF-8 too')
  t.equal(undecodable.headers.get('x-content-type-options'), 'nosniff')
  t.equal((await ask('/module_versions?module_name=%FF')).status, 404)
  t.same((await ask('/module_versions?module_name=a&module_name=b')).body.code, 3)
  const elsewhere = await server.fetch(null, '/api/v1/repos/%FF/x')
  t.equal(elsewhere.status, 400)
  t.match(JSON.parse(await elsewhere.text()), { message: String, url: `${server.url}/api/docs` })
})

t.test('upgrade.api.3: queries are open to everyone, also with unknown credentials', async (t) => {
  const credentials = ['Bearer some-provider-api-key', 'Basic bad', `token ${'0'.repeat(40)}`, 'Digest x']
  for (const authorization of credentials) {
    for (const base of BASES) {
      const answer = await server.fetch(null, `${base}/authority`, { headers: { authorization } })
      t.equal(answer.status, 200, `${authorization} at ${base}`)
    }
  }
  const headers = { authorization: 'Bearer nobody' }
  t.equal((await server.fetch(null, `${BASE}/nowhere`, { headers })).status, 501)
  t.equal(
    (await server.fetch(null, '/api/v1/repos/issues/search', { headers })).status,
    401,
    'other routes refuse these credentials',
  )
})

t.test('upgrade.api.4: unknown methods are not implemented', async (t) => {
  for (const [method, path] of [
    ['GET', '/nowhere'],
    ['POST', '/current_plan'],
  ] as const) {
    const answer = await server.fetch(null, `${BASE}${path}`, { method })
    t.equal(answer.status, 501, `${method} ${path}`)
    t.same(JSON.parse(await answer.text()), { code: 12, message: 'Not Implemented', details: [] })
  }
})

t.test('upgrade.api.5: the OpenAPI document has the methods, and marks the deprecated one', async (t) => {
  const { paths } = JSON.parse(await (await server.fetch(null, '/api/openapi.json')).text())
  for (const path of ['current_plan', 'applied_plan/{name}', 'module_versions', 'authority']) {
    t.ok(paths[`${BASE}/${path}`]?.get, path)
  }
  t.equal(paths[`${BASE}/upgraded_consensus_state/{last_height}`].get.deprecated, true)
})
