/** What all files of routes have in common. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifySchema } from 'fastify'
import { Type } from 'typebox'
import type { Services } from '../services/services.ts'
import type { ScopeCategory } from './token-scopes.ts'

/** The routes of one file, as a plugin. `app.ts` has the list of all of them. */
export type Routes = (services: Services) => FastifyPluginAsyncTypebox

/**
 * The options of a route. `scope`: what an access token must be valid for. The route is in the group of that name in
 * the API's documentation, unless its schema has other `tags`.
 */
export function route<S extends FastifySchema>(scope: ScopeCategory, schema: S) {
  return { config: { scope }, schema: { tags: [scope], ...schema } }
}

/** The schema of an answer without a body that has another status than 204. */
export const emptyAnswer = (description: string) => Type.Unsafe<undefined>({ type: 'null', description })

/** The response schema of a route without an answer. */
export const NO_CONTENT = { 204: Type.Null() }
