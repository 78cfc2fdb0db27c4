import { connect } from 'node:http2'
import { type Client, Metadata, status } from '@grpc/grpc-js'
import {
  QueryAppliedPlanResponse,
  QueryClientImpl,
  QueryCurrentPlanResponse,
  QueryModuleVersionsResponse,
} from 'cosmjs-types/cosmos/upgrade/v1beta1/query'
import t, { type Test } from 'tap'
import { onLimitReached } from '../../src/errors/limits.ts'
import { UpgradeUnavailable } from '../../src/upgrade/answers.ts'
import type { QueryAnswers } from '../../src/upgrade/grpc-queries.ts'
import { answering, call, clientOf, QUERY, rawCall, refused, started } from './grpc-client.ts'

const LARGEST = '9223372036854775807'
const PLAN = { name: 'v2', height: '9007199254740993', info: '{"binaries":{}}' }
const MODULES = [
  { name: 'bank', version: '4' },
  { name: 'gov', version: '18446744073709551615' },
]
const CHAIN: Partial<QueryAnswers> = {
  currentPlan: async () => PLAN,
  appliedHeight: async (name) => (name === 'v1' ? LARGEST : '0'),
  moduleVersions: async (name) => {
    const found = MODULES.filter((module) => name === '' || module.name === name)
    return found.length > 0 ? found : undefined
  },
  authority: async () => 'cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn',
  upgradedConsensusState: async (height) => Buffer.from(height === LARGEST ? [0, 255, 1] : []),
}

async function querying(t: Test, answers: Partial<QueryAnswers> = {}): Promise<Client> {
  const { server } = await started(t, { answers: answering(answers) })
  return clientOf(t, server.address)
}

/** The protobuf bytes of a request with one field of text or bytes. */
function field1(text: string | Buffer): Buffer {
  const bytes = Buffer.from(text)
  const length: number[] = []
  let rest = bytes.length
  for (; rest > 127; rest >>>= 7) length.push((rest & 127) | 128)
  return Buffer.concat([Buffer.from([0x0a, ...length, rest]), bytes])
}

for (const [name, service] of Object.entries(QUERY)) {
  t.test(
    `upgrade.api.1: ${name}: the five methods answer the chain's data, with exact integers`,
    async (t) => {
      const client = await querying(t, CHAIN)
      t.strictSame(await call(client, service, 'CurrentPlan'), {
        plan: { ...PLAN, time: { seconds: '-62135596800', nanos: 0 }, upgraded_client_state: null },
      })
      t.strictSame(await call(client, service, 'AppliedPlan', { name: 'v1' }), { height: LARGEST })
      t.strictSame(await call(client, service, 'UpgradedConsensusState', { last_height: LARGEST }), {
        upgraded_consensus_state: Buffer.from([0, 255, 1]),
      })
      t.strictSame(await call(client, service, 'Authority'), {
        address: 'cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn',
      })
    },
  )

  t.test(
    `upgrade.modules.1, upgrade.modules.2: ${name}: all module versions without a name, one with it`,
    async (t) => {
      const client = await querying(t, CHAIN)
      t.strictSame(await call(client, service, 'ModuleVersions'), { module_versions: MODULES })
      t.strictSame(await call(client, service, 'ModuleVersions', { module_name: 'gov' }), {
        module_versions: [MODULES[1]],
      })
      t.strictSame(await refused(call(client, service, 'ModuleVersions', { module_name: 'nft' })), {
        code: status.NOT_FOUND,
        details: 'x/upgrade: QueryModuleVersions module nft not found',
      })
    },
  )

  t.test(`${name}: without data every answer is empty`, async (t) => {
    const client = await querying(t)
    t.strictSame(await call(client, service, 'CurrentPlan'), { plan: null })
    t.strictSame(await call(client, service, 'AppliedPlan', { name: 'v1' }), { height: '0' })
    t.strictSame(
      await call(client, service, 'AppliedPlan'),
      { height: '0' },
      'the empty name has no plan either',
    )
    t.strictSame(await call(client, service, 'ModuleVersions'), { module_versions: [] })
    t.strictSame(await call(client, service, 'Authority'), { address: '' })
    for (const last_height of ['0', '-1', '-9223372036854775808', LARGEST]) {
      t.strictSame(await call(client, service, 'UpgradedConsensusState', { last_height }), {
        upgraded_consensus_state: Buffer.alloc(0),
      })
    }
  })
}

