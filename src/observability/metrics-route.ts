/** `GET /metrics` for site admins and clients with `METRICS_TOKEN`, or without authentication at `METRICS_PORT`. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify'
import { siteAdmin } from '../auth/requester.ts'
import { route } from '../auth/routes.ts'
import type { Config } from '../config/config.ts'
import { listenProblem } from '../config/listen-problem.ts'
import { rejectWhenOutOfDescriptors } from '../http/connections/descriptor-limit.ts'
import type { Scrape } from './scrape.ts'

const digest = (text: string) => createHash('sha256').update(text).digest()

/** Whether a request has the token. The comparison takes constant time. */
function showsToken(token: string): (request: FastifyRequest) => boolean {
  const expected = digest(token)
  return ({ headers: { authorization = '' } }) => {
    const [, shown] = /^Bearer +(\S+) *$/i.exec(authorization) ?? []
    return shown !== undefined && timingSafeEqual(digest(shown), expected)
  }
}

/** Without a token, only site admins have access. */
export function metricsRoute(scrape: () => Scrape, token: string | undefined): FastifyPluginAsync {
  const isToken = token === undefined ? () => false : showsToken(token)
  return async (app: FastifyInstance) => {
    app.get(
      '/metrics',
      { ...route('admin', { hide: true }), config: { scope: 'admin', admits: isToken } },
      async (request, reply) => {
        if (!isToken(request)) siteAdmin(request, 'read the metrics')
        const { contentType, text } = scrape()
        return reply
          .header('Cache-Control', 'no-store')
          .type(contentType)
          .send(await text())
      },
    )
  }
}

/** Maximum number of connections. Prometheus uses one, a browser a few. */
const MAX_CONNECTIONS = 16

/** Listens at `METRICS_PORT`, with `GET /metrics` only. @throws ConfigError when it can't listen */
export async function startMetricsServer(
  { metricsHost, host, metricsPort }: Pick<Config, 'metricsHost' | 'host' | 'metricsPort'>,
  scrape: () => Scrape,
): Promise<{ url: string; stop(): Promise<void> } | undefined> {
  if (metricsPort === undefined) return undefined
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5000 }, (request, answer) => {
    const isScrape =
      request.url?.split('?')[0] === '/metrics' && ['GET', 'HEAD'].includes(request.method ?? '')
    if (!isScrape) {
      answer.writeHead(404).end()
      return
    }
    const { contentType, text } = scrape()
    text().then(
      (metrics) => answer.writeHead(200, { 'Content-Type': contentType }).end(metrics),
      () => answer.writeHead(500).end(),
    )
  })
  server.maxConnections = MAX_CONNECTIONS
  rejectWhenOutOfDescriptors(server, () => server.closeAllConnections())
  server.setTimeout(30_000)
  const at = metricsHost ?? host
  server.listen(metricsPort, at)
  await once(server, 'listening').catch((error: unknown) => {
    const settings = {
      host: metricsHost === undefined ? 'HOST' : 'METRICS_HOST',
      port: 'METRICS_PORT',
    } as const
    throw listenProblem({ settings, host: at, port: metricsPort }, error)
  })
  const bound = server.address()
  const port = typeof bound === 'object' && bound !== null ? bound.port : metricsPort
  return {
    url: `http://${at.includes(':') ? `[${at}]` : at}:${port}/metrics`,
    async stop() {
      server.close()
      server.closeAllConnections()
      if (server.listening) await once(server, 'close')
    },
  }
}
