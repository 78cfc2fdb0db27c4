/** Signs in every request, and checks the scopes of access tokens. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { coded, type RefusalKind, Refused, refuse } from '../errors/refusal.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'
import type { OpenRequests } from './open-requests.ts'
import { SIGN_IN_LIMITS, Throttled } from './passwords/password-checks.ts'
import { signedIn } from './requester.ts'
import { bySession } from './sessions/sessions.ts'
import { createAuthenticate, type Identity } from './sign-in.ts'
import { NO_SUDO, sudoTarget, wantedSudo } from './sudo.ts'
import { missingScopes, type ScopeCategory, type ScopeLevel } from './token-scopes.ts'

const CHANGE_FIRST = coded(
  'password_change_required',
  refuse.forbidden('you must change your password first: POST /api/v1/user/password'),
)

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The categories that an access token needs for this route, all of them. Default: repository. */
    scope?: ScopeCategory | readonly ScopeCategory[]
    /** Default: read for GET and HEAD, write for all other methods. */
    scopeLevel?: ScopeLevel
    /** Whether an account that must change its password may use this route. */
    forOldPassword?: true
    /** Whether a request is authorized without an account; then it is anonymous. */
    admits?: (request: FastifyRequest) => boolean
    /** Whether the route is for pages: a session signs in, too. */
    forPages?: true
    /** Whether the answer is sent even when the request itself has ended its sign-in. */
    outlivesSignIn?: true
  }
  interface FastifyRequest {
    /** Scopes of the access token; null for a password and for an anonymous request. */
    tokenScopes: readonly string[] | null
    /** Id of the access token; null for a password and for an anonymous request. */
    tokenId: number | null
    /** The hash of the session; null for everything but a session. */
    sessionHash: string | null
    /** The site admin who acts for `requester` (`Sudo`); null without Sudo. */
    sudo: AccountDocument | null
    /** Value of `changes` of the open requests before the credentials were looked up. */
    signedInAsOf: number
    /** Checks the credentials again, sets `requester` and returns it. @throws Refused, Throttled */
    signInAgain(): Promise<AccountDocument | null>
  }
}

const levelOf = ({ method, routeOptions }: FastifyRequest): ScopeLevel =>
  routeOptions.config.scopeLevel ?? (['GET', 'HEAD'].includes(method) ? 'read' : 'write')

/**
 * Sets `requester`, `tokenScopes` and `tokenId` on the requests of all routes of the app. Bad credentials are refused
 * on every route, also on public ones. When the sign-in ends before the answer, the connection and its work end. A
 * valid sign-in is checked again when the body has arrived and before the handler, so that the permissions are current.
 */
export function authPlugin(
  services: Parameters<typeof createAuthenticate>[0] &
    Parameters<typeof bySession>[0] & {
      openRequests: OpenRequests
      /** Called for each request with refused credentials. */
      signInRefused?: (refused: RefusalKind) => void
    },
  limits = SIGN_IN_LIMITS,
) {
  const { openRequests, signInRefused = () => {} } = services
  const authenticate = createAuthenticate(services, limits)

  async function identityOf({ headers, ip, routeOptions }: FastifyRequest): Promise<Identity | null> {
    const identity = await authenticate(headers.authorization, ip)
    return identity === null && routeOptions.config.forPages ? bySession(services, headers.cookie) : identity
  }

  return fp(async function auth(app) {
    app.decorateRequest('requester', null)
    app.decorateRequest('repositoryId', null)
    app.decorateRequest('tokenScopes', null)
    app.decorateRequest('tokenId', null)
    app.decorateRequest('sessionHash', null)
    app.decorateRequest('sudo', null)
    app.decorateRequest('signedInAsOf', 0)
    app.decorateRequest('signInAgain', async function signInAgain(this: FastifyRequest) {
      this.signedInAsOf = openRequests.changes
      const identity = await identityOf(this)
      const { forOldPassword } = this.routeOptions.config
      if (identity?.account.mustChangePassword && !forOldPassword) throw new Refused(CHANGE_FIRST)
      this.requester =
        identity && ((await sudoTarget(services, this, identity, levelOf(this))) ?? identity.account)
      return this.requester
    })

    app.addHook('onRequest', async (request, reply) => {
      const before = openRequests.changes
      request.signedInAsOf = before
      const { forOldPassword, outlivesSignIn } = request.routeOptions.config
      try {
        if (request.routeOptions.config.admits?.(request)) return
        const identity = await identityOf(request).catch((error: unknown) => {
          if (error instanceof Refused) signInRefused(error.refusal.refused)
          throw error
        })
        if (identity === null) {
          if (wantedSudo(request) !== undefined) throw new Refused(NO_SUDO)
          return
        }
        const other = await sudoTarget(services, request, identity, levelOf(request))
        request.requester = other ?? identity.account
        if (other !== undefined) request.sudo = identity.account
        request.tokenScopes = identity.tokenScopes
        request.tokenId = identity.tokenId
        request.sessionHash = identity.session ?? null
        if (identity.account.mustChangePassword && !forOldPassword) {
          throw new Refused(CHANGE_FIRST)
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
      const { scope = 'repository' } = request.routeOptions.config
      requireScope(request, typeof scope === 'string' ? [scope] : scope, levelOf(request))
    })

    /**
     * The body may have taken long, and the request may have waited in a queue: permissions may have ended meanwhile.
     */
    function renew(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
      if (request.requester === null || request.signedInAsOf === openRequests.changes) done()
      else request.signInAgain().then(() => done(), done)
    }
    app.addHook('preValidation', renew)
    app.addHook('preHandler', renew)
  })
}

/**
 * Checks the sign-in again after a wait and returns the requester: the token may be deleted, the password changed, the
 * account disabled.
 * @throws Refused (unauthenticated, forbidden), Throttled
 */
export async function requesterNow(request: FastifyRequest): Promise<AccountDocument> {
  return signedIn({ requester: await request.signInAgain() })
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
    coded(
      'token_scope_missing',
      refuse.forbidden(`token does not have at least one of required scope(s): ${missing.join(', ')}`),
    ),
  )
}
