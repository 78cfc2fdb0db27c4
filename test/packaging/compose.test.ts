import { readFileSync } from 'node:fs'
import t from 'tap'
import { parseDocument } from 'yaml'
import { loadConfig } from '../../src/config/config.ts'
import { settings } from '../../src/config/setting-table.ts'

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')

interface Service {
  image?: string
  build?: string
  environment?: Record<string, string>
  volumes?: string[]
  ports?: string[]
  depends_on?: Record<string, { condition: string }>
  healthcheck?: { test: string[] }
}

interface Compose {
  services: Record<'app' | 'eventstore' | 'mongodb', Service>
  volumes: Record<string, unknown>
}

interface Package {
  scripts: Record<string, string>
  bin: Record<string, string>
}

const document = parseDocument(read('docker-compose.yml'), { strict: true, uniqueKeys: true })
const compose: Compose = document.toJS()
const { app, eventstore, mongodb } = compose.services
const packageJson: Package = JSON.parse(read('package.json'))

/** The instructions, with continued lines joined: `[['FROM', 'node:24 AS build'], …]`. */
const instructions = read('Dockerfile')
  .replace(/\\\n\s*/g, '')
  .split('\n')
  .filter((line) => /^[A-Z]+ /.test(line))
  .map((line): [string, string] => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)])

const argumentsOf = (name: string) => instructions.filter(([each]) => each === name).map(([, rest]) => rest)

