/** Authorization before validation: only clients with the permission learn about errors in the body. */
import type { FastifyInstance, FastifyRequest } from 'fastify'

declare module 'fastify' {
  interface FastifyRequest {
    /** The error of parsing the body. */
    bodyProblem: Error | null
  }
}

/**
 * Whether the body of a request is valid. A handler whose permission check depends on the body calls this first, and
 * checks the other permissions otherwise.
 */
export const hasValidBody = ({
  bodyProblem,
  validationError,
}: Pick<FastifyRequest, 'bodyProblem' | 'validationError'>) => !bodyProblem && !validationError

type Done = (error: Error | null, body?: unknown) => void

/** Returns the callback of a parser: on routes that validate late, it stores the error for the handler. */
export const deferToHandler =
  (request: FastifyRequest, done: Done): Done =>
  (error, body) => {
    if (error === null || !request.routeOptions.attachValidation) return done(error, body)
    request.bodyProblem = error
    done(null)
  }

/**
 * Applies to the routes of this scope that are registered after this call. Their handlers authorize first: reading an
 * invalid body throws its error. A handler that changes something reads it before, at the latest for its
 * `commandContext`.
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
    // The rest of the body is not read.
    if (!request.raw.complete) reply.header('Connection', 'close')
    // The query is validated after the body, so an invalid body leaves it unvalidated.
    Object.defineProperties(request, { body: { get }, query: { get } })
    done()
  })
}
