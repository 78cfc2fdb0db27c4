/** Observes each HTTP request, also those of git, from its head to the end of its answer. */
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** A request whose answer has ended. */
export interface EndedRequest {
  request: FastifyRequest
  /** The socket of the request: a destroyed request has lost it. */
  socket: Socket
  method: string
  /** The pattern of the route; `unmatched` when no route has the path. */
  route: string
  /** Status of the answer, whether or not the client read all of it. */
  status: number
  /** Whether the client disconnected, or was disconnected, before the end of the answer. */
  aborted: boolean
  /** Milliseconds from the head of the request to the end of the answer. */
  ms: number
}

/** Calls `ended` once per request. Call it before all other hooks, so that it also sees requests that they refuse. */
export function observeRequests(app: FastifyInstance, ended: (request: EndedRequest) => void) {
  function observe(request: FastifyRequest, reply: FastifyReply): void {
    const begun = performance.now()
    const { raw } = reply
    const { socket } = request.raw
    // Several limits and observers listen for the end of a request.
    raw.setMaxListeners(20)
    raw.once('close', () => {
      const { method, routeOptions, is404 } = request
      const route = is404 ? 'unmatched' : (routeOptions.url ?? 'unmatched')
      const ms = performance.now() - begun
      ended({ request, socket, method, route, status: reply.statusCode, aborted: !raw.writableFinished, ms })
    })
  }
  // A hook with a callback: a promise for each request would cost measurable time.
  app.addHook('onRequest', (request, reply, done) => {
    observe(request, reply)
    done()
  })
  /** For requests that Fastify refuses before any hook. */
  return observe
}
