/**
 * A double of a blockchain node's HTTP gateway. A test sets its answers, and can make it fail in many ways.
 * `recordedUpgrade` holds the states of an upgrade, recorded from a real chain.
 */
import { pipeline } from 'node:stream/promises'
import { type FastifyReply, fastify } from 'fastify'
import type t from 'tap'

export interface ChainView {
  /** The block height in the answers' header; without it there is no such header. */
  height?: string
  plan: { name: string; height: string | number; info?: string } | null
  applied?: Record<string, string>
  /** When absent, the answer is 501, as from chains before SDK 0.43. */
  modules?: { name: string; version: string | number }[]
  /** When absent, the answer is 501, as from chains before SDK 0.46. */
  authority?: string
}

/** The kinds of wrong answers. */
export type Failure =
  | { status: number; headers?: Record<string, string> }
  /** Sent unchanged, with status 200. */
  | { body: string }
  | 'silent'
  | 'endless'
  | 'drips'
  | 'hangs up'

export interface TestGateway {
  url: string
  /** The requested paths, with the block height of each request. */
  asked: { path: string; block: string | undefined }[]
  show(view: ChainView): void
  /** Makes requests fail from now on; undefined ends it. `only` names the failing method. */
  fail(failure: Failure | undefined, only?: string): void
}

const INFO = '{"binaries":{"linux/amd64":"https://example.org/v2"}}'
const MODULES = [
  { name: 'bank', version: '4' },
  { name: 'auth', version: '5' },
]

const view = (height: string, plan: ChainView['plan'], changes: Partial<ChainView> = {}): ChainView => ({
  height,
  plan,
  modules: MODULES,
  authority: 'cosmos1gov',
  ...changes,
})
const AFTER = {
  applied: { 'v2.1': '112' },
  modules: [...MODULES, { name: 'circuit', version: '1' }],
}

/** The states of an upgrade, block by block, as a real chain shows them. */
export const recordedUpgrade = {
  quiet: view('90', null),
  planned: view('91', { name: 'v2', height: '120', info: INFO }),
  moved: view('92', { name: 'v2', height: '110', info: INFO }),
  replaced: view('93', { name: 'v2.1', height: '112', info: '' }),
  applied: view('113', null, AFTER),
  handedOver: view('114', null, { ...AFTER, authority: 'cosmos1group' }),
}

/** Starts a gateway. It ends with the test. */
export async function startGateway(test: Pick<typeof t, 'teardown'>): Promise<TestGateway> {
  const app = fastify({ forceCloseConnections: true, routerOptions: { maxParamLength: 20_000 } })
  let shown: ChainView = { plan: null }
  let failing: { failure: Failure; only: string | undefined } | undefined
  const asked: TestGateway['asked'] = []

  app.addHook('onRequest', async (request, reply) => {
    const block = request.headers['x-cosmos-block-height']
    asked.push({ path: request.url, block: typeof block === 'string' ? block : undefined })
    if (shown.height !== undefined) reply.header('grpc-metadata-x-cosmos-block-height', shown.height)
    if (failing === undefined || !request.url.includes(failing.only ?? '')) return
    await goWrong(failing.failure, reply)
  })
  const unknown = { code: 12, message: 'Not Implemented', details: [] }
  const at = '/cosmos/upgrade/v1beta1'
  app.get(`${at}/current_plan`, () => ({
    plan: shown.plan && {
      time: '0001-01-01T00:00:00Z',
      info: '',
      upgraded_client_state: null,
      ...shown.plan,
    },
  }))
  app.get<{ Params: { name: string } }>(`${at}/applied_plan/:name`, ({ params }) => ({
    height: shown.applied?.[params.name] ?? '0',
  }))
  app.get(`${at}/module_versions`, (_, reply) =>
    shown.modules === undefined ? reply.code(501).send(unknown) : { module_versions: shown.modules },
  )
  app.get(`${at}/authority`, (_, reply) =>
    shown.authority === undefined ? reply.code(501).send(unknown) : { address: shown.authority },
  )

  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  test.teardown(() => app.close())
  return {
    url,
    asked,
    show(next) {
      shown = next
    },
    fail(failure, only) {
      failing = failure === undefined ? undefined : { failure, only }
    },
  }
}

async function goWrong(failure: Failure, reply: FastifyReply): Promise<void> {
  if (typeof failure === 'object') {
    if ('body' in failure) return void reply.type('application/json').send(failure.body)
    const { status, headers = {} } = failure
    return void reply.code(status).headers(headers).send({ code: 14, message: 'unavailable', details: [] })
  }
  reply.hijack()
  const { raw } = reply
  switch (failure) {
    case 'silent':
      return
    case 'hangs up':
      return void raw.destroy()
    case 'drips':
      return void raw.writeHead(200).write('{"plan":')
    case 'endless':
      raw.writeHead(200)
      // The loop ends when the reader has gone.
      await pipeline(endless, raw).catch(() => undefined)
  }
}

function* endless(): Generator<string> {
  const chunk = 'x'.repeat(65_536)
  while (true) yield chunk
}
