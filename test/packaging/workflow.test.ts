import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { parse, parseDocument } from 'yaml'

const at = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const read = (path: string) => readFileSync(at(path), 'utf8')

interface Service {
  image: string
  env?: Record<string, string>
  environment?: Record<string, string>
}

interface Job {
  strategy?: { matrix: { node: number[] } }
  container?: string
  services?: Record<string, Service>
  env?: Record<string, string>
  steps: { run?: string; with?: Record<string, unknown> }[]
}

const document = parseDocument(read('.github/workflows/ci.yml'), { strict: true, uniqueKeys: true })
const { jobs }: { jobs: Record<'test' | 'sbom' | 'real-servers', Job> } = document.toJS()
const compose: { services: Record<string, Service> } = parse(read('docker-compose.yml'))

const commandsOf = ({ steps }: Job) => steps.flatMap(({ run }) => (run === undefined ? [] : [run]))
const realServers = jobs['real-servers']

t.test('the workflow is valid YAML without repeated keys', async (t) => {
  t.strictSame([...document.errors, ...document.warnings], [])
})

t.test('it runs .ci/run', async (t) => {
  t.strictSame(commandsOf(jobs.test), ['bash .ci/run'])
  t.ok(existsSync(at('.ci/run')))
})

t.test(
  'it keeps a bill of materials, which separates the packages for running from those for tests',
  async (t) => {
    const [command = ''] = commandsOf(jobs.sbom)
    const [program, ...args] = command.replace(/ > .*$/, '').split(' ')
    t.equal(program, 'npm')
    const run = promisify(execFile)
    const { stdout } = await run('npm', args, { cwd: at('.'), maxBuffer: 64 * 1024 * 1024 })
    const bill: { components: { purl: string; scope: string }[] } = JSON.parse(stdout)
    const scopes = new Map(bill.components.map(({ purl, scope }) => [purl, scope]))
    const lock: { packages: Record<string, { version: string }> } = JSON.parse(read('package-lock.json'))
    const { dependencies } = JSON.parse(read('package.json'))
    const scopeOf = (name: string) => {
      const { version = '' } = lock.packages[`node_modules/${name}`] ?? {}
      return scopes.get(`pkg:npm/${name.replace('@', '%40')}@${version}`)
    }
    t.same(
      Object.keys(dependencies).filter((name) => scopeOf(name) !== 'required'),
      [],
    )
    for (const name of ['tap', 'oidc-provider', 'playwright-core']) t.equal(scopeOf(name), 'optional', name)
    t.equal(jobs.sbom.steps.at(-1)?.with?.path, command.split(' > ')[1])
  },
)

t.test('it runs on the oldest Node that package.json allows, and on the newest', async (t) => {
  const { engines }: { engines: { node: string } } = JSON.parse(read('package.json'))
  const major = /\d+/.exec(engines.node)?.[0]
  t.strictSame(jobs.test.strategy?.matrix.node, [Number(major), 26])
  t.match(jobs.test.steps[1]?.with?.['node-version'], /^\$\{\{ matrix\.node \}\}$/)
  t.match(read('.ci/run'), /node-linux-.*@26/)
  t.equal(realServers.container, `node:${major}-bookworm`)
})

t.test('the contract suites run on the servers of docker-compose.yml without skipping any', async (t) => {
  const { eventstore, mongodb } = realServers.services ?? {}
  t.equal(eventstore?.image, compose.services.eventstore?.image)
  t.strictSame(eventstore?.env, compose.services.eventstore?.environment)
  t.equal(mongodb?.image, compose.services.mongodb?.image)

  const [install, , tests] = commandsOf(realServers)
  t.equal(install, 'npm ci')
  const files = tests?.replace('node test/run.ts ', '').split(' ') ?? []
  t.equal(files.length, 2)
  const sources = files.map(read).join('')
  for (const name of ['TEST_EVENTSTORE_URL', 'TEST_MONGODB_URL']) {
    t.match(sources, `process.env.${name}`)
    const { hostname } = new URL(realServers.env?.[name] ?? '')
    t.ok(hostname in (realServers.services ?? {}), `${name}: ${hostname} is a service`)
  }
})

t.test('npm run faults runs on the same servers, before the suites write into the log', async (t) => {
  t.match(commandsOf(realServers)[1], /^npm run faults -- --rounds \d+$/)
})

t.test('every npm script and every file that a step names exists', async (t) => {
  const { scripts }: { scripts: Record<string, string> } = JSON.parse(read('package.json'))
  const commands = Object.values(jobs).flatMap(commandsOf)
  for (const command of commands) {
    const [, script] = /^npm run (\S+)/.exec(command) ?? []
    if (script !== undefined) t.ok(Object.hasOwn(scripts, script), command)
    for (const word of command.split(' ')) if (word.includes('/')) t.ok(existsSync(at(word)), word)
  }
})
