/** Who may do what with a repository: decided from the requester's and the repository's documents. */
import type { Permission } from '../events/domain-events.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'

export type Access = 'none' | Permission

const RANK: Record<Access, number> = { none: 0, read: 1, write: 2, admin: 3 }

/**
 * The requester's access: the most of what being a site admin, the owner, a member of the owning
 * organization, a collaborator, or (in a public repository) anyone gives. Null is an anonymous requester.
 */
export function accessTo(repository: RepositoryDocument, requester: AccountDocument | null): Access {
  const anyone: Access = repository.private ? 'none' : 'read'
  if (requester === null) return anyone
  if (requester.siteAdmin || requester.id === repository.ownerId) return 'admin'
  const given: Access[] = [
    anyone,
    requester.memberships[`${repository.ownerId}`] ?? 'none',
    repository.collaborators[`${requester.id}`]?.permission ?? 'none',
  ]
  return given.reduce((most, access) => (RANK[access] > RANK[most] ? access : most))
}

export function atLeast(access: Access, needed: Permission): boolean {
  return RANK[access] >= RANK[needed]
}
