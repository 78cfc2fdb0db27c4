/** Authorization before validation: only clients with the permission learn about errors in the body. */
import type { FastifyInstance, FastifyRequest } from 'fastify'

declare module 'fastify' {
  interface FastifyRequest {
    /** Why the body could not be parsed: it is not JSON, for example. */
    bodyProblem: Error | null
  }
}

/**
 * Whether the body of a request may be looked at. Where the rights depend on what it says, a handler asks this before, and
 * looks at the rights that do not.
 */
export const hasValidBody = ({
  bodyProblem,
  validationError,
}: Pick<FastifyRequest, 'bodyProblem' | 'validationError'>) => !bodyProblem && !validationError

type Done = (error: Error | null, body?: unknown) => void

/** For parsers: stores the error of a body for the handler, on routes that validate late. */
export const deferToHandler =
  (request: FastifyRequest, done: Done): Done =>
  (error, body) => {
    if (error === null || !request.routeOptions.attachValidation) return done(error, body)
    request.bodyProblem = error
    done(null)
  }

/**
 * For the routes that are registered after this call, in this scope. Their handlers look first at who asks, and then at the
 * body: a body that is not valid throws its error when it is looked at. A handler that changes something looks at it before,
 * at the latest for its `commandContext`.
 */
export function validateAfterAuthorization(app: FastifyInstance): void {
  app.decorateRequest('bodyProblem', null)
  app.addHook('onRoute', (route) => {
    if (route.schema?.body !== undefined) route.attachValidation = true
  })
  app.addHook('preHandler', (request, reply, done) => {
    const { bodyProblem, validationError } = request
    const isOfBody = bodyProblem !== null || validationError?.validationContext === 'body'
    if (!isOfBody) return done(validationError)
    const get = (): never => {
      throw bodyProblem ?? validationError
    }
    // What is left of the body is not read.
    if (!request.raw.complete) reply.header('Connection', 'close')
    // The query comes after the body: nobody has validated it.
    Object.defineProperties(request, { body: { get }, query: { get } })
    done()
  })
}
