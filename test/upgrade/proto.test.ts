import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

const root = fileURLToPath(new URL('../..', import.meta.url))
const cache = t.testdir()

/** Runs the protobuf compiler. Resolves to its output, rejects when it finds a problem. */
async function buf(...args: string[]): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(join(root, 'node_modules/.bin/buf'), args, {
    cwd: root,
    env: { ...process.env, BUF_CACHE_DIR: cache },
    maxBuffer: 2 ** 24,
  })
  return stderr + stdout
}

/** The compiler's JSON output. int64 and enums are strings. */
interface Field {
  name: string
  number: number
  label: string
  type: string
  typeName?: string
  options?: { deprecated?: boolean }
}
interface Message {
  name: string
  field?: Field[]
  reservedRange?: { start: number; end: number }[]
  options?: { deprecated?: boolean }
}
interface Method {
  name: string
  inputType: string
  outputType: string
  clientStreaming?: boolean
  serverStreaming?: boolean
  options: { deprecated?: boolean; [extension: string]: unknown }
}
interface File {
  name: string
  syntax?: string
  package?: string
  messageType?: Message[]
  service?: { name: string; method: Method[] }[]
}

function isFileSet(value: unknown): value is { file: File[] } {
  return typeof value === 'object' && value !== null && 'file' in value && Array.isArray(value.file)
}

/** Compiles the files of one package. Resolves to a line for each message and each method. */
async function compiled(packageName: string): Promise<{ messages: string[]; methods: string[] }> {
  const out = await buf(
    'build',
    'proto',
    '--as-file-descriptor-set',
    '--exclude-source-info',
    '-o',
    '-#format=json',
  )
  const set: unknown = JSON.parse(out)
  if (!isFileSet(set)) throw new Error(`the compiler answered ${out.slice(0, 200)}`)
  const files = set.file.filter((file) => file.package === packageName)
  if (files.some((file) => file.syntax !== 'proto3')) throw new Error('not protobuf 3')
  const mark = (deprecated: boolean | undefined) => (deprecated ? ' deprecated' : '')
  const short = (type: string) => type.replace(`.${packageName}.`, '')
  const messages = files
    .flatMap((file) => file.messageType ?? [])
    .map((message) => {
      const fields = (message.field ?? []).map(({ name, number, label, type, typeName, options }) => {
        const repeated = label === 'LABEL_REPEATED' ? 'repeated ' : ''
        const kind = typeName === undefined ? type.replace('TYPE_', '').toLowerCase() : short(typeName)
        return `${repeated}${kind} ${name} = ${number}${mark(options?.deprecated)};`
      })
      const reserved = (message.reservedRange ?? []).map(
        ({ start, end }) => `reserved ${start} to ${end - 1};`,
      )
      return `${[`${message.name}${mark(message.options?.deprecated)}:`, ...reserved, ...fields].join(' ')}`
    })
  const methods = files
    .flatMap((file) => file.service ?? [])
    .flatMap((service) =>
      service.method.map(({ name, inputType, outputType, clientStreaming, serverStreaming, options }) => {
        const stream = clientStreaming || serverStreaming ? ' streaming' : ''
        const http = JSON.stringify(options['[google.api.http]'])
        const types = `(${short(inputType)}) ${short(outputType)}`
        return `${service.name}.${name}${types}${stream}${mark(options.deprecated)} ${http}`
      }),
    )
  return { messages: messages.sort(), methods: methods.sort() }
}

