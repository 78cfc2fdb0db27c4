/** What all pages have in common: their headers, their paths, and errors that people can read. */
import type { FastifyInstance } from 'fastify'
import { basePath } from '../http/base-path.ts'
import { pageHeaders } from '../http/page-headers.ts'
import type { Services } from '../services.ts'
import { errorPage } from './layout.ts'

export const HTML = 'text/html; charset=utf-8'

/** Where a sign-in by OpenID Connect begins. `after`: the path of the page to which it comes back. */
export const signInPath = (publicUrl: string, after: string): string =>
  `${basePath(publicUrl)}/user/oauth2/oidc?redirect_to=${encodeURIComponent(after)}`

/** Gives the answers of these routes the headers of pages, and turns errors into pages. */
export function answerWithPages(
  app: Pick<FastifyInstance, 'addHook'>,
  { publicUrl, config }: Pick<Services, 'publicUrl' | 'config'>,
  policy: string,
): void {
  const headers = pageHeaders(policy)
  app.addHook('onSend', async (request, reply, payload) => {
    reply.headers(headers)
    if (reply.statusCode < 400 || typeof payload !== 'string') return payload
    reply.headers({ 'Content-Type': HTML, 'Cache-Control': 'no-store' })
    // A browser would ask for a password that nobody has.
    if (!config.localPasswords) reply.removeHeader('WWW-Authenticate')
    const base = basePath(publicUrl())
    const mayHelp = reply.statusCode === 401 && config.oidcIssuer !== undefined && request.method === 'GET'
    const signIn = mayHelp ? signInPath(publicUrl(), base + request.url) : undefined
    return errorPage(reply.statusCode, JSON.parse(payload), `${base}/ui/assets`, signIn)
  })
}
