/**
 * Sign-in by OpenID Connect: `/user/oauth2/oidc` redirects the browser to the provider, which redirects it to
 * `…/callback`. The state is in a sealed cookie, so any node may serve the second request.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { html } from 'ghtml'
import { Type } from 'typebox'
import { keyFor, seal, unseal } from '../auth/sealed.ts'
import { cookieIn, setCookie } from '../auth/sessions/cookies.ts'
import { createOpenIdProvider, type OpenIdProvider } from '../auth/sessions/openid-provider.ts'
import { endSessions } from '../auth/sessions/session-store.ts'
import { beginSession, noSession } from '../auth/sessions/sessions.ts'
import { requestContext, settled } from '../commands/execution/request-context.ts'
import { accountFor } from '../commands/users/sign-in/account.ts'
import { followGroups } from '../commands/users/sign-in/group-memberships.ts'
import { createBudget } from '../concurrency/budget.ts'
import { networkOf } from '../config/address-ranges.ts'
import { limitReached } from '../errors/limits.ts'
import { Refused, refuse } from '../errors/refusal.ts'
import { basePath } from '../http/requests/base-path.ts'
import type { Services } from '../services/services.ts'
import { checkOf } from '../storage/checked-json.ts'
import { FORM_POLICY, plainPage } from './layout.ts'
import { answerWithPages, HTML, signInPath } from './pages.ts'

const CALLBACK = '/user/oauth2/oidc/callback'

const FLOW_COOKIE = 'mergelog-sign-in'
/** Maximum duration of a sign-in at the provider, in seconds. */
const FLOW_S = 600

/** State of a sign-in while the browser is at the provider. */
const Flow = Type.Object({
  state: Type.String(),
  nonce: Type.String(),
  verifier: Type.String(),
  /** The path to which the browser goes afterwards. */
  after: Type.String(),
  /** When it began, in milliseconds since 1970. */
  at: Type.Number(),
})
const isFlow = checkOf(Flow)

const BeginQuery = Type.Object({ redirect_to: Type.Optional(Type.String({ maxLength: 2000 })) })

/** Other parameters such as `response_mode` are ignored. A repeated parameter is not a string. */
const CallbackQuery = Type.Object({
  state: Type.Optional(Type.String({ maxLength: 200 })),
  code: Type.Optional(Type.String({ maxLength: 4096 })),
  iss: Type.Optional(Type.String({ maxLength: 500 })),
  error: Type.Optional(Type.String({ maxLength: 200 })),
})

/** Maximum number of concurrent sign-ins at the provider, in total and per network. */
const MAX_SIGN_INS = { all: 32, perNetwork: 8 }

