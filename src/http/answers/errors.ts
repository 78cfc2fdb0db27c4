/** Maps each refusal and each failure to its HTTP status and body. */

import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ErrorCode } from '../../errors/error-codes.ts'
import { limitOf, limitReached } from '../../errors/limits.ts'
import { coded, ErrorWithRefusal, type RefusalKind, Refused, refuse } from '../../errors/refusal.ts'
import { diskFull, isDiskFull } from '../../storage/disk-full.ts'
import { hostFailure, hostFailureOf } from '../../storage/host-failure.ts'
import { MAX_JSON_BYTES } from '../requests/request-validators.ts'
import { locationOf } from './moved.ts'

/** Default error codes, by the kind of refusal. */
const CODE: Record<RefusalKind, ErrorCode> = {
  moved: 'moved',
  invalid: 'invalid_request',
  unauthenticated: 'unauthenticated',
  forbidden: 'forbidden',
  notFound: 'not_found',
  notAllowed: 'not_allowed',
  timedOut: 'timed_out',
  conflict: 'conflict',
  gone: 'gone',
  preconditionFailed: 'precondition_failed',
  tooLarge: 'too_large',
  unsupported: 'unsupported',
  unprocessable: 'unprocessable',
  locked: 'locked',
  tooManyRequests: 'too_many_requests',
  unavailable: 'unavailable',
  insufficientStorage: 'insufficient_storage',
}

const STATUS: Record<RefusalKind, number> = {
  moved: 307,
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  notFound: 404,
  notAllowed: 405,
  timedOut: 408,
  conflict: 409,
  gone: 410,
  preconditionFailed: 412,
  tooLarge: 413,
  unsupported: 415,
  unprocessable: 422,
  locked: 423,
  tooManyRequests: 429,
  unavailable: 503,
  insufficientStorage: 507,
}

/** The methods of all routes. */
export const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** The HTTP status of a refusal. */
export const statusOf = (kind: RefusalKind): number => STATUS[kind]

/** The body of every error: Gitea's fields, and `errors` with the single reasons. */
export interface ErrorBody {
  message: string
  code: ErrorCode
  /** Where the operation is documented. */
  url: string
  errors?: readonly string[]
}

interface Problem extends Omit<ErrorBody, 'url'> {
  status: number
}

/** The schema keywords that limit lengths. */
const OF_TEXTS = new Set(['maxLength', MAX_JSON_BYTES])
const OF_LENGTH = new Set([...OF_TEXTS, 'maxItems'])

