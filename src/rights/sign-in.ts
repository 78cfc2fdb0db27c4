/** Signing in with an `Authorization` header: passwords and access tokens. */
import { createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type AccountDocument, maySignIn } from '../projections/accounts.ts'
import { Refused, refuse } from '../refusal.ts'
import type { Services } from '../services.ts'
import { DUMMY_HASH, isPassword, MAX_PASSWORD } from './passwords.ts'
import { findToken, passwordHashOf } from './secrets.ts'
import { createThrottle, type ThrottleLimits } from './throttle.ts'

export interface Identity {
  account: AccountDocument
  /** Scopes and id of the token; null when the requester signed in with the password. */
  tokenScopes: readonly string[] | null
  tokenId: number | null
}

/**
 * Whether a sign-in still counts. `account` and `hasToken`: the account as it is now, and whether its token is there.
 * A sign-in by password ends with that password.
 */
export function stillCounts(
  signIn: Pick<Identity, 'account' | 'tokenId'>,
  account: AccountDocument | undefined,
  hasToken: boolean,
): account is AccountDocument {
  if (account === undefined || account.mustChangePassword || !maySignIn(account)) return false
  return signIn.tokenId === null ? account.passwordId === signIn.account.passwordId : hasToken
}

/**
 * The identity for these credentials, sent from that address; null when there are no credentials.
 * @throws Refused (unauthenticated) for bad credentials, Refused (forbidden) for an account that is switched off, Throttled after too many bad passwords
 */
type Authenticate = (authorization: string | undefined, ip: string) => Promise<Identity | null>

/** Too many bad passwords: for a while, no password is checked. */
export class Throttled extends Refused {
  readonly retryAfterSeconds: number

  constructor(retryAfterSeconds: number) {
    super(refuse.tooManyRequests('too many failed sign-ins; try again later'))
    this.retryAfterSeconds = retryAfterSeconds
  }
}

export interface SignInLimits {
  /** Failures of one login from one address. */
  perLogin: ThrottleLimits
  /** Failures from one address, for all logins together. */
  perAddress: ThrottleLimits
}

const FIVE_MINUTES_MS = 5 * 60_000

export const SIGN_IN_LIMITS: SignInLimits = {
  perLogin: { failures: 10, windowMs: FIVE_MINUTES_MS },
  perAddress: { failures: 100, windowMs: FIVE_MINUTES_MS },
}

/** How long a sign-in waits for read models that catch up after a start. */
const CATCH_UP_MS = 5000

/** Passwords that were right lately: enough for 10,000 users who send theirs with every request. */
const MAX_VERIFIED = 10_000

const TOKEN = /^[0-9a-f]{40}$/

type Credentials = { token: string } | { login: string; password: string }

