/**
 * Measures several servers that share their data behind a proxy. The ceiling is one of them alone, behind the same
 * proxy and in the same run. The stores are the test doubles, or the servers of `TEST_EVENTSTORE_URL` and
 * `TEST_MONGODB_URL`, with a new database that is not removed.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Sizes } from './bench.ts'
import { type Child, startChild } from './child.ts'
import { startDouble, withDatabase } from './eventstore.ts'
import type { LoadCommand } from './load-process.ts'
import { environmentOf, makeAdmin } from './log.ts'
import type { ProxyReady } from './proxy-process.ts'
import { CONNECTIONS, WARM_UP_SECONDS } from './rates.ts'
import type { ServerReady } from './server-process.ts'
import { median, perSecond, type Row, ratioRow } from './table.ts'
import { api, loadOf, type Target } from './target.ts'
import { CLIENTS, makeRepository } from './writes.ts'

const NAME = 'nodes'
/** Pull requests in the repository: one page. */
const PULLS = 30

/** Measured work, in the order of its rows. */
const WORK = [
  'get one pull request',
  `list ${PULLS} pull requests`,
  'post an issue',
  'post a comment',
] as const
type Rates = Record<(typeof WORK)[number], number>

export async function measureNodes(directory: string, sizes: Sizes, count: number): Promise<Row[]> {
  await mkdir(directory, { recursive: true })
  const { urls, where, stop } = await openStores(directory)
  const proxy = await startChild<ProxyReady>('proxy')
  const load = await startChild<object>('load')
  const dataDir = join(directory, 'data')
  const environment = { ...environmentOf(dataDir), ...urls, TRUST_PROXY: 'loopback' }
  const admin = await makeAdmin(environment)
  const startNode = async (i: number) => {
    const server = await startChild<ServerReady>('server', { ...environment, NODE_NAME: `node-${i + 1}` })
    await server.ask({ what: 'recovered' })
    return server
  }
  const first = await startNode(0)
  const target = { server: first, dataDir, admin, sizes }
  const repository = await makeRepository(target, NAME, PULLS)
  for (let n = 0; n < PULLS; n++) {
    await api(target, 'POST', `${repository.path}/pulls`, {
      head: `head-${n}`,
      base: 'main',
      title: `Number ${n}`,
    })
  }

  const measure = async (nodes: readonly Child<ServerReady>[]) => {
    await proxy.ask({ urls: nodes.map(({ ready }) => ready.url) })
    return ratesOf(proxy.ready.url, repository.path, target, load)
  }
  const alone: Rates[] = []
  const together: Rates[] = []
  // Alternating, so that other load on the host affects both. A single node has no followers.
  for (let i = 0; i < sizes.rounds; i++) {
    alone.push(await measure([first]))
    const others: Child<ServerReady>[] = []
    for (let n = 1; n < count; n++) others.push(await startNode(n))
    together.push(await measure([first, ...others]))
    await proxy.ask({ urls: [first.ready.url] })
    for (const other of others) await other.stop()
  }
  for (const child of [load, proxy, first]) await child.stop()
  await stop()
  return WORK.map((work) => {
    const [one, all] = [alone, together].map((rates) => median(rates.map((rate) => rate[work])))
    const [ceiling = Number.NaN, own = Number.NaN] = [one, all]
    return ratioRow(
      `${work}, ${count} nodes on ${where}`,
      perSecond(own),
      `${perSecond(ceiling)} one node`,
      own / ceiling,
    )
  })
}

/** Real servers where the environment names them, otherwise doubles. */
async function openStores(directory: string) {
  const { TEST_EVENTSTORE_URL: events, TEST_MONGODB_URL: documents } = process.env
  const log = events === undefined ? await startDouble('eventstore', join(directory, 'log')) : undefined
  const store =
    documents === undefined ? await startDouble('mongodb', join(directory, 'documents')) : undefined
  const names = [events && 'EventStoreDB', documents && 'MongoDB', (log ?? store) && 'doubles']
  return {
    urls: {
      EVENTSTORE_URL: events ?? log?.url ?? '',
      MONGODB_URL: documents === undefined ? `${store?.url}/mergelog` : withDatabase(documents),
    },
    where: names.filter((name) => typeof name === 'string').join(' and '),
    async stop() {
      await Promise.all([log?.stop(), store?.stop()])
    },
  }
}

/** Measures requests per second of each kind of work. Reads and writes have their usual numbers of clients. */
async function ratesOf(url: string, path: string, target: Target, load: Child<object>): Promise<Rates> {
  const { admin, sizes } = target
  const headers = { authorization: `token ${admin.token}` }
  async function reads(of: string): Promise<number> {
    const command = { url: `${url}/api/v1${path}${of}`, connections: CONNECTIONS, headers }
    await loadOf(load, { ...command, end: { duration: WARM_UP_SECONDS } })
    return (await loadOf(load, { ...command, end: { duration: sizes.seconds } })).rate
  }
  const amount = Math.max(CLIENTS, Math.ceil(sizes.issuesToOpen / (sizes.rounds + 1)))
  async function writes(of: string, body: object, first: number): Promise<number> {
    const write: LoadCommand['write'] = {
      method: 'POST',
      path: `/api/v1${path}${of}`,
      body: JSON.stringify(body),
      first,
    }
    return (await loadOf(load, { url, connections: CLIENTS, headers, end: { amount }, write })).rate
  }
  const get = await reads('/pulls/1')
  const list = await reads('/pulls')
  const post = await writes('/issues', { title: 'Number {n}', body: 'What happens, and what should.' }, 1)
  // Each to its own issue. The issues come after the pull requests.
  const comment = await writes('/issues/{n}/comments', { body: 'Comment {n}' }, PULLS + 1)
  return {
    'get one pull request': get,
    [`list ${PULLS} pull requests`]: list,
    'post an issue': post,
    'post a comment': comment,
  }
}
