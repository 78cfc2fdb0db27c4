/** Answers without content (204, 304) say nothing of its type and its length. */
import type { FastifyInstance, onSendHookHandler } from 'fastify'

const NO_CONTENT = new Set([204, 304])

/**
 * For the routes that are registered after this call. Fastify makes `null`, which such answers are sent with, JSON of four
 * bytes. Their headers are those of the file that the client has: a cache that is told of four bytes of JSON keeps that.
 */
export function removeContentHeaders(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    // After all others: what makes the answer to HEAD writes down how long the one to GET is.
    route.onSend = [...[route.onSend ?? []].flat(), withoutContent]
  })
}

const withoutContent: onSendHookHandler = (request, reply, payload, done) => {
  if (!NO_CONTENT.has(reply.statusCode)) return done(null, payload)
  reply.removeHeader('content-type').removeHeader('content-length')
  // For HEAD this runs twice: what writes down the length comes between, and needs a payload.
  done(null, request.method === 'HEAD' || typeof payload !== 'string' ? payload : null)
}