/** The variables that the image sets: `A=1 B=2` of every ENV. */
const imageEnvironment = Object.fromEntries(
  argumentsOf('ENV').flatMap((rest) =>
    [...rest.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
  ),
)

const names: readonly string[] = settings.map(({ name }) => name)

t.test('docker-compose.yml is valid YAML without repeated keys', async (t) => {
  t.strictSame(document.errors, [])
  t.strictSame(document.warnings, [])
})

t.test('the stores are EventStoreDB and MongoDB', async (t) => {
  t.equal(eventstore.image, 'eventstore/eventstore:24.10')
  t.equal(mongodb.image, 'mongo:8')
  t.equal(app.build, '.')
  t.equal(app.image, 'mergelog', 'the compose file has an image name')
})

t.test('the app starts when both stores are healthy, and has its own health check', async (t) => {
  for (const [name, { healthcheck }] of Object.entries(compose.services)) {
    t.equal(healthcheck?.test[0], 'CMD', `${name} has a health check that runs without a shell`)
  }
  t.strictSame(app.depends_on, {
    eventstore: { condition: 'service_healthy' },
    mongodb: { condition: 'service_healthy' },
  })
  t.match(app.healthcheck?.test.at(-1), '/healthz')
})

t.test('all data of the containers is on declared volumes', async (t) => {
  const mounts = Object.values(compose.services).flatMap(({ volumes }) => volumes ?? [])
  t.strictSame(mounts.map((mount) => mount.split(':')[0]).sort(), Object.keys(compose.volumes).sort())
  for (const directory of ['/var/lib/eventstore', '/data/db', imageEnvironment.DATA_DIR]) {
    t.ok(
      mounts.some((mount) => mount.endsWith(`:${directory}`)),
      `${directory} is mounted`,
    )
  }
})

t.test('the stores, which have no passwords, cannot be reached from other machines', async (t) => {
  for (const port of [...(eventstore.ports ?? []), ...(mongodb.ports ?? [])]) t.match(port, /^127\.0\.0\.1:/)
})

t.test('every variable that compose and the image set is a setting with a valid value', async (t) => {
  // Fills in ${NAME:-default} as compose does on a machine without variables.
  const environment = Object.fromEntries(
    Object.entries(app.environment ?? {}).map(([name, value]) => [
      name,
      value.replace(/\$\{\w+:-([^}]*)\}/g, (_, otherwise) => otherwise),
    ]),
  )
  const { NODE_ENV, ...image } = imageEnvironment
  t.equal(NODE_ENV, 'production')
  for (const name of [...Object.keys(environment), ...Object.keys(image)]) {
    t.ok(names.includes(name), `${name} is a setting`)
  }
  for (const [, name] of JSON.stringify(app.environment).matchAll(/\$\{(\w+)/g)) {
    t.ok(name !== undefined && names.includes(name), `${name} has the same name on the host`)
  }
  const config = loadConfig({ ...image, ...environment })
  t.equal(config.eventStoreUrl, 'esdb://eventstore:2113?tls=false')
  t.equal(config.mongodbUrl, 'mongodb://mongodb:27017/mergelog')
  t.equal(config.host, '0.0.0.0', 'the server can be reached from outside its container')
  t.equal(config.dataDir, '/data')
  t.strictSame(app.ports, [`3000:${config.port}`, `9090:${config.grpcPort}`])
  t.match(app.healthcheck?.test.at(-1), `127.0.0.1:${config.port}/healthz`)
})

t.test('the image and npm start run the same program', async (t) => {
  const command: string[] = JSON.parse(argumentsOf('CMD').at(-1) ?? 'null')
  t.equal(command.join(' '), packageJson.scripts.start)
  const copied = argumentsOf('COPY').join('\n')
  for (const part of ['dist', 'bin', 'proto', 'ui']) t.match(copied, `/app/${part} ./${part}`, part)
  t.match(copied, '/app/scripts/prepare.js ./scripts/')
})

t.test('commands run inside the container as mergelog', async (t) => {
  t.match(argumentsOf('RUN').join('\n'), /ln -s \/app\/bin\/mergelog\.js \/usr\/local\/bin\/mergelog/)
  t.equal(packageJson.bin.mergelog, 'bin/mergelog.js')
  t.equal(packageJson.scripts.mergelog, 'node bin/mergelog.js', 'and in a clone by npm run mergelog')
})

t.test('the image is built in stages on Node 24 and runs without root privileges, with git', async (t) => {
  const [base, ...stages] = argumentsOf('FROM')
  t.equal(base, 'node:24-bookworm-slim AS base')
  t.strictSame(stages, ['base AS build', 'base'])
  t.match(argumentsOf('RUN')[0], /apt-get install .*\bgit\b/)
  t.ok(argumentsOf('RUN').includes('npm ci --omit=dev'), 'installs what runs, from the lockfile')
  t.match(argumentsOf('RUN').join('\n'), /npm run build && rm -rf node_modules\/esbuild/)
  t.strictSame(argumentsOf('USER'), ['node'])
  t.strictSame(argumentsOf('VOLUME'), ['/data'])
  t.match(
    argumentsOf('HEALTHCHECK')[0],
    '/livez',
    'what starts unhealthy containers again does so for no store',
  )
})

t.test('the health check inside the image is valid JavaScript', async (t) => {
  const checks = [
    argumentsOf('HEALTHCHECK')[0]?.replace(/^.*?CMD /, '') ?? 'null',
    JSON.stringify(app.healthcheck?.test.slice(1)),
  ]
  for (const check of checks) {
    const [node, flag, script]: string[] = JSON.parse(check)
    t.strictSame([node, flag], ['node', '-e'])
    t.doesNotThrow(() => new Function(script ?? '!'))
  }
})

t.test(
  'the scripts that run the server prepare the checkout first, and build what runs from dist/',
  async (t) => {
    const { scripts } = packageJson
    const prepare = 'node scripts/prepare.js'
    const names = {
      [`${prepare} --build`]: ['start', 'demo'],
      [prepare]: ['dev'],
      [`${prepare} --dev`]: ['test', 'test:system', 'test:clients', 'faults', 'seed'],
      [`${prepare} --dev --build`]: ['bench', 'hostile'],
    }
    for (const [command, prepared] of Object.entries(names)) {
      for (const name of prepared) {
        t.ok(name in scripts, `npm run ${name} exists`)
        t.equal(scripts[`pre${name}`], command)
      }
    }
  },
)
