/** The HTTP application: its plugins and routes. It does not listen, so tests can inject requests. */

import { randomUUID } from 'node:crypto'
import cors from '@fastify/cors'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import fp from 'fastify-plugin'
import { deletedMeanwhile } from '../api/deleted-meanwhile.ts'
import { authPlugin } from '../auth/auth.ts'
import type { OpenRequests } from '../auth/open-requests.ts'
import { clientOf } from '../auth/requester.ts'
import { gitHttpRoutes } from '../commands/git/git-http.ts'
import { lfsLockRoutes } from '../commands/lfs/locks.ts'
import { lfsObjectRoutes } from '../commands/lfs/objects.ts'
import { addressesIn } from '../config/address-ranges.ts'
import { Refused, refuse } from '../errors/refusal.ts'
import { joinIfNeeded } from '../events/nodes/nodes.ts'
import { urlWithTexts } from '../git/objects/byte-names.ts'
import { compressAnswers } from '../http/answers/compression.ts'
import { removeContentHeaders } from '../http/answers/empty-answer-headers.ts'
import { ERROR_COMPONENTS, withErrorAnswers } from '../http/answers/error-answers.ts'
import { METHODS, registerErrors, sendProblem } from '../http/answers/errors.ts'
import { jsonAnswer } from '../http/answers/json-answer.ts'
import { contentPolicy, pageHeaders } from '../http/answers/page-headers.ts'
import { limitUnreadAnswers } from '../http/answers/unread-answers.ts'
import { limitChunks } from '../http/bodies/body-chunks.ts'
import { decompressBodies } from '../http/bodies/compressed-bodies.ts'
import { parseJsonBodies, refuseOtherBodies } from '../http/bodies/json-bodies.ts'
import { queueLargeBodies } from '../http/bodies/large-body-queue.ts'
import { withOptionalBodies } from '../http/bodies/optional-bodies.ts'
import { limitBodies } from '../http/bodies/request-bodies.ts'
import { limitConnections } from '../http/connections/connections.ts'
import { scheduleByAccount } from '../http/connections/fair-scheduling.ts'
import { httpsServer, renewHttps } from '../http/connections/https.ts'
import { limitProxiedRequests } from '../http/connections/proxied-requests.ts'
import type { Certificate } from '../http/connections/tls-files.ts'
import { basePath } from '../http/requests/base-path.ts'
import { refuseCrossSite } from '../http/requests/cross-site.ts'
import { validateAfterAuthorization } from '../http/requests/deferred-validation.ts'
import { operationIdOf } from '../http/requests/operations.ts'
import { urlWithPlainNames } from '../http/requests/repeated-text.ts'
import { unusedCompilers, validatorOf } from '../http/requests/request-validators.ts'
import { IGNORE_SLASH, refuseDeleteAtSlash } from '../http/requests/trailing-slashes.ts'
import {
  ALLOW_MISSING_HOST,
  ignoreExpectations,
  refuseAmbiguous,
  refuseUnreadable,
} from '../http/requests/unreadable-requests.ts'
import type { Metrics } from '../observability/metrics.ts'
import { metricsRoute } from '../observability/metrics-route.ts'
import { requestLog } from '../observability/request-log.ts'
import { observeRequests } from '../observability/requests.ts'
import { createScrape, type Scrape, type Sources } from '../observability/scrape.ts'
import type { Tracing } from '../observability/tracing.ts'
import { healthRoutes, type ServerState } from '../queries/administration/health.ts'
import { wellKnownRoutes } from '../queries/administration/server-settings.ts'
import { attachmentDownloadRoutes } from '../queries/attachments/attachments.ts'
import { rawPageRoutes } from '../queries/contents/file-downloads.ts'
import { pullDiffPageRoutes } from '../queries/pull-requests/pull-git.ts'
import { archivePageRoutes } from '../queries/repositories/archives.ts'
import type { Services } from '../services/services.ts'
import type { UpgradeAnswers } from '../upgrade/answers.ts'
import { isUpgradePath, sendUpgradeProblem, upgradeHttpRoutes } from '../upgrade/http.ts'
import { applicationRoutes } from '../web/applications.ts'
import { homeRoutes } from '../web/home.ts'
import { linkedPlace } from '../web/links.ts'
import { showErrorsAsPages } from '../web/pages.ts'
import { uiRoutes } from '../web/routes.ts'
import { signInRoutes } from '../web/sign-in.ts'
import { API_ROUTES } from './api-routes.ts'

const API = '/api/v1'
/** Request ids that we accept from clients: short and printable. Other requests get a new id. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/

/** A request whose body, or whose turn, took longer than this (in milliseconds) looks at the other servers again. */
const HELD_MS = 100

/** They tell how this node is, also when the others have gone on without it. */
const OF_THE_NODE = new Set(['/healthz', '/livez', '/metrics'])

const STARTING = refuse.unavailable('the server is starting; try again')

