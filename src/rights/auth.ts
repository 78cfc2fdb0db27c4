/** Signs in every request, and checks the scopes of access tokens. */
import type { FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { AccountDocument } from '../projections/accounts.ts'
import { Refused, refuse } from '../refusal.ts'
import type { OpenRequests } from './open-requests.ts'
import { signedIn } from './requester.ts'
import { bySession } from './sessions.ts'
import { createAuthenticate, type Identity, SIGN_IN_LIMITS, Throttled } from './sign-in.ts'
import { missingScopes, type ScopeCategory, type ScopeLevel } from './token-scopes.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The categories that an access token needs for this route, all of them. Default: repository. */
    scope?: ScopeCategory | readonly ScopeCategory[]
    /** Default: read for GET and HEAD, write for all other methods. */
    scopeLevel?: ScopeLevel
    /** Whether an account that must change its password may use this route. */
    forOldPassword?: true
    /** Whether it is for a page: a session signs in, too. */
    forPages?: true
    /** Whether the answer comes even when the request itself has ended what it signed in with. */
    outlivesSignIn?: true
  }
  interface FastifyRequest {
    /** Scopes of the access token; null for a password and for an anonymous request. */
    tokenScopes: readonly string[] | null
    /** Id of the access token; null for a password and for an anonymous request. */
    tokenId: number | null
    /** The hash of the session; null for everything but a session. */
    sessionHash: string | null
    /** Signs the request in once more, with what counts now. @throws Refused, Throttled */
    signInAgain(): Promise<Identity | null>
  }
}

/**
 * Sets `requester`, `tokenScopes` and `tokenId` on the requests of all routes of the app. Bad credentials are refused on
 * every route, also on routes that need none. When the sign-in ends before the answer, the connection ends, and with it
 * all that works for it: a client that is gone ends its work.
 */
export function authPlugin(
  services: Parameters<typeof createAuthenticate>[0] &
    Parameters<typeof bySession>[0] & { openRequests: OpenRequests },
  limits = SIGN_IN_LIMITS,
) {
  const { openRequests } = services
  const authenticate = createAuthenticate(services, limits)

  async function identityOf({ headers, ip, routeOptions }: FastifyRequest): Promise<Identity | null> {
    const identity = await authenticate(headers.authorization, ip)
    return identity === null && routeOptions.config.forPages ? bySession(services, headers.cookie) : identity
  }

  return fp(async (app) => {
    app.decorateRequest('requester', null)
    app.decorateRequest('tokenScopes', null)
    app.decorateRequest('tokenId', null)
    app.decorateRequest('sessionHash', null)
    app.decorateRequest('signInAgain', function signInAgain(this: FastifyRequest) {
      return identityOf(this)
    })

    app.addHook('onRequest', async (request, reply) => {
      const before = openRequests.changes
      const { forOldPassword, outlivesSignIn } = request.routeOptions.config
      try {
        const identity = await identityOf(request)
        if (identity === null) return
        request.requester = identity.account
        request.tokenScopes = identity.tokenScopes
        request.tokenId = identity.tokenId
        request.sessionHash = identity.session ?? null
        if (identity.account.mustChangePassword && !forOldPassword) {
          throw new Refused(
            refuse.forbidden('you must change your password first: POST /api/v1/user/password'),
          )
        }
        if (!outlivesSignIn) {
          reply.raw.once(
            'close',
            openRequests.watch(identity, before, () => reply.raw.destroy()),
          )
        }
      } catch (error) {
        if (error instanceof Refused && error.refusal.refused === 'tooManyRequests') {
          reply.header('Retry-After', error instanceof Throttled ? error.retryAfterSeconds : 1)
        }
        throw error
      }
      if (request.is404) return
      const { scope = 'repository', scopeLevel } = request.routeOptions.config
      const level = scopeLevel ?? (['GET', 'HEAD'].includes(request.method) ? 'read' : 'write')
      requireScope(request, typeof scope === 'string' ? [scope] : scope, level)
    })
  })
}

/**
 * The requester by what counts now, for work that has waited since the request was signed in: the token may be deleted,
 * the password changed, the account switched off. @throws Refused (unauthenticated, forbidden), Throttled
 */
export async function requesterNow(request: FastifyRequest): Promise<AccountDocument> {
  const identity = await request.signInAgain()
  const requester = signedIn({ requester: identity?.account ?? null })
  if (requester.mustChangePassword) throw new Refused(refuse.forbidden('you must change your password first'))
  return requester
}

/**
 * Checks the scopes of a request's token. Handlers call it where the needed level depends on the request (git's
 * `info/refs`).
 * @throws Refused (forbidden) when the token lacks a scope
 */
export function requireScope(
  request: FastifyRequest,
  categories: readonly ScopeCategory[],
  level: ScopeLevel,
): void {
  if (request.tokenScopes === null) return
  const missing = missingScopes(request.tokenScopes, categories, level)
  if (missing.length === 0) return
  throw new Refused(
    refuse.forbidden(`token does not have at least one of required scope(s): ${missing.join(', ')}`),
  )
}
