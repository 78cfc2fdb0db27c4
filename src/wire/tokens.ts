/** Access tokens on the wire, and the user in a path whose tokens they are. */
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { AccountDocument } from '../projections/accounts.ts'
import { Refused, refuse } from '../refusal.ts'
import { signedIn } from '../rights/requester.ts'
import type { Services } from '../services.ts'
import { userNamed } from './users.ts'

export const AccessTokenWire = Type.Object({
  id: Type.Integer(),
  name: Type.String(),
  /** Only in the answer that made the token; empty afterwards. */
  sha1: Type.String(),
  token_last_eight: Type.String(),
  scopes: Type.Array(Type.String()),
})

/**
 * The user in the path, for a requester who is that user or a site admin and who signed in with the
 * password: a token, which may be limited, can't make one that is not.
 */
export async function tokenOwner(
  services: Services,
  request: FastifyRequest,
  username: string,
): Promise<AccountDocument> {
  const requester = signedIn(request)
  if (request.tokenScopes !== null) {
    throw new Refused(
      refuse.unauthenticated('access tokens are managed with the password, by Basic authentication'),
    )
  }
  if (!requester.siteAdmin && requester.loginKey !== username.toLowerCase()) {
    throw new Refused(refuse.forbidden('only the user and site admins manage the tokens of a user'))
  }
  return userNamed(services, username)
}
