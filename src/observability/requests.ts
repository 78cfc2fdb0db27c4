/** Sees each request over HTTP, also those of git, from its head to the end of its answer. */
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** A request whose answer has ended. */
export interface EndedRequest {
  request: FastifyRequest
  /** The socket of the request. A request that was destroyed has none any more. */
  socket: Socket
  method: string
  /** The pattern of the route; `unmatched` when no route has the path. */
  route: string
  /** Of the answer, whether all of it was taken or not. */
  status: number
  /** Whether the client went away, or was disconnected, before the end of the answer. */
  aborted: boolean
  /** From the head of the request to the end of the answer. */
  ms: number
}

/** Calls `ended` for each request once. Call it before all other hooks: what they refuse is seen then, too. */
export function observeRequests(app: FastifyInstance, ended: (request: EndedRequest) => void) {
  function observe(request: FastifyRequest, reply: FastifyReply): void {
    const begun = performance.now()
    const { raw } = reply
    const { socket } = request.raw
    // Those who limit a request and those who watch it each listen for its end.
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
  /** For requests that no hook sees: fastify refuses them before it looks for a route. */
  return observe
}
