/** The teams of a user. The Owners of an organization have the id of the organization. Pure. */

import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'

type Member = Pick<AccountDocument, 'teams' | 'memberships'>

const ownedBy = ({ memberships }: Member) =>
  Object.entries(memberships).flatMap(([id, permission]) => (permission === 'admin' ? [Number(id)] : []))

/** The ids of all teams of a user. */
export const teamIdsOf = (user: Member): number[] => [
  ...Object.keys(user.teams).map(Number),
  ...ownedBy(user),
]

/** Returns a user with those teams that have the repository. */
export const memberOf = (
  repository: Pick<RepositoryDocument, 'ownerId' | 'ownerKind' | 'teams'>,
  user: Member & { id: number },
) => ({ id: user.id, teams: teamsWith(repository, user) })

/** Returns the ids of a user's teams that have the repository now. Teams of a former owner do not. */
export function teamsWith(
  { ownerId, ownerKind, teams }: Pick<RepositoryDocument, 'ownerId' | 'ownerKind' | 'teams'>,
  user: Member,
): number[] {
  if (ownerKind === 'user') return []
  const made = Object.entries(user.teams).flatMap(([id, { organizationId, allRepositories }]) => {
    const isGiven = organizationId === ownerId && (allRepositories || teams.includes(Number(id)))
    return isGiven ? [Number(id)] : []
  })
  return [...made, ...ownedBy(user).filter((id) => id === ownerId)]
}
