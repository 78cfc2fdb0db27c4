/** Common parts of all route files. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifySchema } from 'fastify'
import { Type } from 'typebox'
import type { Services } from '../services/services.ts'
import type { ScopeCategory } from './token-scopes.ts'

/** The routes of one file, as a plugin. `app.ts` has the list of all of them. */
export type Routes = (services: Services) => FastifyPluginAsyncTypebox

/**
 * Returns the options of a route. `scope` is the required scope of an access token. The API's documentation groups by
 * it, unless the schema has `tags`.
 */
export function route<S extends FastifySchema>(scope: ScopeCategory, schema: S) {
  return { config: { scope }, schema: { tags: [scope], ...schema } }
}

/** The schema of an answer without a body that has another status than 204. */
export const emptyAnswer = (description: string) => Type.Unsafe<undefined>({ type: 'null', description })

/** The response schema of a route without an answer. */
export const NO_CONTENT = { 204: Type.Null() }
