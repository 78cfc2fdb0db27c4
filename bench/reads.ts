/** Measures GET and list requests. The ceiling is a bare fastify route that sends the same JSON. */
import type { BareReady } from './bare-process.ts'
import type { Group } from './bench.ts'
import { startChild } from './child.ts'
import type { LoadCommand } from './load-process.ts'
import { LARGE, SMALL } from './log.ts'
import { CONNECTIONS, measureAlternately, type Rates } from './rates.ts'
import { perSecond, type Row, ratioRow } from './table.ts'
import { api, loadOf, type Target } from './target.ts'

export async function measureReads(target: Target, wanted: readonly Group[]): Promise<Row[]> {
  const { server, admin, sizes } = target
  const bare = await startChild<BareReady>('bare')
  const load = await startChild<object>('load')

  async function rate(url: string, seconds: number): Promise<number> {
    const headers = { authorization: `token ${admin.token}` }
    const command: LoadCommand = { url, connections: CONNECTIONS, headers, end: { duration: seconds } }
    return (await loadOf(load, command)).rate
  }

  async function compare(path: string): Promise<Rates> {
    const url = `${server.ready.url}/api/v1${path}`
    const body: object = await api(target, 'GET', path)
    await bare.ask({ body })
    return measureAlternately(sizes, { own: (s) => rate(url, s), ceiling: (s) => rate(bare.ready.url, s) })
  }

  const rows: Row[] = []
  const row = (work: string, { own, ceiling }: Rates, atLeast: number) =>
    rows.push(
      ratioRow(work, perSecond(own), `${perSecond(ceiling)} bare fastify`, own / ceiling, { atLeast }),
    )
  const pulls = (name: string) => `/repos/${admin.login}/${name}/pulls`

  if (wanted.includes('get'))
    row('get one pull request', await compare(`${pulls(LARGE)}/${sizes.large}`), 0.5)
  if (wanted.includes('list')) {
    const small = await compare(pulls(SMALL))
    const large = await compare(pulls(LARGE))
    row(`list 30 of ${sizes.small.toLocaleString('en')}`, small, 0.5)
    row(`list 30 of ${sizes.large.toLocaleString('en')}`, large, 0.5)
    const times = [1000 / large.own, 1000 / small.own].map((ms) => `${ms.toFixed(3)} ms`)
    const [large1, small1] = [times[0] ?? '', times[1] ?? '']
    rows.push(
      ratioRow('list, many to few', large1, `${small1} with few`, small.own / large.own, { atMost: 1.5 }),
    )
  }
  await load.stop()
  await bare.stop()
  return rows
}