t.test('protobuf responses are canonical: default values are not on the wire', async (t) => {
  const path = (method: string) => `/sdk.upgrade.v1beta1.Query/${method}`
  const nothing = Buffer.alloc(0)
  const empty = await querying(t)
  for (const method of [
    'CurrentPlan',
    'AppliedPlan',
    'UpgradedConsensusState',
    'ModuleVersions',
    'Authority',
  ]) {
    t.strictSame(await rawCall(empty, path(method), nothing), nothing, method)
  }
  t.strictSame(await rawCall(empty, path('AppliedPlan'), field1('v1')), nothing, 'an unknown name')

  const zeros = await querying(t, {
    ...CHAIN,
    currentPlan: async () => ({ name: '0', height: '0', info: '' }),
    moduleVersions: async () => [
      { name: '0', version: '0' },
      { name: '', version: '4' },
      { name: '', version: '0' },
    ],
  })
  const full = await querying(t, CHAIN)
  /** As the types of another implementation write what they have read. */
  const again = {
    CurrentPlan: (bytes: Buffer) => QueryCurrentPlanResponse.encode(QueryCurrentPlanResponse.decode(bytes)),
    ModuleVersions: (bytes: Buffer) =>
      QueryModuleVersionsResponse.encode(QueryModuleVersionsResponse.decode(bytes)),
    AppliedPlan: (bytes: Buffer) => QueryAppliedPlanResponse.encode(QueryAppliedPlanResponse.decode(bytes)),
  }
  for (const client of [zeros, full]) {
    for (const [method, rewritten] of Object.entries(again)) {
      const bytes = await rawCall(client, path(method), nothing)
      t.strictSame(Buffer.from(rewritten(bytes).finish()), bytes, method)
    }
  }
  t.strictSame(
    await call(zeros, QUERY.sdk, 'ModuleVersions'),
    {
      module_versions: [
        { name: '0', version: '0' },
        { name: '', version: '4' },
        { name: '', version: '0' },
      ],
    },
    'a client reads them as before',
  )
})

t.test('heights reach the store unchanged, up to the limits of int64', async (t) => {
  const asked: string[] = []
  const client = await querying(t, {
    upgradedConsensusState: async (height) => {
      asked.push(height)
      return Buffer.alloc(0)
    },
  })
  const heights = ['0', '-1', '9007199254740993', LARGEST, '-9223372036854775808']
  for (const last_height of heights) await call(client, QUERY.sdk, 'UpgradedConsensusState', { last_height })
  t.strictSame(asked, heights)
})

t.test('a changed plan or list is answered with its new value', async (t) => {
  let plan: typeof PLAN | null = PLAN
  let versions = MODULES
  const client = await querying(t, {
    currentPlan: async () => plan,
    moduleVersions: async () => versions,
  })
  const heights = []
  for (const next of [PLAN, { ...PLAN, height: '7' }, null, PLAN]) {
    plan = next
    heights.push(await call(client, QUERY.sdk, 'CurrentPlan'))
    t.strictSame(await call(client, QUERY.sdk, 'CurrentPlan'), heights.at(-1))
  }
  t.match(heights, [{ plan: { height: PLAN.height } }, { plan: { height: '7' } }, {}, { plan: PLAN }])
  t.strictSame(heights[2], { plan: null })
  for (const next of [MODULES, MODULES.slice(1), [], MODULES]) {
    versions = next
    t.strictSame(await call(client, QUERY.sdk, 'ModuleVersions'), { module_versions: next })
  }
})

t.test('upgrade.api.1: generated types of cosmjs-types work unchanged as a client', async (t) => {
  const client = await querying(t, CHAIN)
  const query = new QueryClientImpl({
    request: (service, method, data) => rawCall(client, `/${service}/${method}`, data),
  })
  t.strictSame((await query.CurrentPlan()).plan, {
    name: 'v2',
    time: { seconds: -62135596800n, nanos: 0 },
    height: 9007199254740993n,
    info: PLAN.info,
    upgradedClientState: undefined,
  })
  t.strictSame(await query.AppliedPlan({ name: 'v1' }), { height: 9223372036854775807n })
  t.strictSame(await query.AppliedPlan({ name: 'v7' }), { height: 0n })
  t.strictSame((await query.ModuleVersions({ moduleName: '' })).moduleVersions, [
    { name: 'bank', version: 4n },
    { name: 'gov', version: 18446744073709551615n },
  ])
  t.match(await query.Authority(), { address: /^cosmos1/ })
  const { upgradedConsensusState } = await query.UpgradedConsensusState({ lastHeight: 9223372036854775807n })
  t.strictSame([...upgradedConsensusState], [0, 255, 1])
  t.equal((await refused(query.ModuleVersions({ moduleName: 'nft' }))).code, status.NOT_FOUND)
})