/** One for each server: it keeps the failures, and the passwords that were right lately. */
export function createAuthenticate(
  services: Pick<Services, 'views' | 'secrets'> & { projector: Pick<Services['projector'], 'caughtUp'> },
  limits: SignInLimits = SIGN_IN_LIMITS,
): Authenticate {
  const { views, secrets, projector } = services
  const loginFailures = createThrottle(limits.perLogin)
  const addressFailures = createThrottle(limits.perAddress)
  // Keys of `verified` are HMACs with this secret, so a leak of the memory does not reveal passwords.
  const cacheSecret = randomBytes(32)
  /** The stored hash that a password was right for. The entry is ignored when the stored hash has changed. */
  const verified = new LRUCache<string, string>({ max: MAX_VERIFIED, ttl: FIVE_MINUTES_MS })
  const pendingChecks = new Map<string, Promise<boolean>>()

  /**
   * Looks up a document. After a start the read models may lack it: then this waits for them.
   * @throws Refused (unavailable) while nobody knows yet whether the credentials are bad
   */
  async function find<T>(lookUp: () => Promise<T | undefined>): Promise<T | undefined> {
    const found = await lookUp()
    if (found !== undefined) return found
    if (await projector.caughtUp(CATCH_UP_MS)) return lookUp()
    throw new Refused(refuse.unavailable('the server has just started and still reads its log; try again'))
  }

  async function byToken(token: string): Promise<Identity | undefined> {
    const secret = TOKEN.test(token) ? await findToken(secrets, token) : undefined
    if (secret === undefined) return undefined
    const [document, account] = await Promise.all([
      find(() => views.tokens.get(`${secret.tokenId}`)),
      find(() => views.accounts.get(`${secret.userId}`)),
    ])
    // The secret is there, so the token was made.
    if (document === undefined && views.tokens.hasStopped()) {
      throw new Refused(refuse.unavailable('the read model of tokens has stopped; see /healthz'))
    }
    if (document?.userId !== secret.userId || account?.kind !== 'user') return undefined
    return { account, tokenScopes: document.scopes, tokenId: secret.tokenId }
  }

  function throwIfThrottled(loginAtAddress: string, ip: string): void {
    const wait = addressFailures.blockedFor(ip) ?? loginFailures.blockedFor(loginAtAddress)
    if (wait !== undefined) throw new Throttled(wait)
  }

  async function byPassword(login: string, password: string, ip: string): Promise<Identity | undefined> {
    const loginKey = login.toLowerCase()
    const loginAtAddress = JSON.stringify([ip, loginKey])
    throwIfThrottled(loginAtAddress, ip)
    if (password.length > MAX_PASSWORD) return undefined

    const account = await find(() => views.accounts.findOne({ loginKey }))
    const stored =
      account?.kind === 'user' ? await passwordHashOf(secrets, account.id, account.passwordId) : undefined
    const hash = stored ?? DUMMY_HASH
    const cacheKey = createHmac('sha256', cacheSecret)
      .update(JSON.stringify([loginKey, password, hash]))
      .digest('base64')
    const right =
      verified.get(cacheKey) === hash || (await check(cacheKey, password, hash, [loginAtAddress, ip]))
    if (!right || stored === undefined || account === undefined) return undefined
    return { account, tokenScopes: null, tokenId: null }
  }

  /** Equal requests that run at the same time share one check. */
  function check(cacheKey: string, password: string, hash: string, [loginAtAddress, ip]: [string, string]) {
    const before = pendingChecks.get(cacheKey)
    if (before !== undefined) return before
    // Check again: other requests may have failed while this one looked up the account.
    throwIfThrottled(loginAtAddress, ip)
    const forgive = [loginFailures.attempt(loginAtAddress), addressFailures.attempt(ip)]
    const checking = isPassword(password, hash)
      .then(
        (right) => {
          if (!right) return false
          verified.set(cacheKey, hash)
          for (const undo of forgive) undo()
          return true
        },
        (error: unknown) => {
          // The password was not checked, so this is not a failure of the client.
          for (const undo of forgive) undo()
          throw error
        },
      )
      .finally(() => pendingChecks.delete(cacheKey))
    pendingChecks.set(cacheKey, checking)
    return checking
  }

  return async (authorization, ip) => {
    if (authorization === undefined) return null
    const credentials = credentialsIn(authorization)
    if (credentials === undefined)
      throw new Refused(refuse.unauthenticated('the Authorization header is malformed'))
    const identity =
      'token' in credentials
        ? await byToken(credentials.token)
        : // git clients send a token as the password, with any login.
          ((await byToken(credentials.password)) ??
          (await byPassword(credentials.login, credentials.password, ip)))
    if (identity === undefined || identity.account.deleted) {
      throw new Refused(refuse.unauthenticated('bad credentials'))
    }
    // Only who knows the credentials learns this.
    if (!maySignIn(identity.account)) {
      throw new Refused(refuse.forbidden('this account is prohibited from signing in; ask a site admin'))
    }
    return identity
  }
}

function credentialsIn(authorization: string): Credentials | undefined {
  const [, scheme = '', value = ''] = /^([A-Za-z]+) +(\S+) *$/.exec(authorization) ?? []
  switch (scheme.toLowerCase()) {
    case 'token':
    case 'bearer':
      return { token: value }
    case 'basic': {
      if (!/^[A-Za-z0-9+/]+={0,2}$/.test(value)) return undefined
      const text = Buffer.from(value, 'base64').toString('utf8')
      const colon = text.indexOf(':')
      if (colon === -1) return undefined
      const login = text.slice(0, colon)
      const password = text.slice(colon + 1)
      const loginIsToken = password === '' || password === 'x-oauth-basic'
      return loginIsToken ? { token: login } : { login, password }
    }
    default:
      return undefined
  }
}
