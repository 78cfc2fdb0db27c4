/** The OpenID Connect provider: redirects for sign-in, and the signed-in user. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { FastifyBaseLogger } from 'fastify'
import type { Configuration, CustomFetch } from 'openid-client'
import type { Config } from '../../config/config.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { bySystem, hostOf, type Resolve } from '../../http/outbound/host-lookup.ts'

/** Values that tie the provider's answer to this browser and sign-in. */
interface Checks {
  state: string
  nonce: string
  verifier: string
}

/** The user at the provider. An empty text is a missing claim. */
export interface Person {
  /** Issuer and subject together name the person for ever. All else may change. */
  issuer: string
  subject: string
  login: string
  email: string
  emailVerified: boolean
  fullName: string
  /** Undefined when the provider does not send groups. */
  groups: ReadonlySet<string> | undefined
}

export interface OpenIdProvider {
  /** Returns the URL to redirect the browser to. @throws Refused (unavailable) while the provider does not answer */
  begin(redirectUri: string): Promise<{ url: string; checks: Checks }>
  /**
   * Exchanges the code in the URL to which the browser came back.
   * @throws Refused (invalid) when the provider does not accept it or its answer is for another sign-in, (unavailable)
   *   while the provider does not answer
   */
  finish(callback: URL, checks: Checks): Promise<Person>
}

type Step = 'begin' | 'finish'

/** Timeout of a call to the provider, in seconds. */
const TIMEOUT_S = 10
/** Maximum age of the cached metadata, in milliseconds. */
const FRESH_MS = 3_600_000
/** Minimum time between two renewals for unknown keys, of all sign-ins together, in milliseconds. */
const RENEWAL_INTERVAL_MS = 5000

type Settings = Pick<
  Config,
  'oidcIssuer' | 'oidcClientId' | 'oidcClientSecret' | 'oidcScopes' | 'oidcLoginClaim' | 'oidcGroupsClaim'
>

/**
 * Returns the provider; undefined without a configured one. The first request to it is at the first sign-in, so a start
 * does not need it. `now` is a monotonic clock in milliseconds. `find` looks up names instead of the system.
 */
export function createOpenIdProvider(
  settings: Settings,
  log: FastifyBaseLogger,
  now: () => number = () => performance.now(),
  find: Resolve = bySystem(),
): OpenIdProvider | undefined {
  const { oidcIssuer, oidcClientId, oidcClientSecret, oidcScopes } = settings
  if (oidcIssuer === undefined || oidcClientId === undefined || oidcClientSecret === undefined)
    return undefined
  const issuer = new URL(oidcIssuer)
  let known: { configuration: Promise<Configuration>; at: number } | undefined
  let renewedAt = Number.NEGATIVE_INFINITY
  /** The step of a sign-in at which the provider failed; undefined while it answers. */
  let failing: Step | undefined
  /**
   * The provider's answer for the code of a sign-in. A code is valid once, so a second check needs the first answer.
   */
  const exchanges = new AsyncLocalStorage<{ answer?: Response }>()

  const fetched: CustomFetch = async (url, { body = null, ...options }) => {
    const signal = options.signal ?? AbortSignal.timeout(TIMEOUT_S * 1000)
    const ask = async () => {
      // A look-up by `fetch` would take a thread that the stores need, for as long as the provider's name servers hang.
      await find(hostOf(new URL(url)), signal)
      return fetch(url, { ...options, body, signal })
    }
    const exchange = options.method === 'POST' ? exchanges.getStore() : undefined
    if (exchange === undefined) return ask()
    exchange.answer ??= await ask()
    return exchange.answer.clone()
  }

  async function discover(): Promise<Configuration> {
    const client = await import('openid-client')
    const execute = [client.enableNonRepudiationChecks]
    if (issuer.protocol === 'http:') execute.push(client.allowInsecureRequests)
    return client.discovery(issuer, oidcClientId ?? '', oidcClientSecret, undefined, {
      execute,
      timeout: TIMEOUT_S,
      [client.customFetch]: fetched,
    })
  }

  /** Concurrent callers share a request. A failure is not cached. */
  function configured(): Promise<Configuration> {
    if (known !== undefined && now() - known.at < FRESH_MS) return known.configuration
    const mine = { configuration: discover(), at: now() }
    known = mine
    mine.configuration.catch(() => {
      if (known === mine) known = undefined
    })
    return mine.configuration
  }

  /**
   * Returns new metadata after a signature with a key that `tried` lacks; undefined when the metadata were just renewed.
   */
  function renewed(tried: Promise<Configuration>): Promise<Configuration> | undefined {
    if (known?.configuration === tried) {
      if (now() - renewedAt < RENEWAL_INTERVAL_MS) return undefined
      renewedAt = now()
      known = undefined
    }
    return configured()
  }

  /** Exchanges a code for tokens. After a signature with an unknown key, checks once more with the provider's new keys. */
  function exchange(callback: URL, checks: Checks) {
    return exchanges.run({}, async () => {
      const client = await import('openid-client')
      async function grant(configuration: Configuration) {
        const tokens = await client.authorizationCodeGrant(configuration, callback, {
          expectedState: checks.state,
          expectedNonce: checks.nonce,
          pkceCodeVerifier: checks.verifier,
          idTokenExpected: true,
        })
        return { configuration, tokens }
      }
      const asked = configured()
      const configuration = await asked
      requireOwn(callback, configuration.serverMetadata())
      try {
        return await grant(configuration)
      } catch (error) {
        const isOfUnknownKey =
          error instanceof client.ClientError && error.code === 'OAUTH_KEY_SELECTION_FAILED'
        const newer = isOfUnknownKey ? renewed(asked) : undefined
        if (newer === undefined) throw error
        return grant(await newer)
      }
    })
  }

  /** Logs one line per outage and recovery. The beginning of a sign-in does not show a recovery. */
  async function asking<T>(step: Step, work: () => Promise<T>): Promise<T> {
    try {
      const answer = await work()
      if (failing === 'finish' && step === 'begin') return answer
      if (failing) log.info({ issuer: issuer.href }, 'the OpenID Connect provider answers again')
      failing = undefined
      return answer
    } catch (error) {
      const refusal = await refusalOf(error)
      if (refusal.refused !== 'unavailable') throw new Refused(refusal)
      if (!failing) log.warn({ err: error, issuer: issuer.href }, 'no sign-in by OpenID Connect for now')
      failing ??= step
      throw new Refused(refusal)
    }
  }

  return {
    begin: (redirectUri) =>
      asking('begin', async () => {
        const configuration = await configured()
        const client = await import('openid-client')
        const checks = {
          state: client.randomState(),
          nonce: client.randomNonce(),
          verifier: client.randomPKCECodeVerifier(),
        }
        const url = client.buildAuthorizationUrl(configuration, {
          redirect_uri: redirectUri,
          scope: oidcScopes,
          state: checks.state,
          nonce: checks.nonce,
          code_challenge: await client.calculatePKCECodeChallenge(checks.verifier),
          code_challenge_method: 'S256',
        })
        return { url: url.href, checks }
      }),
    finish: (callback, checks) =>
      asking('finish', async () => {
        const client = await import('openid-client')
        const { configuration, tokens } = await exchange(callback, checks)
        const claims = tokens.claims()
        if (claims === undefined) throw new Refused(refuse.invalid('the provider sent no ID token'))
        const hasMore = configuration.serverMetadata().userinfo_endpoint !== undefined
        const more = hasMore ? await client.fetchUserInfo(configuration, tokens.access_token, claims.sub) : {}
        return personIn(joinedClaims(claims, more), settings)
      }),
  }
}

