/** Who asks: what a handler takes from its request after sign-in. */
import type { FastifyRequest } from 'fastify'
import type { AccountDocument } from '../projections/accounts.ts'
import { Refused, refuse } from '../refusal.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The signed-in account; null for an anonymous request. */
    requester: AccountDocument | null
  }
}

/** The signed-in requester, or 401. */
export function signedIn({ requester }: Pick<FastifyRequest, 'requester'>): AccountDocument {
  if (requester === null) throw new Refused(refuse.unauthenticated('sign in first'))
  return requester
}

/** The signed-in requester, who must be a site admin. `what` says what only they do. */
export function siteAdmin(request: FastifyRequest, what: string): AccountDocument {
  const requester = signedIn(request)
  if (!requester.siteAdmin) throw new Refused(refuse.forbidden(`only site admins ${what}`))
  return requester
}
