/** The possible error answers of each route, for the API's documentation. */

import { STATUS_CODES } from 'node:http'
import type { FastifySchema, RouteOptions } from 'fastify'
import { Type } from 'typebox'
import { ERROR_CODES } from '../../errors/error-codes.ts'
import type { RefusalKind } from '../../errors/refusal.ts'
import { statusOf } from './errors.ts'

declare module 'fastify' {
  interface FastifySchema {
    /** Refusals of this route, besides those that follow from its method and parameters. */
    refusals?: readonly RefusalKind[]
  }
}

/** The components of the documentation that errors refer to. */
export const ERROR_COMPONENTS = {
  Error: Type.Object(
    {
      message: Type.String(),
      code: Type.Enum(Object.keys(ERROR_CODES), {
        description: 'Stable identifier of the reason',
      }),
      url: Type.String({ description: 'URL of the documentation of the operation' }),
      errors: Type.Optional(Type.Array(Type.String(), { description: 'All reasons; every 422 has them' })),
    },
    { description: 'The body of every error' },
  ),
}

/** The meaning of each error status, for the API's documentation. */
export const ERROR_DESCRIPTIONS: Readonly<Record<number, string>> = {
  307: 'The repository was renamed or moved; `Location` has its new address',
  400: 'The request cannot be read',
  401: 'The operation needs credentials, or the credentials are wrong',
  403: 'The caller, or the scope of the token, lacks the permission',
  404: 'The resource does not exist, or the caller may not read it',
  405: 'The operation is not allowed in the present state',
  408: 'The request took too long to arrive',
  409: 'The request conflicts with the present state',
  410: 'git no longer has a past commit; the message has its id',
  412: 'The resource has changed since the caller read it',
  413: 'The body is too large',
  415: 'The media type of the body is not supported',
  416: 'The requested byte range is outside of the file',
  422: 'A parameter or a field is invalid; `errors` names each',
  423: 'The resource is locked or archived',
  429: 'Too many requests; retry after `Retry-After` seconds',
  431: 'The head of the request is too large',
  503: 'The server is busy or starting; retry after `Retry-After` seconds',
  507: 'The disk or a quota is full',
}

/** Statuses that each operation may answer with: its documentation has them as one `default` answer. */
export const COMMON_STATUSES: readonly number[] = [400, 408, 429, 431, 503]

const describedAs = (description: string) => ({
  description,
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
})

/** How the documentation shows an error. */
export const errorAnswer = (status: number) =>
  describedAs(ERROR_DESCRIPTIONS[status] ?? STATUS_CODES[status] ?? '')

/** How the documentation shows the common statuses. */
export const COMMON_ANSWER = describedAs(
  COMMON_STATUSES.map((status) => `${status}: ${ERROR_DESCRIPTIONS[status]}`).join('. '),
)

/** Whether its path names a repository, which may have another name now. */
const namesRepository = ({ params }: FastifySchema) =>
  typeof params === 'object' &&
  params !== null &&
  'properties' in params &&
  typeof params.properties === 'object' &&
  params.properties !== null &&
  'owner' in params.properties &&
  'repo' in params.properties

/** Returns the refusals of a route, except the common ones: they follow from its credentials, parameters, body and changes. */
function refusalsOf(method: RouteOptions['method'], schema: FastifySchema): RefusalKind[] {
  const takes = [schema.params, schema.querystring, schema.body].some((part) => part !== undefined)
  return [
    // Routes without credentials have `security: []`.
    ...(schema.security === undefined ? (['unauthenticated', 'forbidden'] as const) : []),
    ...(takes ? (['notFound', 'unprocessable'] as const) : []),
    ...(namesRepository(schema) ? (['moved'] as const) : []),
    ...(method === 'GET'
      ? []
      : (['conflict', 'locked', 'tooLarge', 'unsupported', 'insufficientStorage'] as const)),
    ...(schema.refusals ?? []),
  ]
}

/**
 * Returns the schema of a route with its errors, for the documentation only. A route with its own errors (`default`)
 * keeps them.
 */
export function withErrorAnswers<S extends FastifySchema>(schema: S, method: RouteOptions['method']): S {
  const own = { ...(schema.response ?? { 200: Type.Null({ description: 'Done' }) }) }
  if ('default' in own) return schema
  const statuses = refusalsOf(method, schema)
    .map(statusOf)
    .filter((status) => !COMMON_STATUSES.includes(status))
  const errors = statuses.map((status) => [status, errorAnswer(status)])
  return { ...schema, response: { ...Object.fromEntries(errors), ...own, default: COMMON_ANSWER } }
}
