/** Removes content type and length from answers without content (204, 304). */
import type { FastifyInstance, onSendHookHandler } from 'fastify'

const NO_CONTENT = new Set([204, 304])

/**
 * Applies to the routes that are registered after this call. Fastify serializes `null` as four bytes; with 304, caches
 * would store their type and length.
 */
export function removeContentHeaders(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    // Runs after all other hooks: the hook for HEAD sets the length.
    route.onSend = [...[route.onSend ?? []].flat(), withoutContent]
  })
}

const withoutContent: onSendHookHandler = (request, reply, payload, done) => {
  if (!NO_CONTENT.has(reply.statusCode)) return done(null, payload)
  reply.removeHeader('content-type').removeHeader('content-length')
  // Runs twice for HEAD: the hook in between sets the length and needs a payload.
  done(null, request.method === 'HEAD' || typeof payload !== 'string' ? payload : null)
}