/**
 * Builds the application.
 *
 * @param upgrade answers the queries of the upgrade Query service
 * @param openRequests hears from the projector when sign-ins end
 * @param state what only the server knows, for `/healthz`
 * @param running whether requests are answered yet, and what is aborted when the server is about to stop
 * @param observed what sees the requests, and what `/metrics` shows besides
 * @param certificate makes it a server with TLS
 */
export async function buildApp(
  services: Services,
  upgrade: UpgradeAnswers,
  openRequests: OpenRequests,
  state: () => ServerState,
  { isOpen, leaving }: { isOpen: () => boolean; leaving: AbortSignal },
  observed: { metrics: Metrics } & Pick<Sources, 'processes' | 'isRecovered'> & {
      grpcConnections: () => number
      tracing?: Tracing | undefined
    },
  certificate?: Certificate,
): Promise<{ app: FastifyInstance; scrape: Scrape }> {
  const { config } = services
  /** Known before the server listens only when it is configured; without that there is no path. */
  const base = config.publicUrl === undefined ? '' : basePath(config.publicUrl)
  const docsUrl = () => `${services.publicUrl()}/api/docs`
  const isProxy = config.trustProxy && addressesIn(config.trustProxy)
  const app = Fastify({
    loggerInstance: services.log,
    // Fastify logs two lines per request, the second only when all of the answer was taken. `requestLog` writes one.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: config.maxBodyBytes,
    trustProxy: isProxy ?? false,
    http: {
      ...ALLOW_MISSING_HOST,
      headersTimeout: config.requestTimeoutMs,
      // Fastify's own, but node compares the one above with its default before fastify sets it.
      requestTimeout: 0,
      connectionsCheckingInterval: Math.min(config.requestTimeoutMs / 4, 5000),
    },
    ...(certificate && { serverFactory: httpsServer(certificate, config.requestTimeoutMs) }),
    genReqId: (request) => {
      const given = request.headers['x-request-id']
      return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID()
    },
    schemaController: unusedCompilers,
    clientErrorHandler: refuseUnreadable(docsUrl, (status, ip) => {
      metrics.unreadable(status)
      services.log.info({ status, ip }, 'a request could not be read')
    }),
    // Errors before a route is found, such as a path that can't be decoded.
    frameworkErrors: (error, request, reply) => {
      observe(request, reply)
      reply.header('X-Request-Id', request.id)
      reply.header('X-Content-Type-Options', 'nosniff')
      if (isUpgradePath(request.url)) sendUpgradeProblem(error, request, reply)
      else sendProblem(error, request, reply, docsUrl())
    },
    rewriteUrl: ({ url = '/' }) => urlWithTexts(urlWithPlainNames(url)),
    routerOptions: {
      // Chains don't limit the names of upgrade plans. The size of a request's head is the limit here.
      maxParamLength: 16 * 1024,
      ...IGNORE_SLASH,
    },
  }).withTypeProvider<TypeBoxTypeProvider>()

  // TypeScript checks the answers against the schemas. JSON.stringify takes half the time of serializers that are
  // compiled from the schemas, and compiling them would take a third of the start.
  app.setSerializerCompiler(() => jsonAnswer)
  app.setValidatorCompiler(validatorOf)

  if (certificate !== undefined) renewHttps(app, certificate, services.log)
  const { metrics, tracing } = observed
  const logRequest = requestLog(services.log)
  const observe = observeRequests(app, (ended) => {
    const { method, route, status, aborted, ms } = ended
    metrics.request(method, route, aborted ? 'aborted' : `${status}`, ms)
    logRequest(ended)
    tracing?.end(ended)
  })
  if (tracing !== undefined) {
    app.addHook('onRequest', (request, _reply, done) => {
      request.traceId = tracing.begin(request)
      done()
    })
  }
  ignoreExpectations(app)
  const clients = { all: config.maxConnections, perNetwork: config.maxConnectionsPerAddress }
  const connections = limitConnections(app, clients, isProxy ?? (() => false), leaving)
  limitChunks(app)
  refuseAmbiguous(app)
  if (isProxy !== undefined) limitProxiedRequests(app, clients, isProxy)
  const bytes = { all: config.maxUnreadBytes, perNetwork: config.maxUnreadBytes / 4 }
  const unreadBytes = limitUnreadAnswers(app, { ...bytes, timeoutMs: config.unreadTimeoutMs })
  const arriving = limitBodies(app, { ...bytes, timeoutMs: config.requestTimeoutMs })
  const { grpcConnections, processes, isRecovered } = observed
  const scrape = createScrape(metrics, {
    processes,
    isRecovered,
    services,
    arriving,
    unreadBytes,
    connections: () => ({ http: connections(), grpc: grpcConnections() }),
  })
  removeContentHeaders(app)
  showErrorsAsPages(app, services)
  registerErrors(
    app,
    docsUrl,
    (request, reply) => linkedPlace(request, reply, services.publicUrl()),
    (error, request) => deletedMeanwhile(services, request, error),
  )
  // Closing the server waits for live answers, which would never end.
  app.addHook('preClose', async () => services.live.end())
  // Hooks with callbacks: a promise for each request would cost measurable time.
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('X-Request-Id', request.id)
    reply.header('X-Content-Type-Options', 'nosniff')
    // Over http it would mean nothing, and where clients come by http, there is nothing to keep.
    if (request.protocol === 'https' || services.publicUrl().startsWith('https:')) {
      reply.header('Strict-Transport-Security', 'max-age=31536000')
    }
    done()
  })
  app.addHook('onRequest', (request, _reply, done) => {
    if (OF_THE_NODE.has(request.routeOptions.url ?? '')) done()
    else if (!isOpen()) done(new Refused(STARTING))
    else if (services.nodes.isMember()) done()
    else joinIfNeeded(services.nodes).then(() => done(), done)
  })
  if (tracing !== undefined) {
    // Not before: a request may have been held, and whoever let it go on is in another trace. A body comes from elsewhere, too.
    app.addHook('onRequest', (request, _reply, done) => tracing.enter(request, done))
    app.addHook('preValidation', (request, _reply, done) => tracing.enter(request, done))
  }
  if (config.corsOrigins !== undefined) {
    // Without `credentials`: such pages send a token, never what the browser keeps for its user.
    await app.register(cors, { origin: [...config.corsOrigins], methods: [...METHODS], maxAge: 600 })
  }
  refuseDeleteAtSlash(app)
  refuseCrossSite(app, services.publicUrl, config.corsOrigins ?? [])
  parseJsonBodies(app)
  await app.register(swagger, {
    openapi: {
      info: { title: 'Mergelog', version: '1', description: 'Gitea-compatible API of Mergelog' },
      servers: [{ url: base === '' ? '/' : base }],
      components: {
        schemas: ERROR_COMPONENTS,
        securitySchemes: {
          basic: { type: 'http', scheme: 'basic' },
          token: { type: 'http', scheme: 'bearer' },
        },
      },
    },
    transform: ({ schema, url, route }) => ({
      url,
      schema: schema && {
        operationId: operationIdOf(`${route.method}`, url),
        ...withErrorAnswers(schema, route.method),
      },
    }),
    transformObject: withOptionalBodies,
  })
  await app.register(async (docs) => {
    // Swagger UI has its icons as data: URLs.
    const headers = pageHeaders(contentPolicy({ 'img-src': "'self' data:" }))
    docs.addHook('onSend', async (_request, reply) => void reply.headers(headers))
    await docs.register(swaggerUi, {
      routePrefix: '/api/docs',
      indexPrefix: base,
      uiConfig: { deepLinking: true },
    })
  })
  app.get('/api/openapi.json', { schema: { hide: true } }, async () => app.swagger())

  await app.register(healthRoutes(services, state, leaving))
  await app.register(upgradeHttpRoutes(upgrade))
  // A scope of its own: only these routes check credentials. The routes above are open to everyone.
  await app.register(async (signedIn) => {
    /** Waits for what other servers had written before. */
    const seeOthers = (request: FastifyRequest, done: (error?: Error) => void) => {
      if (OF_THE_NODE.has(request.routeOptions.url ?? '')) return done()
      const current = services.projector.current()
      if (current === undefined) done()
      else current.then(() => done(), done)
    }
    const seeOthersIfHeld = (request: FastifyRequest, { elapsedTime }: FastifyReply, done: () => void) =>
      elapsedTime < HELD_MS ? done() : seeOthers(request, done)
    signedIn.addHook('onRequest', (request, _reply, done) => seeOthers(request, done))
    // These hooks come before those that sign in again: who has waited goes on with the rights of then.
    queueLargeBodies(signedIn, clientOf)
    signedIn.addHook('preValidation', seeOthersIfHeld)
    signedIn.addHook('preHandler', seeOthersIfHeld)
    await signedIn.register(authPlugin({ ...services, openRequests, signInRefused: metrics.signInRefused }))
    scheduleByAccount(signedIn, (request) => request.requester && clientOf(request))
    validateAfterAuthorization(signedIn)
    await signedIn.register(metricsRoute(() => scrape, config.metricsToken))
    await signedIn.register(gitHttpRoutes(services))
    await signedIn.register(lfsObjectRoutes(services))
    await signedIn.register(lfsLockRoutes(services))
    await signedIn.register(attachmentDownloadRoutes(services))
    await signedIn.register(rawPageRoutes(services))
    await signedIn.register(archivePageRoutes(services))
    await signedIn.register(pullDiffPageRoutes(services))
    await signedIn.register(homeRoutes(services))
    await signedIn.register(uiRoutes(services))
    await signedIn.register(wellKnownRoutes(services))
    await signedIn.register(signInRoutes(services))
    await signedIn.register(applicationRoutes(services))
    await signedIn.register(
      async (api) => {
        decompressBodies(api)
        refuseOtherBodies(api)
        await compressAnswers(api)
        // With their names: for a plugin without one, fastify looks through all modules that are loaded.
        for (const { name, plugin } of API_ROUTES.map((routes) => ({
          name: routes.name,
          plugin: routes(services),
        }))) {
          api.register(fp(plugin, { name, encapsulate: true }))
        }
      },
      { prefix: API },
    )
  })
  return { app, scrape }
}
