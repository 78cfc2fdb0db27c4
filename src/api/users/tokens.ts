/** Access tokens on the wire, and the look-up of their owner in a path. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { signedIn } from '../../auth/requester.ts'
import { wholeSeconds } from '../../domain/times.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { TokenDocument } from '../../projections/models/users/tokens.fold.ts'
import type { Services } from '../../services/services.ts'
import { userNamed } from './users.ts'

export const AccessTokenWire = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    /** The token itself, only in the answer to its creation; empty in all others. */
    sha1: Type.String(),
    token_last_eight: Type.String(),
    scopes: Type.Array(Type.String()),
    created_at: Type.String(),
    last_used_at: Type.String({
      description: 'Time of the last use, to the hour; created_at when never used',
    }),
  },
  { title: 'AccessToken' },
)

/** Returns a token as Gitea's `AccessToken`. `secret`: the token itself, only in the answer to its creation. */
export function accessTokenWire(
  token: Pick<TokenDocument, 'id' | 'name' | 'lastEight' | 'createdAt'> & { scopes: readonly string[] },
  { secret = '', usedAt = token.createdAt }: { secret?: string; usedAt?: string | undefined } = {},
): Static<typeof AccessTokenWire> {
  const { id, name, lastEight, scopes, createdAt } = token
  return {
    id,
    name,
    sha1: secret,
    token_last_eight: lastEight,
    scopes: [...scopes],
    created_at: wholeSeconds(createdAt),
    last_used_at: wholeSeconds(usedAt),
  }
}

/**
 * Returns the user in the path. The requester must be that user or a site admin, and must have signed in with the
 * password: otherwise a token with few scopes could create a token with all scopes.
 * @throws Refused (unauthenticated, forbidden, not found)
 */
export async function tokenOwner(
  services: Services,
  request: FastifyRequest,
  username: string,
): Promise<AccountDocument> {
  const requester = signedIn(request)
  if (request.tokenScopes !== null) {
    throw new Refused(refuse.unauthenticated('access tokens require Basic authentication with the password'))
  }
  if (!requester.siteAdmin && requester.loginKey !== username.toLowerCase()) {
    throw new Refused(refuse.forbidden('only the user and site admins may manage the tokens of a user'))
  }
  return userNamed(services, username)
}
