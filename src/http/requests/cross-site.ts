/** Refuses changes that a page of another site makes a browser send. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { coded, Refused, refuse } from '../../errors/refusal.ts'

/** Methods without changes. All others count as changes, whatever their body. */
const READING = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/**
 * Browsers send this server's credentials with the requests of every page, also of a hostile one. They send the origin
 * in `Sec-Fetch-Site`, which pages cannot set; older browsers send `Origin`. A client that sends neither is not a
 * browser.
 * @param publicUrl the server's address; its pages and those of the request's own host are trusted
 * @param trusted further origins whose pages may change things
 */
export function refuseCrossSite(
  app: FastifyInstance,
  publicUrl: () => string,
  trusted: readonly string[],
): void {
  const origins = new Set(trusted)
  app.addHook('onRequest', (request, _reply, done) => {
    const { origin } = request.headers
    if (READING.has(request.method) || isOwn(request, publicUrl())) return done()
    if (origin !== undefined && origins.has(origin)) return done()
    const reason = 'a page of another site may not change anything here'
    done(new Refused(coded('cross_site', refuse.forbidden(reason))))
  })
}

function isOwn(request: FastifyRequest, publicUrl: string): boolean {
  const { origin, 'sec-fetch-site': site } = request.headers
  // `none` is a direct action of the user.
  if (site === 'same-origin' || site === 'none') return true
  if (origin === undefined) return site === undefined
  if (!URL.canParse(origin)) return false
  const { host, origin: sender } = new URL(origin)
  if (URL.canParse(publicUrl) && sender === new URL(publicUrl).origin) return true
  // A page of the same host with another scheme or port has another origin, sent as `same-site`.
  return site === undefined && host !== '' && host === hostOf(request)
}

/** Returns the requested host without the default port, as in an origin. */
function hostOf(request: FastifyRequest): string | undefined {
  const url = `${request.protocol}://${request.host}`
  return URL.canParse(url) ? new URL(url).host : undefined
}
