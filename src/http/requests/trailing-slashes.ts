/** A slash at the end of a path means nothing, except where something is deleted. */
import type { FastifyInstance } from 'fastify'
import { Refused, refuse } from '../../errors/refusal.ts'

/** For the router. */
export const IGNORE_SLASH = { ignoreTrailingSlash: true } as const

/**
 * A client that deletes what has an empty name, or the name `..`, sends the path of what contains it, and a slash. That must
 * not be deleted instead. For the routes that are registered after this call.
 */
export function refuseDeleteAtSlash(app: FastifyInstance): void {
  app.addHook('onRequest', ({ method, url }, _reply, done) => {
    if (method !== 'DELETE') return done()
    const [path = ''] = url.split('?')
    if (!path.endsWith('/')) return done()
    done(new Refused(refuse.notFound(`${method} ${path} does not exist: the path must not end with a slash`)))
  })
}