t.test('upgrade.api.4: names of any length and script are answered', async (t) => {
  const asked: string[] = []
  const client = await querying(t, {
    appliedHeight: async (name) => {
      asked.push(name)
      return '7'
    },
  })
  const names = [
    'x'.repeat(10_000),
    '🙂'.repeat(10_000),
    `a${'🙂'.repeat(10_000)}`,
    'a\0b',
    '%41',
    '\uFFFD',
    '../..',
    '__proto__',
  ]
  for (const name of names) {
    t.strictSame(await call(client, QUERY.sdk, 'AppliedPlan', { name }), { height: '7' })
  }
  t.strictSame(asked, names)
  for (const module_name of names) {
    const { code, details } = await refused(call(client, QUERY.sdk, 'ModuleVersions', { module_name }))
    t.equal(code, status.NOT_FOUND)
    t.ok(details.length < 400, 'the error message has only the start of it')
    t.ok(details.includes(Array.from(module_name).slice(0, 100).join('')))
  }
})

t.test('upgrade.api.4: invalid UTF-8 and invalid protobuf are invalid arguments', async (t) => {
  let asked = 0
  const client = await querying(t, {
    currentPlan: async () => null,
    appliedHeight: async () => `${++asked}`,
    upgradedConsensusState: async () => Buffer.from([++asked]),
  })
  const path = (method: string) => `/sdk.upgrade.v1beta1.Query/${method}`
  const bad: [string, string, Buffer][] = [
    ['AppliedPlan', 'a byte that no UTF-8 has', field1(Buffer.from([0xff]))],
    ['AppliedPlan', 'half of a character', field1(Buffer.from([0x61, 0xc3]))],
    ['AppliedPlan', 'an overlong form', field1(Buffer.from([0xc0, 0xaf]))],
    ['AppliedPlan', 'a surrogate', field1(Buffer.from([0xed, 0xa0, 0x80]))],
    ['AppliedPlan', 'a text that is longer than its message', Buffer.from([0x0a, 5, 0x61])],
    ['AppliedPlan', 'a length of 2^63', Buffer.from([0x0a, ...Array(8).fill(0xff), 0x7f])],
    ['ModuleVersions', 'a field of a kind that there is not', Buffer.from([0x0f])],
    ['ModuleVersions', 'no UTF-8', field1(Buffer.from([0xfe, 0xfe]))],
    [
      'UpgradedConsensusState',
      'an integer of more than 64 bits',
      Buffer.from([0x08, ...Array(11).fill(0xff)]),
    ],
    ['UpgradedConsensusState', 'an integer that does not end', Buffer.from([0x08, 0x80])],
    ['CurrentPlan', 'a tag that does not end', Buffer.from([0xff, 0xff])],
    ['CurrentPlan', 'groups without end', Buffer.alloc(500_000, 0x13)],
    ['Authority', 'half of a field', Buffer.from([0x12, 9])],
  ]
  for (const [method, what, bytes] of bad) {
    const { code, details } = await refused(rawCall(client, path(method), bytes))
    t.equal(code, status.INVALID_ARGUMENT, `${method}: ${what}`)
    t.match(details, /^the request is malformed: /)
  }
  t.equal(asked, 0, 'the store was not read')
  const unknown = Buffer.concat([field1('v1'), Buffer.from([0x12, 1, 0xff, 0x18, 5])])
  t.strictSame(
    [...(await rawCall(client, path('AppliedPlan'), unknown))],
    [8, 1],
    'unknown fields are ignored',
  )
  t.strictSame(await call(client, QUERY.sdk, 'CurrentPlan'), { plan: null }, 'the server still answers')
})

t.test('UNAVAILABLE while the projections catch up, INTERNAL without details for a bug', async (t) => {
  let broken: Error = new UpgradeUnavailable('the projections are catching up; try again')
  const { server, logged } = await started(t, {
    answers: answering({
      currentPlan: async () => Promise.reject(broken),
      authority: () => {
        throw broken
      },
    }),
  })
  const client = clientOf(t, server.address)
  for (const method of ['CurrentPlan', 'Authority']) {
    broken = new UpgradeUnavailable('the projections are catching up; try again')
    t.strictSame(await refused(call(client, QUERY.sdk, method)), {
      code: status.UNAVAILABLE,
      details: 'the projections are catching up; try again',
    })
    t.strictSame(logged.splice(0), [], 'it is not logged as an error')
    broken = new TypeError('password=hunter2')
    t.strictSame(await refused(call(client, QUERY.sdk, method)), {
      code: status.INTERNAL,
      details: 'internal error',
    })
    t.match(logged.splice(0).join(), `"method":"${method}"`)
  }
})

t.test('UNIMPLEMENTED for unknown methods and services', async (t) => {
  const client = await querying(t)
  for (const path of ['/sdk.upgrade.v1beta1.Query/Nothing', '/sdk.upgrade.v1.Query/CurrentPlan', '/x']) {
    t.equal((await refused(rawCall(client, path, Buffer.alloc(0)))).code, status.UNIMPLEMENTED, path)
  }
})

