/** The HTTP application: its plugins and routes. It does not listen, so tests can inject requests. */
import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import { deletedMeanwhile } from '../api/deleted-meanwhile.ts'
import type { OpenRequests } from '../auth/open-requests.ts'
import { removeContentHeaders } from '../http/answers/empty-answer-headers.ts'
import { METHODS, registerErrors } from '../http/answers/errors.ts'
import { parseJsonBodies } from '../http/bodies/json-bodies.ts'
import type { Certificate } from '../http/connections/tls-files.ts'
import { basePath } from '../http/requests/base-path.ts'
import { refuseCrossSite } from '../http/requests/cross-site.ts'
import { refuseDeleteAtSlash } from '../http/requests/trailing-slashes.ts'
import type { Metrics } from '../observability/metrics.ts'
import { createScrape, type Scrape, type Sources } from '../observability/scrape.ts'
import type { Tracing } from '../observability/tracing.ts'
import { healthRoutes, type ServerState } from '../queries/administration/health.ts'
import type { Services } from '../services/services.ts'
import type { UpgradeAnswers } from '../upgrade/answers.ts'
import { upgradeHttpRoutes } from '../upgrade/http.ts'
import { linkedPlace } from '../web/links.ts'
import { showErrorsAsPages } from '../web/pages.ts'
import { serveApiDocs } from './api-docs.ts'
import { limitClients } from './client-limits.ts'
import { createFastify, docsUrlOf } from './fastify.ts'
import { admitRequests, followTraces, setHeaders } from './request-hooks.ts'
import { signedInRoutes } from './signed-in-routes.ts'

interface AppParts {
  services: Services
  /** Answers the queries of the upgrade Query service. */
  upgrade: UpgradeAnswers
  /** Ends open answers when sign-ins end. */
  openRequests: OpenRequests
  /** The state of the server for `/healthz`. */
  state: () => ServerState
  /** Whether requests are answered yet. */
  isOpen: () => boolean
  /** Aborted when the server is about to stop. */
  leaving: AbortSignal
  /** Observers of requests, and further sources of `/metrics`. */
  observed: { metrics: Metrics; tracing?: Tracing | undefined; grpcConnections: () => number } & Pick<
    Sources,
    'processes' | 'isRecovered'
  >
  /** Certificate for TLS; undefined for plain HTTP. */
  certificate?: Certificate | undefined
}

/** Builds the application. The order of the steps is the order of their hooks in a request. */
export async function buildApp(parts: AppParts): Promise<{ app: FastifyInstance; scrape: Scrape }> {
  const { services, upgrade, openRequests, state, isOpen, leaving, observed, certificate } = parts
  const { config, publicUrl } = services
  const { metrics, tracing, grpcConnections, processes, isRecovered } = observed
  // Without PUBLIC_URL the address is unknown before the server listens, and it has an empty path.
  const base = config.publicUrl === undefined ? '' : basePath(config.publicUrl)
  const app = createFastify(services, observed, certificate)
  const { connections, ...held } = limitClients(app, config, leaving)
  const scrape = createScrape(metrics, {
    ...{ services, processes, isRecovered, ...held },
    connections: () => ({ http: connections(), grpc: grpcConnections() }),
  })
  removeContentHeaders(app)
  showErrorsAsPages(app, services)
  registerErrors(
    app,
    docsUrlOf(services),
    (request, reply) => linkedPlace(request, reply, publicUrl()),
    (error, request) => deletedMeanwhile(services, request, error),
  )
  // Closing the server waits for live answers, which would never end.
  app.addHook('preClose', async () => services.live.end())
  setHeaders(app, services)
  admitRequests(app, services, isOpen)
  if (tracing !== undefined) followTraces(app, tracing)
  if (config.corsOrigins !== undefined) {
    // Without `credentials`: such pages send a token, never cookies.
    await app.register(cors, { origin: [...config.corsOrigins], methods: [...METHODS], maxAge: 600 })
  }
  refuseDeleteAtSlash(app)
  refuseCrossSite(app, publicUrl, config.corsOrigins ?? [])
  parseJsonBodies(app)
  await serveApiDocs(app, base)
  await app.register(healthRoutes(services, state, leaving))
  await app.register(upgradeHttpRoutes(upgrade))
  await app.register(signedInRoutes(services, { openRequests, signInRefused: metrics.signInRefused }, scrape))
  return { app, scrape }
}
