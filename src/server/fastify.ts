/** Creates the Fastify instance with its parsers, limits and observers. */
import { randomUUID } from 'node:crypto'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyRequest, LogController } from 'fastify'
import { operationUrl } from '../api/documentation/operations.ts'
import { urlWithTexts } from '../git/objects/byte-names.ts'
import { sendProblem } from '../http/answers/errors.ts'
import { jsonAnswer } from '../http/answers/json-answer.ts'
import { httpsServer, renewHttps } from '../http/connections/https.ts'
import type { Certificate } from '../http/connections/tls-files.ts'
import { urlWithPlainNames } from '../http/requests/repeated-text.ts'
import { unusedCompilers, validatorOf } from '../http/requests/request-validators.ts'
import { IGNORE_SLASH } from '../http/requests/trailing-slashes.ts'
import {
  ALLOW_MISSING_HOST,
  ignoreExpectations,
  refuseUnreadable,
} from '../http/requests/unreadable-requests.ts'
import type { Metrics } from '../observability/metrics.ts'
import { requestLog } from '../observability/request-log.ts'
import { observeRequests } from '../observability/requests.ts'
import type { Tracing } from '../observability/tracing.ts'
import type { Services } from '../services/services.ts'
import { isUpgradePath, sendUpgradeProblem } from '../upgrade/http.ts'
import { trustedProxies } from './client-limits.ts'

/** Accepted request ids of clients: short and printable. Other requests get a new id. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/

/** Returns the URL to which problems refer: the request's operation on the page of the API, or the page itself. */
export const docsUrlOf =
  ({ publicUrl }: Services) =>
  (request?: FastifyRequest): string => {
    const page = `${publicUrl()}/api/docs`
    return request === undefined ? page : operationUrl(request, page)
  }

/** `certificate`: for TLS. */
export function createFastify(
  services: Services,
  { metrics, tracing }: { metrics: Metrics; tracing?: Tracing | undefined },
  certificate?: Certificate,
) {
  const { config } = services
  const docsUrl = docsUrlOf(services)
  const app = Fastify({
    loggerInstance: services.log,
    // Fastify logs two lines per request, the second only after the client read the answer. `requestLog` writes one.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: config.maxBodyBytes,
    trustProxy: trustedProxies(config) ?? false,
    http: {
      ...ALLOW_MISSING_HOST,
      headersTimeout: config.requestTimeoutMs,
      // Fastify's default, but node compares `headersTimeout` with its own default before fastify sets this one.
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
      else sendProblem(error, request, reply, docsUrl)
    },
    rewriteUrl: ({ url = '/' }) => urlWithTexts(urlWithPlainNames(url)),
    routerOptions: {
      // Chains don't limit the names of upgrade plans. The size of a request's head is the limit here.
      maxParamLength: 16 * 1024,
      ...IGNORE_SLASH,
    },
  }).withTypeProvider<TypeBoxTypeProvider>()

  // TypeScript checks the answers against the schemas. JSON.stringify takes half the time of serializers that are
  // compiled from the schemas, and compiling would take a third of the startup.
  app.setSerializerCompiler(() => jsonAnswer)
  app.setValidatorCompiler(validatorOf)

  if (certificate !== undefined) renewHttps(app, certificate, services.log)
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
  return app
}