t.test('deadlines: a call without an answer ends at its deadline', async (t) => {
  let release = (): void => {}
  const client = await querying(t, {
    currentPlan: () =>
      new Promise((resolve) => {
        release = () => resolve(null)
      }),
  })
  const calling = call(client, QUERY.sdk, 'CurrentPlan', {}, { deadline: Date.now() + 50 })
  t.equal((await refused(calling)).code, status.DEADLINE_EXCEEDED)
  release()
  t.strictSame(await call(client, QUERY.sdk, 'Authority'), { address: '' }, 'a late answer does no harm')
})

t.test('deadlines: a call whose deadline has passed is not executed', async (t) => {
  let asked = 0
  const { server } = await started(t, {
    answers: answering({
      authority: async () => {
        asked += 1
        return ''
      },
    }),
  })
  // A client of grpc-js would not send this call, so use HTTP/2 directly.
  const session = connect(`http://${server.address}`)
  t.teardown(() => session.close())
  const headers = await new Promise<object>((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/sdk.upgrade.v1beta1.Query/Authority',
      'content-type': 'application/grpc',
      te: 'trailers',
      'grpc-timeout': '1n',
    })
    stream.on('response', resolve).on('error', reject).resume()
    stream.end(Buffer.alloc(5))
  })
  t.match(headers, { 'grpc-status': `${status.DEADLINE_EXCEEDED}` })
  t.equal(asked, 0)
})

t.test('a cancelled call does not disturb other calls', async (t) => {
  const { promise: arrived, resolve: release } = Promise.withResolvers<void>()
  let answer = (): void => {}
  const client = await querying(t, {
    currentPlan: () => {
      release()
      return new Promise((resolve) => {
        answer = () => resolve(PLAN)
      })
    },
  })
  const same = (bytes: Buffer) => bytes
  const ended = new Promise<number | undefined>((resolve) => {
    const path = '/sdk.upgrade.v1beta1.Query/CurrentPlan'
    const calling = client.makeUnaryRequest(path, same, same, Buffer.alloc(0), (error) =>
      resolve(error?.code),
    )
    arrived.then(() => calling.cancel())
  })
  t.equal(await ended, status.CANCELLED)
  answer()
  t.strictSame(await call(client, QUERY.sdk, 'Authority'), { address: '' })
})

t.test('size: larger messages are refused in both directions', async (t) => {
  const { server } = await started(t, {
    maxMessageBytes: 2 ** 15,
    answers: answering({
      moduleVersions: async () =>
        Array.from({ length: 5000 }, (_, n) => ({ name: `module${n}`, version: '1' })),
    }),
  })
  const client = clientOf(t, server.address)
  const fits = { name: 'x'.repeat(2 ** 15 - 10) }
  t.strictSame(await call(client, QUERY.sdk, 'AppliedPlan', fits), { height: '0' })
  const counted: string[] = []
  t.teardown(onLimitReached((limit) => counted.push(limit)))
  const large = { name: 'x'.repeat(2 ** 15) }
  t.equal((await refused(call(client, QUERY.sdk, 'AppliedPlan', large))).code, status.RESOURCE_EXHAUSTED)
  t.equal((await refused(call(client, QUERY.sdk, 'ModuleVersions'))).code, status.RESOURCE_EXHAUSTED)
  t.strictSame(counted, ['grpc_message_bytes', 'grpc_message_bytes'])
  t.strictSame(await call(client, QUERY.sdk, 'Authority'), { address: '' }, 'the server still answers')
})

t.test('size: larger headers are refused', async (t) => {
  const client = await querying(t)
  const path = '/sdk.upgrade.v1beta1.Query/Authority'
  const small = new Metadata()
  small.set('x-cosmos-block-height', '123')
  await t.resolves(rawCall(client, path, Buffer.alloc(0), small), 'unknown headers are ignored')
  const large = new Metadata()
  large.set('x-large', 'x'.repeat(100_000))
  await t.rejects(rawCall(client, path, Buffer.alloc(0), large))
  t.strictSame(await call(client, QUERY.sdk, 'Authority'), { address: '' }, 'the server still answers')
})

t.test('a thousand concurrent calls are all answered', async (t) => {
  const client = await querying(t, CHAIN)
  const calls = Array.from({ length: 1000 }, () => call(client, QUERY.sdk, 'AppliedPlan', { name: 'v1' }))
  const answers = await Promise.all(calls)
  t.ok(answers.every((answer) => JSON.stringify(answer) === `{"height":"${LARGEST}"}`))
})