/** Providers that send their issuer in the URL prevent mix-ups with others. @throws Refused (invalid) */
function requireOwn(callback: URL, metadata: ReturnType<Configuration['serverMetadata']>): void {
  const named = callback.searchParams.get('iss')
  const isNamed = metadata.authorization_response_iss_parameter_supported === true || named !== null
  if (isNamed && named !== metadata.issuer) {
    throw new Refused(refuse.invalid('this answer is not from the provider of this server: begin again'))
  }
}

async function refusalOf(error: unknown) {
  if (error instanceof Refused) return error.refusal
  const { ClientError, ResponseBodyError, AuthorizationResponseError } = await import('openid-client')
  if (error instanceof AuthorizationResponseError) return refuse.invalid('the provider did not sign you in')
  if (error instanceof ResponseBodyError && error.error === 'invalid_grant') {
    return refuse.invalid('this sign-in was used already or took too long: begin again')
  }
  if (error instanceof ClientError && FOR_OTHERS.has(error.code ?? '')) {
    return refuse.invalid("the provider's answer is not for this sign-in: begin again")
  }
  // The token was made a moment ago.
  if (error instanceof ClientError && error.code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') {
    return refuse.unavailable('the clocks of this server and of the provider that signs people in differ')
  }
  return refuse.unavailable('the provider that signs people in does not answer as it should; try again later')
}

/** Error codes of an ID token that was issued for another client or sign-in. */
const FOR_OTHERS: ReadonlySet<string> = new Set(['OAUTH_JWT_CLAIM_COMPARISON_FAILED'])

type Claims = Readonly<Record<string, unknown>>

/**
 * Joins the claims of both. The ID token is signed for this server, so it identifies the user. Whether an address is
 * verified counts only from the source of the address.
 */
export function joinedClaims<Token extends Claims>(token: Token, userInfo: Claims) {
  const { email, email_verified } = 'email' in userInfo ? userInfo : token
  return { ...token, ...userInfo, email, email_verified, iss: token.iss, sub: token.sub }
}

/** Maximum length of a subject by OpenID Connect, in characters. It is stored in an event. */
const MAX_SUBJECT = 255

/**
 * The person in the claims. A claim of another type than it should have counts as missing.
 * @throws Refused (unprocessable) when the subject is too long
 */
export function personIn(
  claims: Claims & { iss: string; sub: string },
  { oidcLoginClaim, oidcGroupsClaim }: Pick<Settings, 'oidcLoginClaim' | 'oidcGroupsClaim'>,
): Person {
  if (claims.sub.length > MAX_SUBJECT) {
    throw new Refused(
      refuse.unprocessable(`the provider's name for you has more than ${MAX_SUBJECT} characters`),
    )
  }
  const text = (name: string) => (typeof claims[name] === 'string' ? claims[name] : '')
  return {
    issuer: claims.iss,
    subject: claims.sub,
    login: text(oidcLoginClaim),
    email: text('email'),
    // Some providers send it as a text.
    emailVerified: claims.email_verified === true || claims.email_verified === 'true',
    fullName: text('name'),
    groups: groupsIn(claims, oidcGroupsClaim),
  }
}

function groupsIn(claims: Claims, name: string): ReadonlySet<string> | undefined {
  const { [name]: groups, _claim_names: elsewhere } = claims
  // A person with very many groups: the claim is then a reference.
  if (typeof elsewhere === 'object' && elsewhere !== null && name in elsewhere) return undefined
  const list: unknown[] = Array.isArray(groups) ? groups : [groups]
  return new Set(list.filter((group) => typeof group === 'string'))
}
