/** The repositories that a requester may read, as a filter. It agrees with `accessTo`. */
import type { AccountDocument } from '../projections/accounts.ts'
import type { Filter } from '../projections/read-store.ts'
import { ANYONE, type RepositoryDocument } from '../projections/repositories.ts'

/** Null is an anonymous requester. */
export function readableBy(requester: AccountDocument | null): Filter<RepositoryDocument> {
  if (requester === null) return { readers: ANYONE }
  if (requester.siteAdmin) return {}
  const organizations = Object.keys(requester.memberships).map(Number)
  return { readers: { $in: [ANYONE, requester.id, ...organizations] } }
}