/** Returns the client-visible part of an error. A 500 never shows internals. */
function problemOf(error: FastifyError | Error): Problem {
  // A failed write of git, a store or a file.
  if (isDiskFull(error)) {
    limitReached('disk_full')
    return { status: STATUS[diskFull.refused], code: CODE[diskFull.refused], message: diskFull.message }
  }
  if (error instanceof ErrorWithRefusal) {
    const { refused, message, errors, code = CODE[refused] } = error.refusal
    const limit = limitOf(error.refusal)
    if (limit !== undefined) limitReached(limit)
    // Every validation error names its reasons in `errors`, also when there is only one.
    const reasons = errors ?? (refused === 'unprocessable' ? [message] : undefined)
    return { status: STATUS[refused], code, message, ...(reasons && { errors: reasons }) }
  }
  if ('validation' in error && error.validation !== undefined) {
    // For a too long text, the other alternatives of the schema (null) also fail. They would hide the reason.
    const tooLong = error.validation.filter(({ keyword }) => OF_TEXTS.has(keyword))
    if (error.validation.some(({ keyword }) => OF_LENGTH.has(keyword))) limitReached('text_characters')
    const errors = (tooLong.length > 0 ? tooLong : error.validation).map(
      (v) =>
        `${fieldOf(v.instancePath, v.params)}: ${v.keyword === 'required' ? 'is missing' : (v.message ?? 'is not valid')}`,
    )
    return { status: 422, code: 'invalid_fields', message: errors.join('; '), errors }
  }
  // Errors that Fastify found in a request: malformed JSON, too large, unsupported media type.
  const status = 'statusCode' in error ? (error.statusCode ?? 500) : 500
  if ('code' in error && error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') limitReached('body_bytes')
  if (status < 500) return { status, code: codeFor(status), message: error.message }
  if (hostFailureOf(error) !== undefined) {
    const { refused, message } = hostFailure
    return { status: STATUS[refused], code: CODE[refused], message }
  }
  return { status: 500, code: 'internal_error', message: 'internal error' }
}

/** The code of an error of Fastify or Node, which has only a status. */
export function codeFor(status: number): ErrorCode {
  const kinds: readonly string[] = Object.entries(STATUS).flatMap(([kind, of]) =>
    of === status ? [kind] : [],
  )
  return Object.entries(CODE).find(([kind]) => kinds.includes(kind))?.[1] ?? 'invalid_request'
}

function fieldOf(path: string, params: Record<string, unknown>): string {
  const named = params.missingProperty ?? params.additionalProperty
  const parts = path.split('/').filter((part) => part !== '')
  if (typeof named === 'string') parts.push(named)
  return parts.join('.') || 'body'
}

/** Returns the new address of a request that uses an old name. */
function movedTo(error: Error, { url, routeOptions }: FastifyRequest, base?: string): string | undefined {
  const moved = error instanceof ErrorWithRefusal ? error.refusal.moved : undefined
  return moved && locationOf({ url, route: routeOptions.url ?? '' }, moved, base)
}

/** Sets the status and the headers of an error's answer. */
function beginProblem(error: Error, request: FastifyRequest, reply: FastifyReply, base?: string): Problem {
  const problem = problemOf(error)
  const { status, message } = problem
  // A refusal is a normal answer, so it is not logged as an error, even with status 503.
  if (status >= 500 && error instanceof Refused) request.log.info(message)
  else if (status >= 500) request.log.error({ err: error }, message)
  if (status === 401) reply.header('WWW-Authenticate', 'Basic realm="Mergelog", charset="UTF-8"')
  const location = movedTo(error, request, base)
  if (location !== undefined) reply.header('Location', location)
  // The rest of a slow request is not read.
  if (status === 408) reply.header('Connection', 'close')
  const mayEnd = !(error instanceof ErrorWithRefusal && error.refusal.lasts)
  if ((status === 429 || (status === 503 && mayEnd)) && !reply.hasHeader('Retry-After'))
    reply.header('Retry-After', '1')
  reply.code(status)
  return problem
}

/** Returns the URL of the documentation of a request's operation. */
type DocsUrl = (request: FastifyRequest) => string

/** Answers with an error. */
export function sendProblem(error: Error, request: FastifyRequest, reply: FastifyReply, docsUrl: DocsUrl) {
  const { message, code, errors } = beginProblem(error, request, reply)
  const body: ErrorBody = { message, code, url: docsUrl(request), ...(errors && { errors }) }
  return reply.type('application/json; charset=utf-8').send(body)
}

/** Sends a problem to git, which shows only plain text to its user. `base`: as in `locationOf`. */
export function sendGitProblem(error: Error, request: FastifyRequest, reply: FastifyReply, base: string) {
  const { message } = beginProblem(error, request, reply, base)
  return reply.type('text/plain; charset=utf-8').send(`${message}\n`)
}

/** `instead` may answer paths without a route; `explained` may replace an error by a better one. */
export function registerErrors(
  app: FastifyInstance,
  docsUrl: DocsUrl,
  instead: (request: FastifyRequest, reply: FastifyReply) => FastifyReply | undefined = () => undefined,
  explained: (error: Error, request: FastifyRequest) => Promise<Error> = async (error) => error,
): void {
  app.setErrorHandler(async (error: FastifyError, request, reply) =>
    sendProblem(await explained(error, request), request, reply, docsUrl),
  )
  app.setNotFoundHandler((request, reply) => {
    const answer = instead(request, reply)
    if (answer !== undefined) return answer
    const { method } = request
    const [path = ''] = request.url.split('?')
    const others = METHODS.filter((other) => app.findRoute({ method: other, url: path }) !== null)
    if (others.length > 0) reply.header('Allow', others.join(', '))
    const refusal =
      others.length > 0
        ? coded(
            'method_not_allowed',
            refuse.notAllowed(`${path} has no ${method}, only ${others.join(', ')}`),
          )
        : coded('route_not_found', refuse.notFound(`${method} ${path} does not exist`))
    return sendProblem(new Refused(refusal), request, reply, docsUrl)
  })
}
