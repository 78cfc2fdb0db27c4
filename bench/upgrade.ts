/**
 * Measures the Query service. The ceilings are a gRPC method and a bare fastify route that only send a fixed
 * answer.
 */
import type { BareReady } from './bare-process.ts'
import { startChild } from './child.ts'
import type { LoadCommand } from './load-process.ts'
import { CONNECTIONS, measureAlternately, type Rates } from './rates.ts'
import { perSecond, type Row, ratioRow } from './table.ts'
import { api, loadOf, type Target } from './target.ts'

const PATH = '/sdk/upgrade/v1beta1/current_plan'

export async function measureUpgrade(target: Target): Promise<Row[]> {
  const { server, sizes } = target
  await api(target, 'PUT', '/admin/upgrade/plan', { name: 'v2', height: '9007199254740993', info: '{}' })
  const body = await (await fetch(`${server.ready.url}${PATH}`)).text()
  const bare = await startChild<BareReady>('bare')
  await bare.ask({ body: JSON.parse(body) })
  const load = await startChild<object>('load')

  const rate = (url: string) => async (seconds: number) => {
    const command: LoadCommand = { url, connections: CONNECTIONS, headers: {}, end: { duration: seconds } }
    return (await loadOf(load, command)).rate
  }
  const compare = (own: string, ceiling: string) =>
    measureAlternately(sizes, { own: rate(own), ceiling: rate(ceiling) })

  const grpc = await compare(`grpc://${server.ready.grpcAddress}`, `grpc://${bare.ready.grpcAddress}`)
  const http = await compare(`${server.ready.url}${PATH}`, bare.ready.url)
  await load.stop()
  await bare.stop()
  const row = (work: string, what: string, { own, ceiling }: Rates, atLeast: number) =>
    ratioRow(work, perSecond(own), `${perSecond(ceiling)} ${what}`, own / ceiling, { atLeast })
  return [
    row('gRPC CurrentPlan', 'empty method', grpc, 0.8),
    row('HTTP current_plan', 'bare fastify', http, 0.5),
  ]
}