export function signInRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { config, secrets, projector, publicUrl } = services
  const provider = createOpenIdProvider(config, services.log)
  const key = keyFor('sign-in', config.oidcClientSecret ?? '')
  const shares = createBudget(MAX_SIGN_INS)
  const applications = () => `${basePath(publicUrl())}/user/settings/applications`

  function requireProvider(): OpenIdProvider {
    if (provider === undefined)
      throw new Refused(refuse.notFound('sign-in by OpenID Connect is not set up here'))
    return provider
  }

  /** Calls the provider within the client's share. @throws Refused (too many requests, unavailable) */
  async function withinShare<T>({ ip }: FastifyRequest, work: () => Promise<T>): Promise<T> {
    const network = networkOf(ip)
    const lacking = shares.lacking(network, 1)
    if (lacking !== undefined) {
      limitReached('sign_ins')
      const reason = 'too many sign-ins at the same time; try again'
      throw new Refused(lacking === 'network' ? refuse.tooManyRequests(reason) : refuse.unavailable(reason))
    }
    const release = shares.take(network, 1)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Returns the path if it is a page of this server; otherwise the default. Redirects must stay on this site. */
  function pageOf(path: string | undefined): string {
    const base = basePath(publicUrl())
    const isPage = path !== undefined && [`${base}/ui/`, `${base}/user/`].some((own) => path.startsWith(own))
    return isPage && /^[\x21-\x5b\x5d-\x7e]+$/.test(path) ? path : applications()
  }

  /** Returns the sign-in with that state from the browser's cookie. @throws Refused (invalid) */
  function flowOf({ headers }: FastifyRequest, state: string | undefined) {
    const text = unseal(cookieIn(headers.cookie, publicUrl(), FLOW_COOKIE) ?? '', key)
    const flow: unknown = text === undefined ? undefined : JSON.parse(text)
    if (!isFlow(flow) || state !== flow.state || Date.now() - flow.at > FLOW_S * 1000) {
      throw new Refused(
        refuse.invalid(
          'this browser has no sign-in with that state from the last ten minutes: sign in again',
        ),
      )
    }
    return flow
  }

  return async (app) => {
    answerWithPages(app, FORM_POLICY)
    const config = { scope: 'user', forPages: true } as const

    app.get(
      '/user/oauth2/oidc',
      { config, schema: { hide: true, querystring: BeginQuery } },
      async (request, reply) => {
        const openId = requireProvider()
        const { url, checks } = await withinShare(request, () => openId.begin(`${publicUrl()}${CALLBACK}`))
        const flow = { ...checks, after: pageOf(request.query.redirect_to), at: Date.now() }
        reply.header(
          'Set-Cookie',
          setCookie(publicUrl(), FLOW_COOKIE, seal(JSON.stringify(flow), key), FLOW_S),
        )
        return reply.header('Cache-Control', 'no-store').redirect(url, 303)
      },
    )

    app.get(
      CALLBACK,
      { config, schema: { hide: true, querystring: CallbackQuery } },
      async (request, reply) => {
        const openId = requireProvider()
        const { query } = request
        reply.header('Cache-Control', 'no-store')
        const flow = flowOf(request, query.state)
        // The sign-in ends here, whatever its result.
        const over = setCookie(publicUrl(), FLOW_COOKIE, '', 0)
        reply.header('Set-Cookie', over)
        if (query.error !== undefined || query.code === undefined) {
          const code = query.error?.replace(/[^\x20-\x7e]/g, '') || 'no code'
          throw new Refused(refuse.forbidden(`the provider did not sign you in (${code})`))
        }
        const callback = new URL(`${publicUrl()}${CALLBACK}`)
        for (const name of ['code', 'state', 'iss'] as const) {
          if (query[name] !== undefined) callback.searchParams.set(name, query[name])
        }
        const person = await withinShare(request, () => openId.finish(callback, flow))
        const context = requestContext(request)
        const { user } = await accountFor(services, context, person)
        await followGroups(services, context, user, person)
        await settled(services, context, reply)
        reply.header('Set-Cookie', [over, await beginSession(services, user.id)])
        request.log.info({ login: user.login }, 'signed in by OpenID Connect')
        return reply.redirect(flow.after, 303)
      },
    )

    app.get('/user/login', { config, schema: { hide: true } }, async (request, reply) => {
      reply.type(HTML).header('Cache-Control', 'no-store')
      return plainPage(
        'Sign in',
        `${basePath(publicUrl())}/ui/assets`,
        loginBody(request),
        request.requester?.login,
      )
    })

    app.post(
      '/user/logout',
      { config: { ...config, outlivesSignIn: true, scopeLevel: 'read' }, schema: { hide: true } },
      async (request, reply) => {
        const { requester, sessionHash } = request
        if (requester !== null && sessionHash !== null) {
          await endSessions(secrets, requester.id, sessionHash)
          services.accountChanges.note(requester.id, projector.position())
        }
        reply.header('Set-Cookie', noSession(publicUrl()))
        return reply.redirect(`${basePath(publicUrl())}/user/login`, 303)
      },
    )
  }

  function loginBody({ requester }: FastifyRequest): string {
    if (requester !== null) {
      return html`<h1>Signed in</h1>
<p>You are <bdi>${requester.login}</bdi>. <a href="${applications()}">Your access tokens</a></p>`
    }
    const { oidcIssuer, localPasswords } = config
    const byProvider =
      oidcIssuer === undefined
        ? ''
        : html`<p><a href="${signInPath(publicUrl(), applications())}">Sign in at ${new URL(oidcIssuer).host}</a></p>`
    const byPassword = html`<p><a href="${basePath(publicUrl())}/?sign_in=password">Sign in with a password</a></p>`
    return html`<h1>Sign in</h1>
!${byProvider}
!${localPasswords ? byPassword : ''}`
  }
}
