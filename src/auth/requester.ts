/** The requester of a request, as sign-in found it. */
import type { FastifyRequest } from 'fastify'
import { networkOf } from '../config/address-ranges.ts'
import { Refused, refuse } from '../errors/refusal.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The signed-in account; null for an anonymous request. */
    requester: AccountDocument | null
  }
}

/** Returns the scheduling key: the account, or the address of an anonymous request. */
export function clientOf({ requester, ip }: Pick<FastifyRequest, 'requester' | 'ip'>): string {
  return requester === null ? `address ${networkOf(ip)}` : `account ${requester.id}`
}

/** The signed-in requester. @throws Refused (unauthenticated) for an anonymous request */
export function signedIn({ requester }: Pick<FastifyRequest, 'requester'>): AccountDocument {
  if (requester === null) throw new Refused(refuse.unauthenticated('sign in first'))
  return requester
}

/** Returns the requester, who must be a site admin. `what` ends the message "only site admins …". @throws Refused */
export function siteAdmin(request: FastifyRequest, what: string): AccountDocument {
  const requester = signedIn(request)
  if (!requester.siteAdmin) throw new Refused(refuse.forbidden(`only site admins ${what}`))
  return requester
}