const SPEC = {
  messages: [
    'ModuleVersion: string name = 1; uint64 version = 2;',
    'Plan: string name = 1; .google.protobuf.Timestamp time = 2 deprecated; int64 height = 3; string info = 4; ' +
      '.google.protobuf.Any upgraded_client_state = 5 deprecated;',
    'QueryAppliedPlanRequest: string name = 1;',
    'QueryAppliedPlanResponse: int64 height = 1;',
    'QueryAuthorityRequest:',
    'QueryAuthorityResponse: string address = 1;',
    'QueryCurrentPlanRequest:',
    'QueryCurrentPlanResponse: Plan plan = 1;',
    'QueryModuleVersionsRequest: string module_name = 1;',
    'QueryModuleVersionsResponse: repeated ModuleVersion module_versions = 1;',
    'QueryUpgradedConsensusStateRequest deprecated: int64 last_height = 1;',
    'QueryUpgradedConsensusStateResponse deprecated: reserved 1 to 1; bytes upgraded_consensus_state = 2;',
  ],
  methods: [
    'Query.AppliedPlan(QueryAppliedPlanRequest) QueryAppliedPlanResponse {"get":"/BASE/applied_plan/{name}"}',
    'Query.Authority(QueryAuthorityRequest) QueryAuthorityResponse {"get":"/BASE/authority"}',
    'Query.CurrentPlan(QueryCurrentPlanRequest) QueryCurrentPlanResponse {"get":"/BASE/current_plan"}',
    'Query.ModuleVersions(QueryModuleVersionsRequest) QueryModuleVersionsResponse {"get":"/BASE/module_versions"}',
    'Query.UpgradedConsensusState(QueryUpgradedConsensusStateRequest) QueryUpgradedConsensusStateResponse ' +
      'deprecated {"get":"/BASE/upgraded_consensus_state/{last_height}"}',
  ],
}

t.test('proto/ compiles and lints without warnings', async (t) => {
  t.equal(await buf('build', 'proto', '--error-format', 'text'), '')
  t.equal(await buf('lint', 'proto'), '')
})

t.test(
  'upgrade.api.1, upgrade.consensus.1: every message, field, number, reservation, deprecation and HTTP path of the spec',
  async (t) => {
    for (const base of ['sdk/upgrade/v1beta1', 'cosmos/upgrade/v1beta1']) {
      const { messages, methods } = await compiled(base.replaceAll('/', '.'))
      t.strictSame(messages, SPEC.messages, base)
      t.strictSame(
        methods,
        SPEC.methods.map((method) => method.replace('BASE', base)),
        base,
      )
    }
  },
)

t.test('upgrade.api.1: both packages are the same, including comments', async (t) => {
  for (const file of ['query.proto', 'upgrade.proto']) {
    const ours = await readFile(join(root, 'proto/sdk/upgrade/v1beta1', file), 'utf8')
    const alias = await readFile(join(root, 'proto/cosmos/upgrade/v1beta1', file), 'utf8')
    t.equal(
      alias,
      ours
        .replace('package sdk.', 'package cosmos.')
        .replaceAll('"sdk/', '"cosmos/')
        .replaceAll('"/sdk/', '"/cosmos/'),
    )
  }
})

t.test('upgrade.api.5: later additions have a "Since" comment', async (t) => {
  const text = await readFile(join(root, 'proto/sdk/upgrade/v1beta1/query.proto'), 'utf8')
  t.match(text, /\/\/ Since: 0\.43\n {2}rpc ModuleVersions\(/)
  t.match(text, /\/\/ Since: 0\.46\n {2}rpc Authority\(/)
  t.match(text, /\/\/ Since: 0\.43\n {2}bytes upgraded_consensus_state = 2;/)
})

t.test('descriptors.binpb, which the server reads, is up to date with proto/', async (t) => {
  const json = async (input: string) =>
    JSON.parse(
      await buf('build', input, '--as-file-descriptor-set', '--exclude-source-info', '-o', '-#format=json'),
    )
  t.strictSame(
    await json('proto/descriptors.binpb'),
    await json('proto'),
    'else: npx buf build proto --as-file-descriptor-set --exclude-source-info -o proto/descriptors.binpb',
  )
})

t.test('vendored definitions have their licence', async (t) => {
  for (const folder of ['google', 'grpc']) {
    t.match(await readFile(join(root, 'proto', folder, 'LICENSE'), 'utf8'), /Apache License/)
  }
})
