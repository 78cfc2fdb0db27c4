/** Ignores a trailing slash, except for deletions. */
import type { FastifyInstance } from 'fastify'
import { Refused, refuse } from '../../errors/refusal.ts'

/** Option of the router. */
export const IGNORE_SLASH = { ignoreTrailingSlash: true } as const

/**
 * A client that deletes an item with the empty name or `..` sends the path of its parent and a slash, which must not
 * delete the parent. Applies to the routes that are registered after this call.
 */
export function refuseDeleteAtSlash(app: FastifyInstance): void {
  app.addHook('onRequest', ({ method, url }, _reply, done) => {
    if (method !== 'DELETE') return done()
    const [path = ''] = url.split('?')
    if (!path.endsWith('/')) return done()
    done(new Refused(refuse.notFound(`${method} ${path} does not exist: the path must not end with a slash`)))
  })
}
