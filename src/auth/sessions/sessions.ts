/** Sign-in by a session cookie of pages, after OpenID Connect. */
import { maySignIn } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { currentAccount } from '../current-account.ts'
import type { Identity } from '../sign-in.ts'
import { cookieIn, setCookie } from './cookies.ts'
import { keepSession, SESSION_MS, sessionOf } from './session-store.ts'

const COOKIE = 'mergelog-session'

type Stores = Pick<Services, 'secrets' | 'publicUrl'>

/** Begins a session. Resolves to the header that sets its cookie. */
export async function beginSession({ secrets, publicUrl }: Stores, userId: number): Promise<string> {
  return setCookie(publicUrl(), COOKIE, await keepSession(secrets, userId), SESSION_MS / 1000)
}

/** Returns the header that deletes the cookie of a session. */
export const noSession = (publicUrl: string): string => setCookie(publicUrl, COOKIE, '', 0)

/** Returns the identity for a request's cookies; null without a valid session. */
export async function bySession(
  services: Parameters<typeof currentAccount>[0] & Stores,
  cookies: string | undefined,
): Promise<Identity | null> {
  const { secrets, views, publicUrl } = services
  const key = cookieIn(cookies, publicUrl(), COOKIE)
  const session = key === undefined ? undefined : await sessionOf(secrets, key)
  const document = session && (await views.accounts.get(`${session.userId}`))
  const account = document && (await currentAccount(services, document))
  if (session === undefined || account === undefined || account.deleted || !maySignIn(account)) return null
  return { account, tokenScopes: null, tokenId: null, session: session.hash }
}
