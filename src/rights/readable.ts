/** Which repositories somebody may read: what `accessTo` says of one, as a filter for many. */
import type { AccountDocument } from '../projections/accounts.ts'
import type { Filter } from '../projections/read-store.ts'
import { ANYONE, type RepositoryDocument } from '../projections/repositories.ts'

/** `null`: an anonymous requester. */
export function readableBy(requester: AccountDocument | null): Filter<RepositoryDocument> {
  if (requester === null) return { readers: ANYONE }
  if (requester.siteAdmin) return {}
  const organizations = Object.keys(requester.memberships).map(Number)
  return { readers: { $in: [ANYONE, requester.id, ...organizations] } }
}
