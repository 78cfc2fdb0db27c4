/** Sign-in by a session: what a person has on pages after the provider has said who it is. */
import { maySignIn } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { currentAccount } from '../current-account.ts'
import type { Identity } from '../sign-in.ts'
import { cookieIn, setCookie } from './cookies.ts'
import { keepSession, SESSION_MS, sessionOf } from './session-store.ts'

const COOKIE = 'mergelog-session'

type Stores = Pick<Services, 'secrets' | 'publicUrl'>

/** Begins a session. Resolves to the header that gives it to the browser. */
export async function beginSession({ secrets, publicUrl }: Stores, userId: number): Promise<string> {
  return setCookie(publicUrl(), COOKIE, await keepSession(secrets, userId), SESSION_MS / 1000)
}

/** The header that takes the cookie of a session away. */
export const noSession = (publicUrl: string): string => setCookie(publicUrl, COOKIE, '', 0)

/** Who a request is by its cookies; null when they name no session that counts. */
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
