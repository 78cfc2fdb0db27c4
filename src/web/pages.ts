/** Common parts of all pages: headers, paths and error pages. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { pageHeaders } from '../http/answers/page-headers.ts'
import { basePath } from '../http/requests/base-path.ts'
import type { Services } from '../services/services.ts'
import { checkOf } from '../storage/checked-json.ts'
import { CONTENT_SECURITY_POLICY, errorPage } from './layout.ts'

export const HTML = 'text/html; charset=utf-8'

/** Returns the path of a sign-in by OpenID Connect. `after`: the path of the page to which it returns. */
export const signInPath = (publicUrl: string, after: string): string =>
  `${basePath(publicUrl)}/user/oauth2/oidc?redirect_to=${encodeURIComponent(after)}`

/** Gives the answers of these routes the headers of pages. */
export function answerWithPages(app: Pick<FastifyInstance, 'addHook'>, policy: string): void {
  const headers = pageHeaders(policy)
  app.addHook('onSend', async (_request, reply) => void reply.headers(headers))
}

const isErrorBody = checkOf(
  Type.Object({ message: Type.String(), errors: Type.Optional(Type.Array(Type.String())) }),
)

const isJson = (type: unknown) => typeof type === 'string' && type.startsWith('application/json')

/** Browsers accept HTML explicitly; API clients accept JSON or anything. */
const wantsPage = ({ headers, routeOptions }: FastifyRequest) =>
  routeOptions.config.forPages || headers.accept?.includes('text/html')

/** Turns errors into pages for browsers, and on the routes of pages. */
export function showErrorsAsPages(
  app: Pick<FastifyInstance, 'addHook'>,
  { publicUrl, config }: Pick<Services, 'publicUrl' | 'config'>,
): void {
  const headers = pageHeaders(CONTENT_SECURITY_POLICY)
  const show = (request: FastifyRequest, reply: FastifyReply, payload: string): string => {
    const problem: unknown = JSON.parse(payload)
    // The health report of an unhealthy server has an error status too, but is not an error body.
    if (!isErrorBody(problem)) return payload
    const vary = [reply.getHeader('Vary') ?? [], 'Accept'].flat().join(', ')
    reply.headers({ ...headers, 'Content-Type': HTML, 'Cache-Control': 'no-store', Vary: vary })
    // A browser would prompt for a password, which no account has.
    if (!config.localPasswords) reply.removeHeader('WWW-Authenticate')
    const base = basePath(publicUrl())
    const signIn =
      request.method !== 'GET' || request.requester !== null
        ? undefined
        : reply.statusCode === 401 && config.oidcIssuer !== undefined
          ? signInPath(publicUrl(), base + request.url)
          : // A hidden resource gets the answer of a missing one.
            reply.statusCode === 404
            ? `${base}/user/login`
            : undefined
    return errorPage(reply.statusCode, problem, `${base}/ui/assets`, signIn)
  }
  app.addHook('onSend', (request, reply, payload, done) => {
    const isProblem =
      reply.statusCode >= 400 && typeof payload === 'string' && isJson(reply.getHeader('content-type'))
    done(null, isProblem && wantsPage(request) ? show(request, reply, payload) : payload)
  })
}
