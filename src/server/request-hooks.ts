/** Hooks of all requests. They take callbacks: a promise for each request would cost measurable time. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Refused, refuse } from '../errors/refusal.ts'
import { joinIfNeeded } from '../events/nodes/nodes.ts'
import type { Tracing } from '../observability/tracing.ts'
import type { Services } from '../services/services.ts'

/** Routes that report the state of this node. They answer before it joins the other nodes. */
const NODE_ROUTES = new Set(['/healthz', '/livez', '/metrics'])

const STARTING = refuse.unavailable('the server is starting; try again')

/** Whether a request is for one of `NODE_ROUTES`. */
export const isOfNode = (request: FastifyRequest) => NODE_ROUTES.has(request.routeOptions.url ?? '')

/** Sets the headers that every answer has. */
export function setHeaders(app: FastifyInstance, services: Services): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('X-Request-Id', request.id)
    reply.header('X-Content-Type-Options', 'nosniff')
    // Browsers ignore this header over http.
    if (request.protocol === 'https' || services.publicUrl().startsWith('https:')) {
      reply.header('Strict-Transport-Security', 'max-age=31536000')
    }
    done()
  })
}

/** Refuses requests until the server is open. Rejoins the other nodes if this node has left them. */
export function admitRequests(app: FastifyInstance, services: Services, isOpen: () => boolean): void {
  app.addHook('onRequest', (request, _reply, done) => {
    if (isOfNode(request)) done()
    else if (!isOpen()) done(new Refused(STARTING))
    else if (services.nodes.isMember()) done()
    else joinIfNeeded(services.nodes).then(() => done(), done)
  })
}

/** Runs the handlers of each request in its trace. */
export function followTraces(app: FastifyInstance, tracing: Tracing): void {
  // Entered twice: after a wait or after its body, a request continues in another asynchronous context.
  app.addHook('onRequest', (request, _reply, done) => tracing.enter(request, done))
  app.addHook('preValidation', (request, _reply, done) => tracing.enter(request, done))
}
