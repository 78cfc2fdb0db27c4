/** Signs in by an `Authorization` header: a login or e-mail address with its password, or an access token. */
import { createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { networkOf } from '../config/address-ranges.ts'
import { coded, modelStopped, Refused, refuse } from '../errors/refusal.ts'
import { type AccountDocument, FIRST_ADMIN, maySignIn } from '../projections/models/users/accounts.fold.ts'
import type { Services } from '../services/services.ts'
import { currentAccount } from './current-account.ts'
import {
  type Attempt,
  createPasswordChecks,
  SIGN_IN_LIMITS,
  type SignInLimits,
} from './passwords/password-checks.ts'
import { dummyHash, hashPassword, isWeaker, MAX_PASSWORD } from './passwords/passwords.ts'
import { findToken, storedPassword, strengthenPassword } from './secrets.ts'
import { recordsTokenUse } from './token-uses.ts'

export interface Identity {
  account: AccountDocument
  /** Scopes and id of the token; null when the requester signed in with the password. */
  tokenScopes: readonly string[] | null
  tokenId: number | null
  /** The hash of the session, for a sign-in on a page by a session. */
  session?: string
}

/**
 * Whether a sign-in still counts. `account` and `hasToken`: the account as it is now, and whether its token is there.
 * A sign-in by password ends with that password.
 */
export function isSignInValid(
  signIn: Pick<Identity, 'account' | 'tokenId'>,
  account: AccountDocument | undefined,
  hasToken: boolean,
): account is AccountDocument {
  if (account === undefined || account.mustChangePassword || !maySignIn(account)) return false
  return signIn.tokenId === null ? account.passwordId === signIn.account.passwordId : hasToken
}

/**
 * Returns the identity for these credentials from that address; null without credentials.
 * @throws Refused (unauthenticated) for bad credentials, Refused (forbidden) for a disabled account, Throttled after
 * too many bad passwords
 */
type Authenticate = (authorization: string | undefined, ip: string) => Promise<Identity | null>

const NO_PASSWORDS = refuse.unauthenticated(
  'passwords are switched off here; put an access token in the place of the password: the page /user/settings/applications makes one',
)

const FIVE_MINUTES_MS = 5 * 60_000

/** Maximum wait of a sign-in for the read models after a start, in milliseconds. */
const CATCH_UP_MS = 5000

/** Maximum number of recently verified passwords: enough for 10,000 users who send theirs with every request. */
const MAX_VERIFIED = 10_000

const TOKEN = /^[0-9a-f]{40}$/

type Credentials = { token: string } | { name: string; password: string }

/** Creates the check of a server, which keeps failures and recently verified passwords. */
export function createAuthenticate(
  services: Pick<Services, 'events' | 'views' | 'accountChanges' | 'secrets'> & {
    config: Pick<Services['config'], 'localPasswords'>
    projector: Pick<Services['projector'], 'caughtUp' | 'position'>
  },
  limits: SignInLimits = SIGN_IN_LIMITS,
): Authenticate {
  const { views, secrets, projector, config } = services
  const recordUse = recordsTokenUse(secrets)
  const { check, withNetworkLock } = createPasswordChecks(limits)
  // Keys of `verified` are HMACs with this secret, so a leak of the memory does not reveal passwords.
  const cacheSecret = randomBytes(32)
  /** The stored hash that a password matched. Ignored after the stored hash has changed. */
  const verified = new LRUCache<string, string>({ max: MAX_VERIFIED, ttl: FIVE_MINUTES_MS })
  /** Ids of users whose weaker hash is being replaced. */
  const strengthening = new Set<number>()

  /**
   * Looks up a document. Waits for the read models after a start.
   * @throws Refused (unavailable) while the credentials cannot be checked
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
      throw new Refused(modelStopped('the read model of tokens has stopped'))
    }
    if (document?.userId !== secret.userId || account?.kind !== 'user') return undefined
    recordUse(secret.tokenId)
    return {
      account: await currentAccount(services, account),
      tokenScopes: document.scopes,
      tokenId: secret.tokenId,
    }
  }

  async function byPassword(name: string, password: string, network: string): Promise<Identity | undefined> {
    const nameKey = name.toLowerCase()
    // `admin` can sign in while the provider does not answer, and before the first user exists.
    if (!config.localPasswords && nameKey !== FIRST_ADMIN) throw new Refused(NO_PASSWORDS)
    if (password.length > MAX_PASSWORD) return undefined

    // Addresses contain an @ and logins do not. An organization may have the address of a user.
    const named = nameKey.includes('@')
      ? ({ kind: 'user', emailKeys: nameKey } as const)
      : { loginKey: nameKey }
    const known = await find(() => views.accounts.findOne(named))
    const account = known && (await currentAccount(services, known))
    const stored =
      account?.kind === 'user' ? await storedPassword(secrets, account.id, account.passwordId) : undefined
    const hash = stored?.hash ?? dummyHash()
    const cacheKey = cacheKeyOf(nameKey, password, hash)
    const attempt = { password, hash, nameKey, network }
    const isKnown = verified.get(cacheKey) === hash
    const isCorrect = isKnown || (await check(cacheKey, attempt))
    if (!isKnown && isCorrect) verified.set(cacheKey, hash)
    if (!isCorrect || stored === undefined || account === undefined) return undefined
    if (stored.unused) {
      // If this fails, the next start prints the hint about the password again.
      const same = { weaker: hash, stronger: hash }
      await strengthenPassword(secrets, account.id, account.passwordId, same).catch(() => {})
    }
    // Not awaited; a failure is retried at the next sign-in.
    if (!isKnown && isWeaker(hash)) {
      void strengthen(account, attempt).catch(() => {})
    }
    return { account, tokenScopes: null, tokenId: null }
  }

  const cacheKeyOf = (nameKey: string, password: string, hash: string) =>
    createHmac('sha256', cacheSecret)
      .update(JSON.stringify([nameKey, password, hash]))
      .digest('base64')

  /** Hashes a verified password at the present cost. One at a time per user. */
  async function strengthen(account: AccountDocument, attempt: Attempt): Promise<void> {
    const { password, hash: weaker, nameKey, network } = attempt
    if (strengthening.has(account.id)) return
    strengthening.add(account.id)
    try {
      const stronger = await withNetworkLock(network, () => hashPassword(password))
      const isKept = await strengthenPassword(secrets, account.id, account.passwordId, { weaker, stronger })
      if (isKept) verified.set(cacheKeyOf(nameKey, password, stronger), stronger)
    } finally {
      strengthening.delete(account.id)
    }
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
          (await byPassword(credentials.name, credentials.password, networkOf(ip))))
    if (identity === undefined || identity.account.deleted) {
      throw new Refused(coded('bad_credentials', refuse.unauthenticated('bad credentials')))
    }
    // Revealed only to clients with valid credentials.
    if (!maySignIn(identity.account)) {
      throw new Refused(
        coded(
          'sign_in_prohibited',
          refuse.forbidden('this account is prohibited from signing in; ask a site admin'),
        ),
      )
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
      const name = text.slice(0, colon)
      const password = text.slice(colon + 1)
      const loginIsToken = password === '' || password === 'x-oauth-basic'
      return loginIsToken ? { token: name } : { name, password }
    }
    default:
      return undefined
  }
}
