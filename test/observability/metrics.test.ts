// In a process of its own: it reads counters of the whole process.
/** `/metrics`: its permissions, its counters, and the metrics that `deploy/` and the limits name. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { parseDocument } from 'yaml'
import { createLag } from '../../src/observability/lag.ts'
import { gitIn, workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { call, clientOf, QUERY } from '../upgrade/grpc-client.ts'

const METRICS_TOKEN = 'a-token-for-prometheus'
const server = await startTestServer(t, { METRICS_TOKEN, METRICS_PORT: '0', NODE_NAME: 'node-1' })
const alice = await server.as('alice')
const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

async function scraped(): Promise<string> {
  const answer = await fetch(`${server.url}/metrics`, {
    headers: { authorization: `Bearer ${METRICS_TOKEN}` },
  })
  t.equal(answer.status, 200)
  t.match(answer.headers.get('content-type'), /^text\/plain; version=0\.0\.4/)
  return answer.text()
}

/** The value of the sample whose name and labels begin a line; 0 when there is none. */
function value(text: string, sample: string): number {
  const line = text.split('\n').find((one) => one.startsWith(`${sample} `))
  return line === undefined ? 0 : Number(line.slice(sample.length + 1))
}

t.test(
  'site admins and clients with the token may read /metrics; at METRICS_PORT every client may, and nothing else',
  async (t) => {
    const status = async (headers: Record<string, string>) =>
      (await fetch(`${server.url}/metrics`, { headers })).status
    t.equal((await server.fetch('admin', '/metrics')).status, 200)
    t.equal((await server.fetch('alice', '/metrics')).status, 403)
    t.equal(await status({}), 401)
    t.equal(await status({ authorization: `Bearer ${METRICS_TOKEN}x` }), 401)
    t.equal(await status({ authorization: `Basic ${btoa(`admin:${METRICS_TOKEN}`)}` }), 401)
    t.equal(await status({ authorization: `bearer ${METRICS_TOKEN}` }), 200)
    const elsewhere = await fetch(`${server.url}/api/v1/user`, {
      headers: { authorization: `Bearer ${METRICS_TOKEN}` },
    })
    t.equal(elsewhere.status, 401, 'the token is for the metrics only')

    const { metricsUrl = '' } = server
    t.match(await (await fetch(metricsUrl)).text(), /^mergelog_node_info\{node="node-1"\} 1$/m)
    for (const path of ['/', '/api/v1/user', '/metrics/x', '/healthz']) {
      t.equal((await fetch(new URL(path, metricsUrl))).status, 404, path)
    }
    t.equal((await fetch(metricsUrl, { method: 'POST' })).status, 404)
  },
)

t.test(
  'requests by the pattern of their route, appends, git, gRPC calls and refused sign-ins are counted',
  async (t) => {
    const before = await scraped()
    await alice.user.createCurrentUserRepo({ name: 'counted', auto_init: true })
    await server.fetch('alice', '/api/v1/repos/alice/counted?secret=1')
    await server.fetch('alice', '/api/v1/repos/alice/none')
    for (const path of ['/api/nowhere/1', '/api/nowhere/2', '/%']) await server.fetch(null, path)
    await fetch(`${server.url}/api/v1/user`, { headers: { authorization: 'token nonsense' } })
    await gitIn('/', ['ls-remote', server.gitUrl('alice', 'alice/counted')])
    await call(clientOf(t, server.grpcAddress), QUERY.sdk, 'CurrentPlan', {})
    const after = await scraped()
    const grown = (sample: string) => value(after, sample) - value(before, sample)
    const requests = (labels: string) => grown(`mergelog_http_request_duration_seconds_count{${labels}}`)

    t.equal(requests('method="POST",route="/api/v1/user/repos",status="201"'), 1)
    t.equal(requests('method="GET",route="/api/v1/repos/:owner/:repo",status="200"'), 1)
    t.equal(requests('method="GET",route="/api/v1/repos/:owner/:repo",status="404"'), 1)
    t.equal(requests('method="GET",route="unmatched",status="404"'), 2)
    t.equal(requests('method="GET",route="unmatched",status="400"'), 1)
    t.ok(requests('method="GET",route="/:owner/:repo/info/refs",status="200"') >= 1)
    t.notMatch(after, /nowhere|secret|counted/, 'no label is a URL')
    t.ok(grown('mergelog_append_duration_seconds_count{outcome="ok"}') >= 1)
    t.ok(grown('mergelog_appended_events_total') >= 1)
    t.equal(grown('mergelog_projected_events_total'), grown('mergelog_log_position'))
    t.ok(grown('mergelog_git_process_duration_seconds_count{command="upload-pack",end="ok"}') >= 1)
    t.equal(grown('mergelog_grpc_call_duration_seconds_count{method="CurrentPlan",code="OK"}'), 1)
    t.equal(grown('mergelog_sign_in_failures_total{reason="unauthenticated"}'), 1)
    t.equal(value(after, 'mergelog_store_up{store="log"}'), 1)
    t.equal(value(after, 'mergelog_read_model_lag_events{model="accounts"}'), 0)
    t.match(after, /^mergelog_process_lag_seconds\{process="scheduled_merges"\} 0$/m)
    t.match(after, /^mergelog_git_slots\{kind="push"\} 8$/m)
  },
)

