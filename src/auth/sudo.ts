/** `Sudo`: a site admin acts for a user, as in Gitea. Only in the API, not in git and on pages. */
import type { FastifyRequest } from 'fastify'
import { coded, Refused, refuse } from '../errors/refusal.ts'
import { type AccountDocument, maySignIn } from '../projections/models/users/accounts.fold.ts'
import { currentAccount } from './current-account.ts'
import type { Identity } from './sign-in.ts'
import { missingScopes, type ScopeLevel } from './token-scopes.ts'

const API = '/api/v1/'

export const NO_SUDO = refuse.forbidden('only site admins may act for other users (Sudo)')

/**
 * Returns the login in the parameter `sudo` or the header. API routes are recognized by their configuration, not by the
 * path, which has many spellings (`/%61pi/v1/user`): proxies that impersonate users rely on it.
 */
export function wantedSudo({ headers, query, routeOptions }: FastifyRequest): string | undefined {
  if (!routeOptions.url?.startsWith(API)) return undefined
  const parameter = typeof query === 'object' && query !== null && 'sudo' in query ? query.sudo : undefined
  const login = parameter === undefined || parameter === '' ? headers.sudo : parameter
  if (login === undefined || login === '') return undefined
  if (typeof login !== 'string') throw new Refused(refuse.invalid('sudo: give one login'))
  return login
}

/**
 * Returns the user for whom the request acts; undefined without one. Unlike in Gitea, the token needs the admin scope
 * at the level of the route, so that a token for issues cannot act for other users.
 * @throws Refused: forbidden when the account is not a site admin, its token lacks the scope, or the user may not sign
 * in; not found
 */
export async function sudoTarget(
  services: Parameters<typeof currentAccount>[0],
  request: FastifyRequest,
  { account, tokenScopes }: Pick<Identity, 'account' | 'tokenScopes'>,
  level: ScopeLevel,
): Promise<AccountDocument | undefined> {
  const login = wantedSudo(request)
  if (login === undefined) return undefined
  if (!account.siteAdmin) throw new Refused(NO_SUDO)
  const missing = tokenScopes === null ? [] : missingScopes(tokenScopes, ['admin'], level)
  if (missing.length > 0) {
    throw new Refused(
      coded(
        'token_scope_missing',
        refuse.forbidden(`sudo: token does not have the required scope: ${missing.join(', ')}`),
      ),
    )
  }
  const known = await services.views.accounts.findOne({ loginKey: login.toLowerCase() })
  const user = known && (await currentAccount(services, known))
  if (user?.kind !== 'user' || user.deleted) throw new Refused(refuse.notFound(`sudo: no user ${login}`))
  if (!maySignIn(user)) throw new Refused(refuse.forbidden('sudo: this account may not sign in'))
  return user
}
