/** `Sudo`: a site admin acts in the name of a user, as in Gitea. Only the API knows it, not git and not the pages. */
import type { FastifyRequest } from 'fastify'
import { coded, Refused, refuse } from '../errors/refusal.ts'
import { type AccountDocument, maySignIn } from '../projections/models/users/accounts.fold.ts'
import { currentAccount } from './current-account.ts'
import type { Identity } from './sign-in.ts'
import { missingScopes, type ScopeLevel } from './token-scopes.ts'

const API = '/api/v1/'

export const NO_SUDO = refuse.forbidden('only site admins may act in the name of others (Sudo)')

/**
 * The login that a request names, in the parameter `sudo` or else in the header. The route says that it is the API's, not
 * the path, which has many forms (`/%61pi/v1/user`): who sends each request on in somebody's name relies on it.
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
 * The user in whose name the request acts; undefined when it names none. Gitea asks for no scope here. But a token that only
 * writes issues should not write them in everybody's name: to act for others is work of an admin, so it needs that scope, at
 * the level of the route.
 * @throws Refused: forbidden when the account is no site admin, its token lacks the scope, or the user may not sign in; not
 *   found
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