t.test('a reached limit is counted under its name', async (t) => {
  const tight = await startTestServer(t, {
    MAX_BODY_BYTES: '1KiB',
    MAX_PUSH_BYTES: '2000',
    METRICS_PORT: '0',
  })
  const reached = async (limit: string) =>
    value(
      await (await fetch(tight.metricsUrl ?? '')).text(),
      `mergelog_limit_reached_total{limit="${limit}"}`,
    )
  t.equal(await reached('body_bytes'), 0, 'a limit that was never reached is there, too')
  const post = (body: object) =>
    tight.fetch('alice', '/api/v1/user/repos', { method: 'POST', body: JSON.stringify(body) })
  t.equal((await post({ name: 'x'.repeat(2000) })).status, 413)
  t.equal(
    (await post({ name: 'app', description: Array.from({ length: 40 }).reduce((inner) => [inner], 1) }))
      .status,
    400,
  )
  t.equal((await post({ name: 'app' })).status, 201)
  t.equal(await reached('body_bytes'), 1)
  t.equal(await reached('body_depth'), 1)

  const tree = await workTree(t)
  await tree.commit('large', { file: Array.from({ length: 4000 }, () => Math.random()).join('\n') })
  await t.rejects(tree.git('push', tight.gitUrl('alice', 'alice/app'), 'HEAD:refs/heads/main'))
  t.equal(await reached('push_bytes'), 1)

  const head = (await (await fetch(`${tight.url}/livez`, { headers: { x: 'x'.repeat(40_000) } })).text())
    .length
  t.ok(head > 0)
  await until('the large head is counted', async () => (await reached('head_bytes')) === 1)
})

t.test('the lag is 0 at the end of the log, and counts from when the end moved on', async (t) => {
  let time = 0
  const lag = createLag({ isDense: false, now: () => time })
  lag.reaches(1000)
  t.strictSame([lag.events(1000), lag.seconds(1000)], [0, 0])
  // Ten events in 1000 positions.
  lag.delivered([{ position: 1000 }])
  lag.delivered(Array.from({ length: 10 }, (_, i) => ({ position: 1100 + 100 * i })))
  time = 5000
  lag.reaches(3000)
  time = 12_000
  lag.reaches(4000)
  t.strictSame([lag.events(2000), lag.seconds(2000)], [20, 7])
  t.strictSame([lag.events(3500), lag.seconds(3500)], [5, 0])
  t.strictSame([lag.events(4000), lag.seconds(4000)], [0, 0])
  const dense = createLag({ isDense: true, now: () => time })
  dense.reaches(10)
  t.equal(dense.events(7), 3)
})

/** The names of our metrics, and of those of the process, in an expression. */
const metricsIn = (text: string) =>
  [...text.matchAll(/\b(?:mergelog|nodejs|process)_[a-z0-9_]+/g)].map(([name]) => name)

t.test('every metric that the dashboard and the alerts name exists', async (t) => {
  const text = await scraped()
  const exposed = new Set([...text.matchAll(/^([a-z0-9_]+)(?:\{| )/gm)].map(([, name = '']) => name))
  // They appear with the first of their kind.
  for (const [, name = '', type] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    exposed.add(name)
    if (type === 'histogram') for (const part of ['_bucket', '_sum', '_count']) exposed.add(`${name}${part}`)
  }
  const unknown = (expressions: readonly string[]) =>
    expressions.flatMap(metricsIn).filter((name) => !exposed.has(name))

  const alerts = parseDocument(read('deploy/prometheus/alerts.yaml'), { strict: true, uniqueKeys: true })
  t.strictSame([...alerts.errors, ...alerts.warnings], [])
  const {
    groups,
  }: { groups: { rules: { alert: string; expr: string; labels: object; annotations: object }[] }[] } =
    alerts.toJS()
  const rules = groups.flatMap((group) => group.rules)
  t.ok(rules.length > 10)
  t.strictSame(unknown(rules.map(({ expr }) => expr)), [], 'alerts')
  for (const { alert, labels, annotations } of rules) {
    t.match(labels, { severity: /^(critical|warning)$/ }, alert)
    t.match(annotations, { summary: /\w/ }, alert)
  }

  interface Panel {
    id: number
    title: string
    gridPos: { x: number; y: number; w: number; h: number }
    targets: { expr: string }[]
  }
  const dashboard: { panels: Panel[]; templating: { list: { query: string }[] } } = JSON.parse(
    read('deploy/grafana/mergelog.json'),
  )
  const { panels } = dashboard
  t.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
  t.ok(panels.every(({ gridPos: { x, w } }) => x + w <= 24))
  const expressions = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
  t.ok(panels.every(({ targets }) => targets.length > 0))
  t.strictSame(
    unknown([...expressions, ...dashboard.templating.list.map(({ query }) => query)]),
    [],
    'dashboard',
  )
})
